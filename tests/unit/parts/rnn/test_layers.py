import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.rnn.cells import CELLS
from open_seq2seq.parts.rnn.layers import RecurrentLayer, RecurrentStack
from tests.unit.parts.rnn import naive_cells

LENGTHS = [9, 1, 6]
SIZE, HIDDEN = 5, 4


def make(cell_type, bidirectional=True, seed=3):
    with creating_variables(seed):
        layer = RecurrentLayer(SIZE, HIDDEN, cell_type, bidirectional)
    generator = np.random.default_rng(seed)
    for variable in layer.trainable_variables:  # biases and the like too
        variable.assign(variable + generator.normal(0.0, 0.3, variable.shape))
    return layer


def batch(lengths=LENGTHS, padding=0, seed=0):
    x = np.random.default_rng(seed).normal(size=(max(lengths) + padding, len(lengths), SIZE)).astype(np.float32)
    return tf.constant(x), tf.constant(lengths, tf.int32)


def naive(layer, cell_type, x, lengths):
    """The naive network's outputs on each example alone, its sum of sines and that one's gradients by name."""
    names = naive_cells.WEIGHTS[cell_type]
    wide = {d: [tf.cast(getattr(getattr(layer, d), name), tf.float64) for name in names]
            for d in ("forward", "backward")}
    x, outputs = tf.cast(x, tf.float64), []
    with tf.GradientTape() as tape:
        tape.watch([x, wide])
        total = 0.0
        for row, length in enumerate(lengths):
            one = x[:length, row]
            there = naive_cells.run(cell_type, one, wide["forward"], HIDDEN)
            back = naive_cells.run(cell_type, one[::-1], wide["backward"], HIDDEN)[::-1]
            outputs.append(tf.concat([there, back], -1))
            total += tf.reduce_sum(tf.sin(3.0 * outputs[-1]))
    dx, gradients = tape.gradient(total, [x, wide])
    by_name = {f"{d}/{name}": g for d in wide for name, g in zip(names, gradients[d], strict=True)}
    return outputs, dx, by_name


@pytest.mark.long
@pytest.mark.parametrize("cell_type", sorted(CELLS))
def test_equals_a_naive_network_in_float64(cell_type):
    layer, (x, lengths) = make(cell_type), batch(padding=2)
    variables = named_variables(layer)

    @tf.function(autograph=False)
    def forward_and_backward(x, lengths):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, lengths)
            total = tf.reduce_sum(tf.sin(3.0 * outputs))
        return outputs, *tape.gradient(total, [x, variables])

    outputs, dx, gradients = forward_and_backward(x, lengths)
    expected, expected_dx, by_name = naive(layer, cell_type, x, LENGTHS)
    assert set(gradients) == set(by_name)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(outputs[:length, row], expected[row], atol=2e-6)
        assert not outputs[length:, row].numpy().any()
    np.testing.assert_allclose(dx, expected_dx, atol=2e-5)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, by_name[name], atol=5e-5, err_msg=name)


@pytest.mark.parametrize("cell_type", ["lstm", "gru", "classic_gru"])
def test_equals_keras(cell_type):
    layer, (x, lengths) = make(cell_type, bidirectional=False), batch([9, 9, 9])
    one = layer.forward
    order = [0, 1, 3, 2] if cell_type == "lstm" else [0, 1, 2]

    def gates(tensor):
        parts = np.split(tensor.numpy(), len(order), -1)
        return np.concatenate([parts[gate] for gate in order], -1)

    recurrent, bias = one.recurrent_kernel, gates(one.bias)
    if cell_type == "lstm":
        keras = tf.keras.layers.LSTM(HIDDEN, return_sequences=True)
    else:
        keras = tf.keras.layers.GRU(HIDDEN, return_sequences=True, reset_after=cell_type == "gru")
    keras.build([3, 9, SIZE])
    if cell_type == "classic_gru":
        recurrent = tf.concat([recurrent, one.candidate_kernel], -1)
    if cell_type == "gru":
        bias = np.stack([bias, np.concatenate([np.zeros(2 * HIDDEN), one.recurrent_bias])])
    keras.set_weights([gates(one.kernel), gates(recurrent), bias])
    expected = tf.transpose(keras(tf.transpose(x, [1, 0, 2])), [1, 0, 2])
    np.testing.assert_allclose(layer(x, lengths), expected, atol=2e-6)


