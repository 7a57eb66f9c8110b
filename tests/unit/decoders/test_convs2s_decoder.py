from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import ConvS2SDecoder, TransformerDecoder
from open_seq2seq.encoders import ConvS2SEncoder, TransformerEncoder
from open_seq2seq.losses import BasicSequenceLoss, PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders import numpy_convs2s

VOCAB, BATCH, SIZE, GO, END = 21, 3, 6, 2, 1
KEEP = {"embedding_dropout_keep_prob": 0.8, "hidden_dropout_keep_prob": 0.8}
LAYERS = {"conv_nchannels_kwidth": [(6, 3), (10, 2), (10, 1)], **KEEP}
CONV_ENCODER = {"src_emb_size": SIZE, "src_vocab_size": VOCAB, "pad_embeddings_2_eight": False, "att_layer_num": 3,
                "max_input_length": 8, **LAYERS}
CONV_DECODER = {"tgt_emb_size": SIZE, "tgt_vocab_size": VOCAB, "shared_embed": True, "out_dropout_keep_prob": 0.8,
                "max_input_length": 5, "batch_size": BATCH, "beam_size": 3, "alpha": 0.6, "extra_decode_length": 4,
                "EOS_ID": END, "GO_SYMBOL": GO, **LAYERS}
SIZES = {"num_heads": 2, "filter_size": 8, "attention_dropout": 0.1, "relu_dropout": 0.1,
         "layer_postprocess_dropout": 0.1}
NORMALIZATIONS = ["weight_norm", "batch_norm", "layer_norm", None]


def conv_encoder(model, **params):
    return ConvS2SEncoder({**CONV_ENCODER, **params}, model, "encoder")


def transformer_encoder(model, hidden_size=SIZE, **params):
    return TransformerEncoder({**SIZES, "encoder_layers": 1, "hidden_size": hidden_size, "src_vocab_size": VOCAB,
                               "remove_padding": True, **params}, model, "encoder")


def conv_decoder(model, **params):
    return ConvS2SDecoder({**CONV_DECODER, **params}, model, "decoder")


def transformer_decoder(model, **params):
    return TransformerDecoder({**SIZES, "num_hidden_layers": 1, "hidden_size": SIZE, "tgt_vocab_size": VOCAB,
                               "EOS_ID": END, "batch_size": BATCH, "beam_size": 3, "alpha": 0.6,
                               "extra_decode_length": 4, **params}, model, "decoder")


class Translator(tf.Module):
    def __init__(self, make_encoder=conv_encoder, make_decoder=conv_decoder, encoder=None, begin_with_start=True,
                 **decoder):
        super().__init__()
        layer = SimpleNamespace(params={"use_start_token": begin_with_start})
        self._model = SimpleNamespace(data_layer=layer)
        with creating_variables(11):
            self.encoder = self._model.encoder = make_encoder(self._model, **(encoder or {}))
            self.decoder = make_decoder(self._model, **decoder)

    def decode(self, source, target=None, training=False):
        encoded = self.encoder.encode({"source_tensors": source}, training)
        return self.decoder.decode({"encoder_output": encoded, "target_tensors": target}, training)

    def loss(self, source, target, training=False):
        loss = BasicSequenceLoss({"average_across_timestep": True, "tgt_vocab_size": VOCAB, "batch_size": BATCH})
        (term,) = loss.compute_loss({"decoder_output": self.decode(source, target, training), "target_tensors": target})
        return tf.math.divide_no_nan(term.sum, term.units)


def side(lengths, seed, start=False):
    ids = np.random.default_rng(seed).integers(3, VOCAB, (len(lengths), max(lengths))).astype(np.int32)
    for row, length in enumerate(lengths):
        ids[row, length - 1], ids[row, length:] = END, 0
    if start:
        ids[:, 0] = GO
    return [tf.constant(ids), tf.constant(lengths, tf.int32)]


@pytest.fixture
def source():
    return side((7, 3, 5), 0)


@pytest.fixture
def target():
    return side((4, 8, 2), 1, start=True)


def shaken(module):
    rng = np.random.default_rng(4)
    for variable in named_variables(module).values():
        if variable.trainable:
            variable.assign_add(rng.normal(0, 0.1, variable.shape).astype(np.float32))
    return module


def test_variable_names():
    names = set(named_variables(Translator(conv_nchannels_kwidth=[(6, 3), (8, 3)]).decoder))
    layers = ["input_layer", "output_layer", "layer_1/convolution/projection",
              *(f"layer_{i}/{part}" for i in (0, 1) for part in ("convolution/convolution", "attention/query",
                                                                 "attention/output"))]
    assert names == {"positions/table", *(f"{layer}/{n}" for layer in layers for n in ("kernel", "gain", "bias"))}
    alone = set(named_variables(Translator(shared_embed=False, pos_embed=False).decoder))
    assert {"embedding/table", "vocabulary_layer/kernel"} <= alone and "positions/table" not in alone


