import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import ConvS2SEncoder
from open_seq2seq.encoders.convs2s_encoder import scale_gradient
from open_seq2seq.parts.component import creating_variables, named_variables, regularized_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders import numpy_convs2s

VOCAB = 21
PARAMS = {"src_emb_size": 6, "src_vocab_size": VOCAB, "pad_embeddings_2_eight": False,
          "conv_nchannels_kwidth": [(6, 3), (10, 2), (10, 1)], "embedding_dropout_keep_prob": 0.8,
          "hidden_dropout_keep_prob": 0.8, "max_input_length": 8}
NORMALIZATIONS = ["weight_norm", "batch_norm", "layer_norm", None]


def make(**params):
    with creating_variables(3):
        return ConvS2SEncoder({**PARAMS, **params}, name="encoder")


def batch(lengths=(7, 1, 11), padding=0):
    ids = np.random.default_rng(0).integers(3, VOCAB, (len(lengths), max(lengths))).astype(np.int32)
    ids[np.arange(ids.shape[1]) >= np.array(lengths)[:, None]] = 0
    return [tf.pad(ids, [[0, 0], [0, padding]]), tf.constant(lengths, tf.int32)]


def encode(encoder, tensors, training=False):
    return encoder.encode({"source_tensors": tensors}, training)


def shaken(module):
    """Gives all variables other values than they began with, so that gains are not norms and biases not zeros."""
    rng = np.random.default_rng(4)
    for variable in named_variables(module).values():
        if variable.trainable:
            variable.assign_add(rng.normal(0, 0.1, variable.shape).astype(np.float32))
    return module


def test_variable_names():
    layer = {"kernel", "gain", "bias"}
    assert set(named_variables(make(conv_nchannels_kwidth=[(6, 3), (8, 3)]))) == {
        "embedding/table", "positions/table", *(f"input_layer/{n}" for n in layer),
        *(f"layer_{i}/convolution/{n}" for i in (0, 1) for n in layer), *(f"layer_1/projection/{n}" for n in layer),
        *(f"output_layer/{n}" for n in layer)}


def test_equals_numpy():
    encoder = shaken(make())
    ids, lengths = batch()
    result = encode(encoder, [ids, lengths])
    for row, length in enumerate(lengths.numpy()):
        keys, values = numpy_convs2s.encode(encoder, ids.numpy()[row, :length])
        np.testing.assert_allclose(result["outputs"][row, :length], keys, atol=2e-6)
        np.testing.assert_allclose(result["outputs_b"][row, :length], values, atol=2e-6)
        assert not np.any(result["outputs"][row, length:]) and not np.any(result["outputs_b"][row, length:])


