"""Linear biases, windows and memories of the causal Transformer: chunks read the same as one pass."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import TransformerLMEncoder
from open_seq2seq.parts.carried_state import carried_values
from open_seq2seq.parts.component import carried_states, creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.transformer.position import alibi_slopes, distance_bias

VOCAB, TIME = 11, 9


def make(**params):
    given = {"encoder_layers": 2, "hidden_size": 8, "num_heads": 2, "filter_size": 12, "vocab_size": VOCAB,
             "position_encoding": "alibi", **params}
    with creating_variables(1):
        encoder = TransformerLMEncoder(given, mode="infer")
    rng = np.random.default_rng(0)
    for variable in named_variables(encoder).values():
        variable.assign(variable + rng.normal(0.0, 0.3, variable.shape))
    for state in carried_states(encoder).values():
        state.allocate(1, 2)
    return encoder


def text(rows=2):
    return tf.constant(np.random.default_rng(1).integers(0, VOCAB, (rows, TIME)), tf.int32)


def logits_of(encoder, ids, lengths=None, training=False):
    lengths = tf.fill([ids.shape[0]], ids.shape[1]) if lengths is None else tf.constant(lengths)
    return encoder.encode({"source_tensors": [ids, lengths]}, training)["logits"]


def in_chunks(encoder, ids, edges):
    pieces = []
    for number, (begin, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        with forward_pass(carried=carried_values(carried_states(encoder).values(), 2, 0, number == 0)):
            pieces.append(logits_of(encoder, ids[:, begin:end]))
    return tf.concat(pieces, 1).numpy()


def test_slopes_are_those_of_the_paper():
    np.testing.assert_allclose(alibi_slopes(8), [2.0 ** -n for n in range(1, 9)])
    np.testing.assert_allclose(alibi_slopes(12)[8:], [2.0 ** -(n + 0.5) for n in range(4)])
    assert len(alibi_slopes(1)) == 1 and len(alibi_slopes(7)) == 7
    bias = distance_bias(2, tf.constant([4]), tf.range(6), 2).numpy()[0, :, 0]
    np.testing.assert_allclose(bias, [[-1e9, -1e9, -2 * 2.0 ** -4, -(2.0 ** -4), 0.0, -1e9],
                                      [-1e9, -1e9, -2 * 2.0 ** -8, -(2.0 ** -8), 0.0, -1e9]])


def test_attention_with_a_memory_equals_numpy():
    """One head of one layer, in float64, from the definition."""
    encoder = make(encoder_layers=1, num_heads=1, memory_length=3, carry_state=True)
    attention, rng = encoder.layers[0].self_attention, np.random.default_rng(3)
    x = rng.normal(size=(2, TIME, 8))
    q, k, v, o = (getattr(attention, name).numpy().astype(np.float64) for name in ("query", "key", "value", "output"))
    expected = np.zeros_like(x)
    for row in range(2):
        for t in range(TIME):
            past = np.arange(max(0, t - 3), t + 1)
            scores = (x[row, t] @ q) @ (x[row, past] @ k).T / np.sqrt(8) - 2.0 ** -8 * (t - past)
            weights = np.exp(scores - scores.max())
            expected[row, t] = weights / weights.sum() @ (x[row, past] @ v) @ o
    found = []
    for begin, end in ((0, 2), (2, 7), (7, 9)):
        with forward_pass(carried=carried_values(carried_states(encoder).values(), 2, 0, begin == 0)):
            lengths = tf.fill([2], end - begin)
            bias = encoder._bias(lengths, end - begin)
            found.append(attention(tf.constant(x[:, begin:end], tf.float32), bias, attention.kernels(tf.float32),
                                   mask=tf.sequence_mask(lengths, end - begin))[0])
    np.testing.assert_allclose(np.concatenate(found, 1), expected, atol=1e-5)


@pytest.mark.parametrize("edges", [[0, 9], [0, 1, 2, 9], [0, 4, 8, 9]], ids=str)
@pytest.mark.parametrize("memory", [3, 20])
def test_chunks_read_the_same_as_one_pass(edges, memory):
    carrying_on, ids = make(memory_length=memory, carry_state=True), text()
    found = in_chunks(carrying_on, ids, edges)
    np.testing.assert_allclose(found, logits_of(make(memory_length=memory), ids), atol=1e-5)
    if memory > TIME:
        np.testing.assert_allclose(found, logits_of(make(), ids), atol=1e-5)


def test_a_row_that_ends_earlier_continues_from_its_end():
    encoder, ids = make(memory_length=4, carry_state=True), text()
    whole = logits_of(make(memory_length=4), ids[1:]).numpy()
    with forward_pass(carried=carried_values(carried_states(encoder).values(), 2, 0, True)):
        first = logits_of(encoder, ids[:, :5], [5, 3]).numpy()
    with forward_pass(carried=carried_values(carried_states(encoder).values(), 2, 0, False)):
        second = logits_of(encoder, tf.stack([ids[0, 5:9], ids[1, 3:7]])).numpy()
    np.testing.assert_allclose(np.concatenate([first[1, :3], second[1]]), whole[0, :7], atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("memory", [None, 3])
def test_generation_with_a_cache_reads_the_same_as_without(memory):
    encoder, ids, lengths = make(memory_length=memory, num_tokens_gen=5), text(), [6, 2]
    found = tf.function(encoder.generate)(ids, tf.constant(lengths), tf.range(2)).numpy()
    for row, length in enumerate(lengths):
        known = ids[row, :length].numpy().tolist()
        for _ in range(5):
            known.append(int(logits_of(encoder, tf.constant([known]))[0, -1].numpy().argmax()))
        assert found[row].tolist() == known[length:]


@pytest.mark.long
def test_recomputing_changes_neither_gradients_nor_memories():
    found = []
    for recompute in (False, True):
        encoder = make(memory_length=4, carry_state=True, recompute=recompute)
        states, ids = carried_states(encoder), text()
        for begin, end in ((0, 4), (4, 9)):
            carried = carried_values(states.values(), 2, 0, begin == 0)
            with forward_pass(1, tf.constant(begin), carried=carried), tf.GradientTape() as tape:
                loss = tf.reduce_sum(logits_of(encoder, ids[:, begin:end], training=True) ** 2)
            variables = [v for v in named_variables(encoder).values() if v.trainable]
            gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, variables)]
        found.append((loss.numpy(), gradients, [state.variable.numpy() for state in states.values()]))
        assert all(np.any(gradient) for gradient in gradients)
    for plain, again in zip(tf.nest.flatten(found[0]), tf.nest.flatten(found[1]), strict=True):
        np.testing.assert_allclose(plain, again, rtol=1e-4, atol=1e-5)
