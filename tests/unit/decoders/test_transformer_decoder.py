import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.machine import has_bfloat16, has_onednn

VOCAB, BATCH, SOURCE, TARGET = 21, 3, 7, 6
SIZES = {"hidden_size": 16, "num_heads": 2, "filter_size": 32, "attention_dropout": 0.1, "relu_dropout": 0.1,
         "layer_postprocess_dropout": 0.1}
ENCODER = {"encoder_layers": 2, "src_vocab_size": VOCAB, "remove_padding": True}
DECODER = {"num_hidden_layers": 2, "tgt_vocab_size": VOCAB, "EOS_ID": 1, "batch_size": BATCH, "beam_size": 3,
           "alpha": 0.6, "extra_decode_length": 4}
NORMS = ["layernorm_L2", "layernorm_L1", "batch_norm"]


class Translator(tf.Module):
    def __init__(self, encoder=None, norm="layernorm_L2", dtype="float32", **decoder):
        super().__init__()
        shared = {**SIZES, "norm_params": {"type": norm}, "dtype": dtype}
        with creating_variables(11):
            self.encoder = TransformerEncoder({**shared, **ENCODER, **(encoder or {})}, name="encoder")
            self.decoder = TransformerDecoder({**shared, **DECODER, **decoder}, name="decoder")
            self.loss = PaddedCrossEntropyLossWithSmoothing({"label_smoothing": 0.1, "tgt_vocab_size": VOCAB})

    def decode(self, source, target=None, training=False):
        encoded = self.encoder.encode({"source_tensors": source}, training)
        inputs = {"encoder_output": encoded} if target is None else {"encoder_output": encoded,
                                                                     "target_tensors": target}
        return self.decoder.decode(inputs, training)

    def loss_term(self, source, target, training=False, keep_projection=True):
        output = self.decode(source, target, training)
        if not keep_projection:
            output = {"logits": output["logits"]}
        (term,) = self.loss.compute_loss({"decoder_output": output, "target_tensors": target})
        return term


def side(lengths, seed):
    ids = np.random.default_rng(seed).integers(3, VOCAB, (len(lengths), max(lengths))).astype(np.int32)
    for row, length in enumerate(lengths):
        ids[row, length - 1], ids[row, length:] = 1, 0
    return [tf.constant(ids), tf.constant(lengths, tf.int32)]


@pytest.fixture
def source():
    return side((7, 3, 5), 0)


@pytest.fixture
def target():
    return side((4, 6, 2), 1)


def test_variable_names():
    names = set(named_variables(Translator(num_hidden_layers=1).decoder))
    attention = {f"layer_0/{a}_attention/{n}" for a in ("self", "cross") for n in ("query", "key", "value", "output")}
    assert attention <= names and not any("embedding" in name for name in names)
    assert names - attention == {
        "output_norm/gamma", "output_norm/beta",
        *(f"layer_0/feed_forward/{n}" for n in ("filter_kernel", "filter_bias", "output_kernel", "output_bias")),
        *(f"layer_0/{s}_norm/{n}" for s in ("self_attention", "cross_attention", "feed_forward")
          for n in ("gamma", "beta"))}


@pytest.mark.parametrize("norm", NORMS)
def test_steps_equal_teacher_forcing(norm, source):
    translator, target = Translator(norm=norm), side((6, 6, 6), 1)
    whole = translator.decode(source, target)["logits"]
    encoded = translator.encoder.encode({"source_tensors": source})
    decoder, beam = translator.decoder, 2
    cache, prepared = decoder.initial_cache(encoded, beam), decoder.prepare(encoded)
    inputs = tf.pad(target[0], [[0, 0], [1, 0]])
    for step in range(TARGET):
        ids = tf.repeat(inputs[:, step:step + 1], beam, 1)
        logits, cache = decoder.step(ids, tf.constant(step), cache, prepared)
        np.testing.assert_allclose(logits, tf.repeat(whole[:, step:step + 1], beam, 1), atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_logits_alone_as_in_a_batch(norm, source, target):
    translator = Translator(norm=norm)
    together = translator.decode(source, target)["logits"].numpy()
    for row in range(BATCH):
        cut = [[ids[row:row + 1, :lengths[row]], lengths[row:row + 1]] for ids, lengths in (source, target)]
        alone = translator.decode(*cut)["logits"].numpy()[0]
        # Logits of batch norm reach 36, of which FP32 keeps no 1e-5; GPUs add in another order.
        rtol = (3e-6 if tf.config.list_physical_devices("GPU") else 1e-6) if norm == "batch_norm" else 1e-7
        np.testing.assert_allclose(together[row, :len(alone)], alone, rtol=rtol, atol=1e-5)


@pytest.mark.long
def test_beam_search_alone_as_in_a_batch(source):
    translator = Translator(n_best=3)
    together = translator.decode(source)
    assert together["beam_ids"].shape[:2] == [BATCH, 3]
    for row in range(BATCH):
        alone = translator.decode([source[0][row:row + 1, :source[1][row]], source[1][row:row + 1]])
        length = alone["beam_ids"].shape[-1]
        np.testing.assert_array_equal(together["beam_ids"][row, :, :length], alone["beam_ids"][0])
        np.testing.assert_allclose(together["beam_scores"][row], alone["beam_scores"][0], rtol=1e-5)


@pytest.mark.long
def test_rows_beyond_the_vocabulary_are_never_predicted(source, target):
    translator = Translator(encoder={"pad_embeddings_2_eight": True}, n_best=2)
    table = translator.encoder.embedding.table
    assert table.shape[0] == 24
    with_targets = translator.decode(source, target)
    assert with_targets["logits"].shape[-1] == 24
    hidden = with_targets["projection"].hidden
    table.assign(tf.concat([table[:VOCAB], 50 * tf.repeat(hidden[0, :1], 3, 0)], 0))  # far the likeliest there
    assert np.max(np.argmax(translator.decode(source, target)["logits"], -1)) >= VOCAB
    assert np.max(translator.decode(source, target)["outputs"][0]) < VOCAB
    assert np.max(translator.decode(source)["beam_ids"]) < VOCAB


def train_gradients(translator, source, target, seed=0, **options):
    variables = named_variables(translator)
    with tf.GradientTape() as tape, forward_pass(seed, 0):
        term = translator.loss_term(source, target, **options)
        loss = tf.math.divide_no_nan(term.sum, term.units)
    gradients = tape.gradient(loss, variables)
    return loss, {name: tf.convert_to_tensor(g).numpy() for name, g in gradients.items() if g is not None}


def test_loss_by_projection_is_loss_by_logits(source, target):
    translator = Translator()
    results = [train_gradients(translator, source, target, training=True, keep_projection=k) for k in (True, False)]
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5)
    for name, gradient in results[0][1].items():
        np.testing.assert_allclose(gradient, results[1][1][name], atol=2e-6, err_msg=name)


