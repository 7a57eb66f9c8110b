import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.parts.component import creating_variables, named_variables, regularized_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError

PARAMS = {"encoder_layers": 2, "hidden_size": 16, "num_heads": 2, "attention_dropout": 0.1, "filter_size": 32,
          "src_vocab_size": 21, "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1, "remove_padding": False}
NORMS = ["layernorm_L2", "layernorm_L1", "batch_norm"]


def make(**params):
    with creating_variables(3):
        return TransformerEncoder({**PARAMS, **params}, name="encoder")


def batch(lengths=(7, 3, 5), padding=0):
    ids = np.random.default_rng(0).integers(3, 21, (len(lengths), max(lengths) + padding)).astype(np.int32)
    ids[np.arange(ids.shape[1]) >= np.array(lengths)[:, None]] = 0
    return [tf.constant(ids), tf.constant(lengths, tf.int32)]


def encode(encoder, tensors, training=False):
    return encoder.encode({"source_tensors": tensors}, training)["outputs"]


def test_variable_names():
    names = set(named_variables(make(encoder_layers=1)))
    assert names == {
        "embedding/table", "output_norm/gamma", "output_norm/beta",
        *(f"layer_0/self_attention/{n}" for n in ("query", "key", "value", "output")),
        *(f"layer_0/feed_forward/{n}" for n in ("filter_kernel", "filter_bias", "output_kernel", "output_bias")),
        *(f"layer_0/{s}_norm/{n}" for s in ("self_attention", "feed_forward") for n in ("gamma", "beta"))}


def test_outputs():
    encoder = make()
    result = encoder.encode({"source_tensors": batch()})
    assert result["outputs"].shape == [3, 7, 16]
    np.testing.assert_array_equal(result["outputs_length"], [7, 3, 5])
    np.testing.assert_array_equal(result["src_lengths"], [7, 3, 5])
    assert result["embedding_softmax_layer"] is encoder.embedding and result["state"] is None
    assert result["inputs_attention_bias"].shape == [3, 1, 1, 7]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("remove_padding", [True, False])
def test_alone_as_in_a_batch(norm, remove_padding):
    encoder = make(norm_params={"type": norm}, remove_padding=remove_padding)
    ids, lengths = batch(padding=4)
    together = encode(encoder, [ids, lengths]).numpy()
    for row, length in enumerate(lengths.numpy()):
        alone = encode(encoder, [ids[row:row + 1, :length], lengths[row:row + 1]]).numpy()
        np.testing.assert_allclose(together[row, :length], alone[0], atol=1e-5)


def test_remove_padding_changes_no_result_and_no_gradient():
    tensors, results = batch(), []
    mask = tf.cast(tf.sequence_mask(tensors[1], 7), tf.float32)[..., None]
    for remove_padding in (True, False):
        encoder = make(remove_padding=remove_padding)
        variables = named_variables(encoder)
        with tf.GradientTape() as tape:
            outputs = encode(encoder, tensors) * mask
            loss = tf.reduce_sum(tf.sin(outputs))
        gradients = tape.gradient(loss, variables)
        results.append([outputs, *(tf.convert_to_tensor(g) for g in gradients.values())])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_bfloat16_is_close(norm):
    outputs = [tf.cast(encode(make(dtype=d, norm_params={"type": norm}), batch()), tf.float32) for d in
               ("float32", "bfloat16")]
    assert np.linalg.norm(outputs[0] - outputs[1]) < 0.03 * np.linalg.norm(outputs[0])


def test_dropout_only_in_training_and_by_seed():
    encoder, tensors = make(remove_padding=True), batch()
    with forward_pass(1, 0):
        first = encode(encoder, tensors, True)
    with forward_pass(1, 0):
        again = encode(encoder, tensors, True)
    with forward_pass(1, 1):
        other = encode(encoder, tensors, True)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    np.testing.assert_array_equal(encode(encoder, tensors), encode(encoder, tensors))


def test_no_examples():
    for shape in ([0, 0], [0, 5]):
        assert encode(make(remove_padding=True), [tf.zeros(shape, tf.int32), tf.zeros([0], tf.int32)]).shape[0] == 0


def test_regularizer_acts_on_the_matrices():
    encoder = make(regularizer="L2", regularizer_params={"l2": 0.1}, encoder_layers=1)
    regularized = {id(variable) for variable, _ in regularized_variables(encoder)}
    names = {name for name, variable in named_variables(encoder).items() if id(variable) in regularized}
    assert names == {*(f"layer_0/self_attention/{n}" for n in ("query", "key", "value", "output")),
                     "layer_0/feed_forward/filter_kernel", "layer_0/feed_forward/output_kernel"}


def test_initializer_acts_on_the_matrices():
    encoder = make(initializer="RandomUniform", initializer_params={"minval": 0.5, "maxval": 0.6})
    query = encoder.layers[0].self_attention.query.numpy()
    assert 0.5 <= query.min() and query.max() <= 0.6
    assert encoder.embedding.table.numpy().min() < 0


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match=r"encoder_params/hidden_size' must be a multiple of num_heads \(3\), got 16"):
        make(num_heads=3)
    with pytest.raises(ConfigError, match="encoder_params/norm_params/type"):
        make(norm_params={"type": "rms"})


@pytest.mark.parametrize("layers, hidden, filters, millions", [(6, 512, 2048, 60.9), (6, 1024, 4096, 209.8)])
def test_parameter_count(layers, hidden, filters, millions):
    from open_seq2seq.decoders import TransformerDecoder
    from open_seq2seq.parts.component import _walk

    sizes = {"hidden_size": hidden, "num_heads": 8, "filter_size": filters, "attention_dropout": 0.1,
             "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1}
    with creating_variables(shared=True):
        encoder = TransformerEncoder(
            {**sizes, "encoder_layers": layers, "src_vocab_size": 32768, "remove_padding": True})
        decoder = TransformerDecoder({
            **sizes, "num_hidden_layers": layers, "tgt_vocab_size": 32768, "EOS_ID": 1, "batch_size": 1,
            "beam_size": 4, "alpha": 0.6, "extra_decode_length": 50})
    total = sum(np.prod(leaf.shape) for part in (encoder, decoder) for _, leaf, _ in _walk(part, "", set()))
    assert abs(total / 1e6 / millions - 1) < 0.01