@pytest.mark.parametrize("shared", [True, False])
def test_equals_numpy(shared, source, target):
    translator = shaken(Translator(shared_embed=shared, out_emb_size=SIZE if shared else 9))
    logits = translator.decode(source, target)["logits"]
    table = translator.encoder.embedding if shared else translator.decoder.embedding
    for row in range(BATCH):
        ids, inputs = (tensors[0].numpy()[row, :tensors[1].numpy()[row]] for tensors in (source, target))
        keys, values = numpy_convs2s.encode(translator.encoder, ids)
        want = numpy_convs2s.decode(translator.decoder, table, keys, values, inputs)
        np.testing.assert_allclose(logits[row, :len(inputs)], want, atol=5e-6)


def assert_steps_equal_teacher_forcing(translator, source, beam=2, tolerance=1e-5):
    inputs = side((6, 6, 6), 1, start=True)
    whole = translator.decode(source, inputs)["logits"]
    encoded = translator.encoder.encode({"source_tensors": source})
    decoder = translator.decoder
    cache, prepared = decoder.initial_cache(encoded, beam), decoder.prepare(encoded)
    for step in range(6):
        ids = tf.repeat(inputs[0][:, step:step + 1], beam, 1)
        logits, cache = decoder.step(ids, tf.constant(step), cache, prepared)
        np.testing.assert_allclose(logits, tf.repeat(whole[:, step:step + 1], beam, 1), atol=tolerance)
    return cache


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("shared", [True, False])
def test_steps_equal_teacher_forcing(kind, shared, source):
    """Six steps, of which the last has the position of the fifth."""
    translator = shaken(Translator(normalization_type=kind, shared_embed=shared, encoder={"normalization_type": kind}))
    # Layer norm of six channels enlarges rounding errors where they are nearly equal.
    tolerance = 2e-4 if kind == "layer_norm" else 1e-5
    cache = assert_steps_equal_teacher_forcing(translator, source, tolerance=tolerance)
    assert [tuple(kept.shape) for kept in cache] == [(BATCH, 2, 2, 6), (BATCH, 2, 1, 6), (BATCH, 2, 0, 10)]


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_logits_alone_as_in_a_batch(kind, source, target):
    translator = shaken(Translator(normalization_type=kind, encoder={"normalization_type": kind}))
    together = translator.decode(source, target)["logits"].numpy()
    for row in range(BATCH):
        cut = [[ids[row:row + 1, :lengths[row]], lengths[row:row + 1]] for ids, lengths in (source, target)]
        alone = translator.decode(*cut)["logits"].numpy()[0]
        np.testing.assert_allclose(together[row, :len(alone)], alone, atol=2e-4 if kind == "layer_norm" else 1e-5)


def test_targets_without_start_symbol_are_shifted(source):
    plain, with_start = side((4, 5, 2), 1), Translator()
    shifted = Translator(begin_with_start=False)
    ids = tf.pad(plain[0], [[0, 0], [1, 0]], constant_values=GO)
    want = with_start.decode(source, [ids, plain[1] + 1])["logits"][:, :-1]
    got = shifted.decode(source, plain)["logits"]
    for row, length in enumerate(plain[1]):
        np.testing.assert_allclose(got[row, :length], want[row, :length], atol=1e-5)


PAIRS = {"CC": (conv_encoder, conv_decoder), "CT": (conv_encoder, transformer_decoder),
         "TC": (transformer_encoder, conv_decoder)}


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS)
def test_beam_search_alone_as_in_a_batch(pair, source):
    translator = Translator(*PAIRS[pair], n_best=3)
    together = tf.function(lambda: translator.decode(source))()
    assert together["beam_ids"].shape[:2] == [BATCH, 3]
    for row in range(BATCH):
        alone = translator.decode([source[0][row:row + 1, :source[1][row]], source[1][row:row + 1]])
        length = alone["beam_ids"].shape[-1]
        np.testing.assert_array_equal(together["beam_ids"][row, :, :length], alone["beam_ids"][0])
        np.testing.assert_allclose(together["beam_scores"][row], alone["beam_scores"][0], rtol=1e-4)


def test_a_transformers_outputs_of_another_size_are_projected(source):
    translator = Translator(transformer_encoder, encoder={"hidden_size": 8}, shared_embed=False)
    assert translator.decoder.source_layer.kernel.shape == [1, 8, SIZE]
    assert_steps_equal_teacher_forcing(translator, source)
    assert Translator(encoder={"src_emb_size": 8}, shared_embed=False).decoder.source_layer is not None


def test_transformers_table_is_shared(source):
    translator = Translator(transformer_encoder)
    assert translator.decoder.embedding is None
    assert_steps_equal_teacher_forcing(translator, source)


def train_gradients(translator, source, target, training=False):
    variables = {name: v for name, v in named_variables(translator).items() if v.trainable}
    with tf.GradientTape() as tape, forward_pass(0, 0):
        loss = translator.loss(source, target, training)
    return loss, {name: tf.convert_to_tensor(g).numpy() for name, g in tape.gradient(loss, variables).items()}