@pytest.mark.long
def test_gradients_agree_with_differences(source, target):
    translator = Translator()
    names = ["encoder/embedding/table", "encoder/layer_1/feed_forward/filter_kernel", "encoder/output_norm/gamma",
             "decoder/layer_0/self_attention/query", "decoder/layer_1/cross_attention/value",
             "decoder/layer_0/feed_forward_norm/beta", "decoder/layer_1/feed_forward/output_bias"]
    variables, rng = named_variables(translator), np.random.default_rng(0)
    _, gradients = train_gradients(translator, source, target)
    for name in names:
        direction = rng.normal(size=variables[name].shape).astype(np.float32)
        direction *= 1e-2 / np.linalg.norm(direction)
        value, ends = variables[name].numpy(), []
        for sign in (1, -1):
            variables[name].assign(value + sign * direction)
            term = translator.loss_term(source, target)
            ends.append(float(term.sum / term.units))
        variables[name].assign(value)
        np.testing.assert_allclose(ends[0] - ends[1], 2 * np.sum(gradients[name] * direction), rtol=0.05, atol=2e-5,
                                   err_msg=name)


def summed_gradients(translator, source, target, draws):
    """Returns the training loss of each draw, and the sums of the gradients."""
    losses, gradients = zip(*(train_gradients(translator, source, target, seed, training=True)
                              for seed in range(draws)), strict=True)
    return losses, {name: np.sum([one[name] for one in gradients], 0) for name in gradients[0]}


# The gradient of an absolute value jumps where rounding flips a sign: L1 is rougher in 16 channels.
@pytest.mark.parametrize("norm, tolerance", [
    ("layernorm_L2", 0.05), pytest.param("layernorm_L1", 0.2, marks=pytest.mark.long),
    # Without oneDNN's bfloat16 instructions TensorFlow's products err twice as much.
    ("batch_norm", 0.05 if has_bfloat16() and has_onednn() else 0.1)])
def test_bfloat16_gradients_are_close(norm, tolerance, source, target):
    # Summed over draws of dropout: a ReLU that flips weighs much in the gradients of a dozen tokens.
    (losses, gradients), (half_losses, half) = (
        summed_gradients(Translator(norm=norm, dtype=d), source, target, draws=8) for d in ("float32", "bfloat16"))
    np.testing.assert_allclose(losses, half_losses, rtol=1e-2)
    assert gradients.keys() == half.keys()
    errors = {name: np.linalg.norm(half[name] - gradient) for name, gradient in gradients.items()}
    sizes = {name: np.linalg.norm(gradient) for name, gradient in gradients.items()}
    assert np.linalg.norm(list(errors.values())) < tolerance * np.linalg.norm(list(sizes.values()))
    for name in gradients:
        assert half[name].dtype == np.float32 and errors[name] < 4 * tolerance * sizes[name], name


@pytest.mark.long
def test_no_examples(source):
    translator = Translator(norm="batch_norm")
    empty = [tf.zeros([0, 5], tf.int32), tf.zeros([0], tf.int32)]
    loss, gradients = tf.function(lambda: train_gradients_tensors(translator, empty))()
    assert loss == 0 and not any(np.any(g) for g in gradients)
    assert translator.decode(empty, empty)["logits"].shape[0] == 0


def train_gradients_tensors(translator, empty):
    variables = [v for v in named_variables(translator).values() if v.trainable]
    with tf.GradientTape() as tape, forward_pass(0, 0):
        term = translator.loss_term(empty, empty, training=True)
        loss = tf.math.divide_no_nan(term.sum, term.units)
    return loss, [g for g in tape.gradient(loss, variables) if g is not None]


def test_mistakes_are_named(source, target):
    with pytest.raises(ConfigError, match=r"n_best' must be from 1 to beam_size \(3\), got 4"):
        Translator(n_best=4)
    with pytest.raises(ConfigError, match=r"multiple of num_heads \(5\)"):
        Translator(num_heads=5)
    with pytest.raises(ConfigError, match="decoder_params' has 30 ids"):
        Translator(tgt_vocab_size=30).decode(source, target)


def test_an_encoder_of_another_width_has_to_say_so(source, target):
    model = Translator()
    encoded = model.encoder.encode({"source_tensors": source})
    narrow = {**encoded, "outputs": encoded["outputs"][..., :8]}
    for more in ({}, {"target_tensors": target}):
        with pytest.raises(ConfigError, match="have 8 channels, but .* 16: give the encoder an attribute output_size"):
            model.decoder.decode({"encoder_output": narrow, **more})
