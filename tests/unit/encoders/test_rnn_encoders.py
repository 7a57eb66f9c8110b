"""Recurrent encoders of text: against a plain loop over each sentence, padding, gradients, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import (
    BidirectionalRNNEncoderWithEmbedding,
    Encoder,
    GNMTLikeEncoderWithEmbedding,
    UnidirectionalRNNEncoderWithEmbedding,
)
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.parts.rnn import naive_cells

VOCAB, UNITS, LENGTHS = 11, 4, [6, 3, 0, 5]
PARAMS = {"src_vocab_size": VOCAB, "src_emb_size": UNITS, "core_cell": "tf.nn.rnn_cell.LSTMCell",
          "core_cell_params": {"num_units": UNITS, "forget_bias": 0.5}, "encoder_layers": 3,
          "encoder_use_skip_connections": True}
ENCODERS = (UnidirectionalRNNEncoderWithEmbedding, BidirectionalRNNEncoderWithEmbedding, GNMTLikeEncoderWithEmbedding)
GRU = {"core_cell": "GRUCell", "core_cell_params": {"num_units": UNITS}}


def make(cls: type[Encoder], **params: Any) -> Any:
    with creating_variables(3):
        encoder = cls({**PARAMS, **params}, name="encoder")
    for number, variable in enumerate(encoder.trainable_variables):
        variable.assign(variable + np.random.default_rng(number).normal(0.0, 0.3, variable.shape))
    return encoder


def batch(lengths: Any = LENGTHS, padding: int = 0) -> list[tf.Tensor]:
    ids = np.random.default_rng(0).integers(3, VOCAB, (len(lengths), max([0, *lengths]) + padding)).astype(np.int32)
    return [tf.constant(ids), tf.constant(lengths, tf.int32)]


def encode(encoder: Any, tensors: list[tf.Tensor], training: bool = False) -> np.ndarray:
    return encoder.encode({"source_tensors": tensors}, training)["outputs"].numpy()


def plain_direction(direction: Any, x: tf.Tensor) -> tf.Tensor:
    kind = direction.cell.name
    weights = [tf.cast(getattr(direction, name), tf.float64) for name in naive_cells.WEIGHTS[kind]]
    return naive_cells.run(kind, x, weights, direction.hidden_size)


def plain_stack(layers: Any, x: tf.Tensor) -> tf.Tensor:
    for layer in layers:
        y = plain_direction(layer.direction, x)
        x = x + y if x.shape == y.shape else y
    return x


def plain(encoder: Any, ids: np.ndarray) -> np.ndarray:
    """The outputs of one sentence without padding."""
    x = tf.cast(tf.gather(encoder.embedding, ids), tf.float64)
    if isinstance(encoder, UnidirectionalRNNEncoderWithEmbedding):
        return plain_stack(encoder.layers, x).numpy()
    if isinstance(encoder, BidirectionalRNNEncoderWithEmbedding):
        return np.concatenate([plain_stack(encoder.forward, x), plain_stack(encoder.backward, x[::-1])[::-1]], -1)
    first = encoder.bidirectional
    both = tf.concat([plain_direction(first.forward, x), plain_direction(first.backward, x[::-1])[::-1]], -1)
    return plain_stack(encoder.layers, both).numpy()


@pytest.mark.parametrize("cell", [{}, GRU], ids=["lstm", "gru"])
@pytest.mark.parametrize("cls", ENCODERS)
def test_each_sentence_equals_a_plain_loop_over_it_alone(cls: type[Encoder], cell: dict[str, Any]):
    encoder = make(cls, **cell)
    ids, lengths = batch(padding=2)
    found = encode(encoder, [ids, lengths])
    assert found.shape == (4, 8, encoder.output_size)
    for row, length in enumerate(LENGTHS):
        if length:
            np.testing.assert_allclose(found[row, :length], plain(encoder, ids.numpy()[row, :length]), atol=1e-5)
        assert not found[row, length:].any()


@pytest.mark.parametrize("cls", ENCODERS)
def test_a_batch_without_sentences(cls: type[Encoder]):
    encoder = make(cls)
    assert encode(encoder, [tf.zeros([0, 5], tf.int32), tf.zeros([0], tf.int32)]).shape == (0, 5, encoder.output_size)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("cls", ENCODERS)
def test_every_weight_has_a_gradient_and_dropout_follows_the_batch_number(cls: type[Encoder], dtype: tf.DType):
    encoder = make(cls, dtype=dtype, encoder_dp_input_keep_prob=0.8, encoder_dp_output_keep_prob=0.9)
    weights = named_variables(encoder)

    @tf.function(autograph=False)
    def run(number: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, forward_pass(1, number):
            outputs = encoder.encode({"source_tensors": batch()}, True)["outputs"]
            loss = tf.reduce_sum(tf.square(tf.cast(outputs, tf.float32)))
        return outputs, tape.gradient(loss, weights)

    (first, gradients), (again, _), (other, _) = (run(tf.constant(n, tf.int64)) for n in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == dtype and np.any(first.numpy() != other.numpy())
    for name, gradient in gradients.items():
        assert gradient is not None and np.isfinite(tf.convert_to_tensor(gradient)).all(), name


@pytest.mark.parametrize("cell", [{}, GRU], ids=["lstm", "gru"])
@pytest.mark.parametrize("cls", ENCODERS)
def test_final_states_follow_the_last_word(cls: type[Encoder], cell: dict[str, Any]):
    """The first state of the last layer is the output; all states of a sentence alone are those in the batch."""
    encoder = make(cls, encoder_use_skip_connections=False, **cell)
    encoder.returns_state = True
    if cls is GNMTLikeEncoderWithEmbedding:
        encoder.layers[-1].residual = False
    ids, lengths = batch(padding=2)
    result = encoder.encode({"source_tensors": [ids, lengths]})
    plain = encode(make(cls, encoder_use_skip_connections=False, **cell), [ids, lengths])
    if cls is not GNMTLikeEncoderWithEmbedding:
        np.testing.assert_allclose(result["outputs"], plain, atol=1e-6)
    assert [[state.shape[-1] for state in own] for own in result["state"]] == encoder.state_sizes
    for row, length in enumerate(LENGTHS):
        states = [state[row] for own in result["state"] for state in own]
        if length == 0:
            assert not any(np.any(state) for state in states)
            continue
        ends = result["outputs"][row, length - 1].numpy()
        if cls is BidirectionalRNNEncoderWithEmbedding:
            ends[UNITS:] = result["outputs"][row, 0, UNITS:]
        np.testing.assert_allclose(result["state"][-1][0][row], ends, atol=1e-6)
        alone = encoder.encode({"source_tensors": [ids[row:row + 1, :length], lengths[row:row + 1]]})["state"]
        for state, one in zip(states, (state[0] for own in alone for state in own), strict=True):
            np.testing.assert_allclose(state, one, atol=1e-6)


@pytest.mark.parametrize("cls", ENCODERS)
def test_scaled_embeddings_are_as_larger_ones(cls: type[Encoder]):
    larger, scaled = make(cls), make(cls, embedding_scale=3.0)
    larger.embedding.assign(3.0 * larger.embedding)
    np.testing.assert_allclose(encode(scaled, batch()), encode(larger, batch()), atol=1e-5)


def test_gates_start_as_in_the_original():
    with creating_variables(3):
        lstm = UnidirectionalRNNEncoderWithEmbedding(PARAMS, name="encoder").layers[0].direction
        gru = UnidirectionalRNNEncoderWithEmbedding({**PARAMS, **GRU}, name="encoder").layers[0].direction
    np.testing.assert_array_equal(lstm.bias, np.repeat([0.0, 0.5, 0.0, 0.0], UNITS))
    np.testing.assert_array_equal(gru.bias, np.repeat([1.0, 1.0, 0.0], UNITS))


@pytest.mark.parametrize(("cls", "params", "words"), [
    (ENCODERS[0], {"core_cell": "LSTMCel"}, "Did you mean 'LSTMCell'"),
    (ENCODERS[0], {"core_cell_params": {}}, "core_cell_params/num_units' is missing"),
    (ENCODERS[1], {"core_cell_params": {"num_unit": 4}}, "Did you mean 'num_units'"),
    (ENCODERS[1], {**GRU, "core_cell_params": {"num_units": 4, "forget_bias": 1.0}}, "forget_bias"),
    (ENCODERS[2], {"encoder_layers": 1}, "must be at least 2, got 1"),
])
def test_mistakes_are_named(cls: type[Encoder], params: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        make(cls, **params)