@pytest.mark.parametrize("pair", PAIRS)
def test_all_weights_of_a_pair_learn(pair, source, target):
    translator = Translator(*PAIRS[pair])
    loss, gradients = train_gradients(translator, source, target, True)
    assert np.isfinite(loss) and gradients.keys() == named_variables(translator).keys()
    assert all(np.any(gradient) for gradient in gradients.values())


@pytest.mark.long
def test_gradients_agree_with_differences(source, target):
    translator, rng = shaken(Translator(shared_embed=False)), np.random.default_rng(0)
    variables = named_variables(translator.decoder)
    _, gradients = train_gradients(translator, source, target)
    for name, variable in variables.items():
        direction = rng.normal(size=variable.shape).astype(np.float32)
        direction *= 1e-2 / np.linalg.norm(direction)
        value, ends = variable.numpy(), []
        for sign in (1, -1):
            variable.assign(value + sign * direction)
            ends.append(float(translator.loss(source, target)))
        variable.assign(value)
        slope = 2 * np.sum(gradients[f"decoder/{name}"] * direction)
        np.testing.assert_allclose(ends[0] - ends[1], slope, rtol=0.05, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_close(dtype, source, target):
    (loss, gradients), (half_loss, half) = (
        train_gradients(Translator(encoder={"dtype": d}, dtype=d), source, target, True) for d in ("float32", dtype))
    np.testing.assert_allclose(loss, half_loss, rtol=1e-2)
    assert gradients.keys() == half.keys() and all(gradient.dtype == np.float32 for gradient in half.values())
    errors = sum(np.sum((half[name] - gradient) ** 2) for name, gradient in gradients.items()) ** 0.5
    assert errors < 0.1 * sum(np.sum(gradient ** 2) for gradient in gradients.values()) ** 0.5


def test_no_examples():
    translator = Translator(normalization_type="batch_norm", encoder={"normalization_type": "batch_norm"})
    empty = [tf.zeros([0, 5], tf.int32), tf.zeros([0], tf.int32)]
    loss, gradients = train_gradients(translator, empty, empty, True)
    assert loss == 0 and not any(np.any(gradient) for gradient in gradients.values())
    assert translator.decode(empty)["beam_ids"].shape[0] == 0


def test_sources_of_no_tokens(source, target):
    ids, lengths = source[0] * [[1], [0], [1]], source[1] * [1, 0, 1]
    translator = Translator()
    loss, gradients = train_gradients(translator, [ids, lengths], target, True)
    assert np.isfinite(loss) and all(np.all(np.isfinite(gradient)) for gradient in gradients.values())
    assert np.all(np.isfinite(translator.decode([ids, lengths])["beam_scores"]))


def test_rows_beyond_the_vocabulary_are_never_predicted(source, target):
    translator = Translator(encoder={"pad_embeddings_2_eight": True})
    table = translator.encoder.embedding.table
    table.assign(tf.concat([table[:VOCAB], 50 * tf.ones([3, SIZE])], 0))
    result = translator.decode(source, target)
    assert result["logits"].shape[-1] == 24 and np.max(np.argmax(result["logits"], -1)) >= VOCAB
    assert np.max(result["outputs"][0]) < VOCAB
    assert np.max(translator.decode(source)["beam_ids"]) < VOCAB


@pytest.mark.parametrize(("params", "message"), [
    ({"out_emb_size": 7}, r"out_emb_size' is 7, but must be tgt_emb_size \(6\)"),
    ({"tgt_emb_size": 7}, "table, which the decoder shares, has 21 ids of size 6"),
    ({"tgt_vocab_size": 30}, "decoder_params' has 30 ids"), ({"n_best": 4}, r"from 1 to beam_size \(3\), got 4"),
    ({"begin_with_start": False, "GO_SYMBOL": None}, "GO_SYMBOL' is missing"),
    ({"conv_nchannels_kwidth": [3]}, "conv_nchannels_kwidth/0' is 3"), ({"PAD_SYMBOL": 1}, "must be 0, got 1")])
def test_mistakes_are_named(params, message):
    with pytest.raises(ConfigError, match=message):
        Translator(**params)


@pytest.mark.parametrize(("loss", "begin_with_start", "message"), [
    (PaddedCrossEntropyLossWithSmoothing({}), True, "use_start_token' is True.*set use_start_token to False"),
    (BasicSequenceLoss({"tgt_vocab_size": VOCAB, "batch_size": 1}), False, "use_start_token' is False")])
def test_loss_of_other_positions_is_refused(loss, begin_with_start, message, source, target):
    translator = Translator(begin_with_start=begin_with_start)
    translator.decoder.model.loss = loss
    with pytest.raises(ConfigError, match=message):
        translator.decode(source, target)


def test_encoder_of_unknown_size_is_named(source, target):
    decoder = conv_decoder(None)
    encoded = {"outputs": tf.zeros([BATCH, 7, 9]), "outputs_length": source[1]}
    with pytest.raises(ConfigError, match="tgt_emb_size' is 6, but the encoder's outputs have 9 channels"):
        decoder.decode({"encoder_output": encoded, "target_tensors": target})