def test_kernels_begin_normalised():
    """Gains are the kernels' norms at first, so that the initial values are those that were drawn."""
    layer = make().layers[1].convolution
    np.testing.assert_allclose(layer.normalized_kernel(tf.float32), layer.kernel, atol=1e-6)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_alone_as_in_a_batch(kind):
    encoder = make(normalization_type=kind)
    ids, lengths = batch(padding=4)
    together = encode(encoder, [ids, lengths])
    for row, length in enumerate(lengths.numpy()):
        alone = encode(encoder, [ids[row:row + 1, :length], lengths[row:row + 1]])
        for name in ("outputs", "outputs_b"):
            np.testing.assert_allclose(together[name][row, :length], alone[name][0],
                                       atol=2e-4 if kind == "layer_norm" else 1e-5)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_training_does_not_depend_on_padding(kind):
    """Gradients, and moving statistics of batch norm."""
    results = []
    for padding in (0, 5):
        encoder = make(normalization_type=kind, embedding_dropout_keep_prob=1.0, hidden_dropout_keep_prob=1.0)
        variables = named_variables(encoder)
        with tf.GradientTape() as tape, forward_pass(0, 0):
            loss = tf.reduce_sum(tf.sin(encode(encoder, batch(padding=padding), True)["outputs"]))
        weights = {name: variable for name, variable in variables.items() if variable.trainable}
        found = tape.gradient(loss, weights)
        results.append([*(tf.convert_to_tensor(gradient) for gradient in found.values()),
                        *(variable for variable in variables.values() if not variable.trainable)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_gradients_of_the_outputs_are_divided():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = scale_gradient(x, 0.25)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(tape.gradient(y, x), [0.25, 0.25])
    one, three = ({name: tf.convert_to_tensor(value) for name, value in gradients(make(att_layer_num=n)).items()}
                  for n in (1, 3))
    np.testing.assert_allclose(one["layer_0/convolution/kernel"], 3 * three["layer_0/convolution/kernel"], rtol=1e-4,
                               atol=1e-6)


def gradients(encoder):
    variables = named_variables(encoder)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.sin(encode(encoder, batch())["outputs"]))
    return tape.gradient(loss, variables)


def test_gradients_agree_with_differences():
    # Half of the gradient is lost on purpose, so differences are taken of a loss that is twice as steep.
    encoder, rng = shaken(make(att_layer_num=1)), np.random.default_rng(0)
    variables, found = named_variables(encoder), gradients(encoder)
    for name, variable in variables.items():
        direction = rng.normal(size=variable.shape).astype(np.float32)
        direction *= 1e-2 / np.linalg.norm(direction)
        value, ends = variable.numpy(), []
        for sign in (1, -1):
            variable.assign(value + sign * direction)
            ends.append(float(tf.reduce_sum(tf.sin(encode(encoder, batch())["outputs"]))))
        variable.assign(value)
        slope = 2 * 2 * np.sum(tf.convert_to_tensor(found[name]).numpy() * direction)
        np.testing.assert_allclose(ends[0] - ends[1], slope, rtol=0.02, atol=1e-4, err_msg=name)


def test_dropout_only_in_training_and_by_seed():
    encoder, tensors = make(), batch()
    results = []
    for step in (0, 0, 1):
        with forward_pass(1, step):
            results.append(encode(encoder, tensors, True)["outputs"].numpy())
    np.testing.assert_array_equal(results[0], results[1])
    assert np.abs(results[0] - results[2]).max() > 0.01
    np.testing.assert_array_equal(encode(encoder, tensors)["outputs"], encode(encoder, tensors)["outputs"])


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_bfloat16_is_close(kind):
    outputs = [tf.cast(encode(make(dtype=dtype, normalization_type=kind), batch())["outputs"], tf.float32)
               for dtype in ("float32", "bfloat16")]
    assert np.linalg.norm(outputs[0] - outputs[1]) < 0.03 * np.linalg.norm(outputs[0])


@pytest.mark.parametrize("shape", [[0, 0], [0, 5], [2, 0]])
def test_no_examples_and_no_tokens(shape):
    result = encode(make(), [tf.zeros(shape, tf.int32), tf.zeros(shape[:1], tf.int32)])
    assert result["outputs"].shape == [*shape, 6]


def test_sentences_of_no_tokens():
    ids, lengths = batch()
    together = encode(make(), [ids * [[1], [0], [1]], lengths * [1, 0, 1]])["outputs"]
    assert not np.any(together[1]) and np.all(np.isfinite(together))


def test_another_activation_keeps_the_channels():
    encoder = make(conv_activation="tanh")
    assert encoder.layers[0].convolution.out_channels == 6
    assert encode(encoder, batch())["outputs"].shape == [3, 11, 6]
    assert make(conv_activation="gated_linear_units").layers[0].convolution.out_channels == 12
    assert make(conv_activation=None).layers[0].convolution.out_channels == 6


def test_initial_values():
    given = make(init_var=0.01).layers[0].convolution.kernel.numpy()
    assert 0.005 < given.std() < 0.015
    wide = make(conv_nchannels_kwidth=[(64, 3)], src_emb_size=64).layers[0].convolution.kernel.numpy()
    np.testing.assert_allclose(wide.std(), np.sqrt(4 * 0.8 / (3 * 64)), rtol=0.05)
    uniform = make(initializer="RandomUniform", initializer_params={"minval": 0.5, "maxval": 0.6})
    assert uniform.layers[0].convolution.kernel.numpy().min() >= 0.5 > uniform.embedding.table.numpy().max()


def test_regularizer_acts_on_the_kernels():
    encoder = make(regularizer="L2", regularizer_params={"l2": 0.1})
    regularized = {id(variable) for variable, _ in regularized_variables(encoder)}
    assert {name for name, variable in named_variables(encoder).items() if id(variable) in regularized} == {
        name for name in named_variables(encoder) if name.endswith("/kernel")}


@pytest.mark.parametrize(("params", "message"), [
    ({"conv_nchannels_kwidth": []}, "conv_nchannels_kwidth' is empty"),
    ({"conv_nchannels_kwidth": [(6, 3), 6]}, "conv_nchannels_kwidth/1' is 6 but has to be a pair"),
    ({"conv_nchannels_kwidth": [(6, 0)]}, "conv_nchannels_kwidth/0"),
    ({"PAD_SYMBOL": 3}, "PAD_SYMBOL' must be 0, got 3"),
    ({"conv_activation": "gated_linear_unit"}, "gated_linear_units"),
    ({"conv_activation": lambda x: x[..., :1]}, r"returns the shape \[1, 1, 1\]"),
    ({"conv_activation": lambda x: x.missing}, "fails for a tensor"),
    ({"normalization_type": "instance_norm"}, "normalization_type"),
    ({"hidden_dropout_keep_prob": 0.0}, "above 0 and at most 1"),
    ({"max_input_length": 0}, "max_input_length")])
def test_mistakes_are_named(params, message):
    with pytest.raises(ConfigError, match=message):
        make(**params)
