"""Several encoders for one decoder."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import RNNDecoderWithAttention, TransformerDecoder
from open_seq2seq.encoders import MultiEncoder
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.utils.errors import ConfigError

TRANSFORMER = {"encoder": "TransformerEncoder", "encoder_params": {
    "encoder_layers": 1, "hidden_size": 16, "num_heads": 2, "attention_dropout": 0.1, "filter_size": 32,
    "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1, "remove_padding": False}}
RECURRENT = {"encoder": "BidirectionalRNNEncoderWithEmbedding", "encoder_params": {
    "encoder_layers": 1, "src_emb_size": 8, "core_cell": "LSTMCell", "core_cell_params": {"num_units": 6},
    "encoder_use_skip_connections": False}}


def make(first=TRANSFORMER, second=TRANSFORMER, **params):
    with creating_variables(3):
        return MultiEncoder({"encoders": {"a": first, "b": second}, "src_vocab_size": 13, **params}, name="encoder")


def source(lengths, seed=0):
    ids = np.random.default_rng(seed).integers(4, 13, (len(lengths), max(lengths))).astype(np.int32)
    ids[np.arange(ids.shape[1]) >= np.array(lengths)[:, np.newaxis]] = 0
    return [tf.constant(ids), tf.constant(lengths)]


def test_variable_names():
    names = {name.split("/")[0] for name in named_variables(make(TRANSFORMER, RECURRENT, combination="gated",
                                                                 output_size=16))}
    assert names == {"encoder_a", "encoder_b", "projection_b", "gate_kernel", "gate_bias"}


def test_an_encoder_with_an_initialiser_of_its_own_does_not_get_the_others_arguments():
    own = {**RECURRENT, "encoder_params": {**RECURRENT["encoder_params"], "initializer": "Zeros"}}
    encoder = make(RECURRENT, own, initializer="Constant", initializer_params={"value": 0.5})
    for name, value in (("encoder_a", 0.5), ("encoder_b", 0.0)):
        np.testing.assert_array_equal(getattr(encoder, name).embedding, np.full([13, 8], value))


def test_outputs_of_two_sources_follow_one_another():
    encoder = make(TRANSFORMER, {**TRANSFORMER, "source": 2})
    sources = [*source([4, 2, 3]), *source([1, 5, 2], seed=1)]
    found = encoder.encode({"source_tensors": sources})
    assert found["outputs_length"].numpy().tolist() == [5, 7, 5] and encoder.output_size == 16
    for row, (one, other) in enumerate([(4, 1), (2, 5), (3, 2)]):
        parts = [getattr(encoder, f"encoder_{name}").encode({"source_tensors": [
            sources[2 * place][row:row + 1, :length], tf.constant([length])]})["outputs"][0]
            for place, (name, length) in enumerate((("a", one), ("b", other)))]
        np.testing.assert_allclose(found["outputs"][row, :one + other], tf.concat(parts, 0), atol=1e-5)


@pytest.mark.parametrize(("combination", "size"), [("channels", 28), ("gated", 16), ("time", 16)])
def test_alone_as_in_a_batch(combination, size):
    encoder = make(TRANSFORMER, RECURRENT, combination=combination,
                   output_size=None if combination == "channels" else 16)
    ids, lengths = source([5, 2, 4])
    found = encoder.encode({"source_tensors": [ids, lengths]})
    assert encoder.output_size == size == found["outputs"].shape[-1]
    for row, length in enumerate(lengths.numpy()):
        alone = encoder.encode({"source_tensors": [ids[row:row + 1, :length], tf.constant([length])]})
        total = int(alone["outputs_length"][0])
        assert total == found["outputs_length"][row] == length * (2 if combination == "time" else 1)
        np.testing.assert_allclose(found["outputs"][row, :total], alone["outputs"][0], atol=1e-5)


def test_channels_are_those_of_the_encoders_and_gates_are_weights():
    ids, lengths = source([5, 5])
    for combination in ("channels", "gated"):
        encoder = make(combination=combination)
        own = [getattr(encoder, f"encoder_{name}").encode({"source_tensors": [ids, lengths]})["outputs"].numpy()
               for name in "ab"]
        found = encoder.encode({"source_tensors": [ids, lengths]})["outputs"].numpy()
        if combination == "channels":
            np.testing.assert_allclose(found, np.concatenate(own, axis=-1), atol=1e-6)
            continue
        joined = np.concatenate(own, axis=-1)
        scores = (joined @ encoder.gate_kernel.numpy() + encoder.gate_bias.numpy()).reshape(2, 5, 2, 16)
        weights = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        np.testing.assert_allclose(found, weights[:, :, 0] * own[0] + weights[:, :, 1] * own[1], atol=1e-5)


@pytest.mark.parametrize("combination", ["time", "gated"])
@pytest.mark.parametrize("decoder", [TransformerDecoder, RNNDecoderWithAttention])
def test_decoders_follow_and_gradients_reach_all_encoders(combination, decoder):
    class Model:
        encoder = make(TRANSFORMER, {**TRANSFORMER, "source": 2 if combination == "time" else 1},
                       combination=combination)

    params = {
        TransformerDecoder: {"num_hidden_layers": 1, "hidden_size": 16, "num_heads": 2, "attention_dropout": 0.0,
                             "filter_size": 32, "relu_dropout": 0.0, "layer_postprocess_dropout": 0.0, "beam_size": 2,
                             "alpha": 0.6, "extra_decode_length": 2, "EOS_ID": 1},
        RNNDecoderWithAttention: {"core_cell": "LSTMCell", "core_cell_params": {"num_units": 8}, "decoder_layers": 1,
                                  "tgt_emb_size": 8, "attention_layer_size": 8, "attention_type": "bahdanau",
                                  "decoder_use_skip_connections": False, "GO_SYMBOL": 2, "END_SYMBOL": 1}}[decoder]
    decode = decoder({**params, "tgt_vocab_size": 13, "batch_size": 2}, Model())
    sources = source([4, 2]) + (source([1, 5], seed=1) if combination == "time" else [])
    variables = named_variables(Model.encoder)
    with tf.GradientTape() as tape:
        encoded = Model.encoder.encode({"source_tensors": sources})
        logits = decode.decode({"encoder_output": encoded, "target_tensors": source([3, 3], seed=2)})["logits"]
        total = tf.reduce_sum(tf.nn.log_softmax(logits)[:, :, 5])
    gradients = tape.gradient(total, list(variables.values()))
    for name, gradient in zip(variables, gradients, strict=True):
        assert gradient is not None and np.abs(tf.convert_to_tensor(gradient)).max() > 0, name
    assert decode.decode({"encoder_output": encoded})["outputs"][0].shape[0] == 2


@pytest.mark.parametrize(("params", "message"), [
    ({"encoders": {"a": TRANSFORMER}}, "encoder_params/encoders' must name at least two"),
    ({"encoders": {"a": TRANSFORMER, "b": "x"}}, "encoders/b' must be a dict"),
    ({"encoders": {"a": TRANSFORMER, "b": {"encoder": "TransformerEncoder"}}}, "encoders/b/encoder_params' is missing"),
    ({"second": {**TRANSFORMER, "source": 3}}, "encoders/b/source' is 3, but each example has only 1 source:"),
    ({"second": {**TRANSFORMER, "source": 2}, "combination": "gated"}, "but the encoders read different sources"),
    ({"second": RECURRENT}, r"output_size' is missing: .* the encoders have .* \(a: 16, b: 12\)"),
    ({"sources": 2}, "no encoder for source 2 of 2"),
    ({"combination": "channels", "output_size": 16}, "output_size' has no effect with combination channels"),
])
def test_mistakes(params, message):
    count = params.pop("sources", 1)
    with pytest.raises(ConfigError, match=message):
        make(**params).encode({"source_tensors": source([2, 3]) * count})