@pytest.mark.parametrize("cell_type", sorted(CELLS))
def test_a_portable_pass_computes_the_same(cell_type):
    layer, (x, lengths) = make(cell_type), batch(padding=2)
    with forward_pass(portable=True):
        portable = layer(x, lengths)
    np.testing.assert_allclose(portable, layer(x, lengths), atol=2e-6)


@pytest.mark.parametrize("cell_type", sorted(CELLS))
def test_alone_as_in_a_batch(cell_type):
    with creating_variables(3):
        stack = RecurrentStack(SIZE, HIDDEN, 2, cell_type, bidirectional=True)
    x, lengths = batch(padding=3)
    x = tf.transpose(x, [1, 0, 2])
    together = stack(x, lengths)
    for row, length in enumerate(LENGTHS):
        alone = stack(x[row:row + 1, :length], lengths[row:row + 1])
        np.testing.assert_allclose(together[row, :length], alone[0], atol=2e-6)


@pytest.mark.parametrize("cell_type", sorted(CELLS))
def test_bfloat16_is_close(cell_type):
    layer, (x, lengths) = make(cell_type), batch()
    results = []
    for dtype in (tf.float32, tf.bfloat16):
        with tf.GradientTape() as tape:
            outputs = tf.cast(layer(tf.cast(x, dtype), lengths), tf.float32)
            total = tf.reduce_sum(tf.square(outputs))
        results.append([outputs, *tape.gradient(total, layer.trainable_variables)])
    for single, half in zip(*results, strict=True):
        assert half.dtype == tf.float32
        assert np.linalg.norm(single - half) < 0.03 * np.linalg.norm(single)


@pytest.mark.long
def test_one_trace_for_all_lengths():
    layer, traces = make("gru"), []

    @tf.function(input_signature=[tf.TensorSpec([None, None, SIZE]), tf.TensorSpec([None], tf.int32)], autograph=False)
    def run(x, lengths):
        traces.append(1)
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(x, lengths))
        return total, tape.gradient(total, layer.trainable_variables)

    for lengths in ([1], [3, 2], [4, 4, 4], [7, 5, 1, 2], [0, 2]):
        total, gradients = run(*batch(lengths))
        assert np.isfinite(total) and all(np.isfinite(g).all() for g in gradients)
    assert len(traces) == 1


def test_no_steps_and_no_examples():
    layer = make("lstm")
    assert layer(tf.zeros([0, 2, SIZE]), tf.constant([0, 0])).shape == [0, 2, 2 * HIDDEN]
    assert layer(tf.zeros([3, 0, SIZE]), tf.zeros([0], tf.int32)).shape == [3, 0, 2 * HIDDEN]


def test_what_lies_behind_the_end_does_not_matter():
    layer, (x, lengths) = make("lstm"), batch(padding=2)
    held = tf.sequence_mask(lengths, x.shape[0])
    wild = tf.where(tf.transpose(held)[:, :, None], x, 1e4)
    np.testing.assert_array_equal(layer(x, lengths), layer(wild, lengths))


@pytest.mark.parametrize("drop_last", [False, True])
def test_dropout_between_layers_and_behind_the_last(drop_last):
    with creating_variables(3):
        stack = RecurrentStack(SIZE, 32, 2, "gru", dropout_rate=0.5, drop_last=drop_last)
    x, lengths = batch([8, 8])
    x = tf.transpose(x, [1, 0, 2])
    with forward_pass(1, 0):
        first = stack(x, lengths, True).numpy()
    with forward_pass(1, 0):
        np.testing.assert_array_equal(first, stack(x, lengths, True))
    assert np.abs(first - stack(x, lengths)).max() > 0.01
    assert 0.3 < np.mean(first == 0.0) < 0.7 if drop_last else not np.any(first == 0.0)


def test_an_lstm_starts_to_remember():
    with creating_variables(1):
        layer = RecurrentLayer(SIZE, HIDDEN, "lstm")
    np.testing.assert_array_equal(np.split(layer.forward.bias.numpy(), 4)[1], np.ones(HIDDEN))


@pytest.mark.parametrize("cell_type", sorted(CELLS))
def test_two_halves_equal_the_whole_where_the_state_is_handed_on(cell_type):
    direction, (x, lengths) = make(cell_type, bidirectional=False).forward, batch([8, 8])
    whole = direction(x, lengths)
    first = direction(x[:5], lengths - 3)
    second = direction(x[5:], lengths - 5, [state[-1] for state in first])
    for all_steps, *halves in zip(whole, first, second, strict=True):
        np.testing.assert_allclose(tf.concat(halves, 0), all_steps, rtol=1e-6, atol=1e-6)
