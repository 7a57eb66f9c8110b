from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.rnn import layers
from open_seq2seq.parts.rnn.core_cells import FLSTMCell, GLSTMCell

SIZE, HIDDEN, LENGTHS = 6, 4, [7, 3, 1]


def make(cell_type):
    with creating_variables(3):
        layer = layers.RecurrentLayer(SIZE, HIDDEN, cell_type, bidirectional=True)
    for variable in layer.trainable_variables:
        variable.assign(variable + np.random.default_rng(1).normal(0.0, 0.3, variable.shape))
    return layer


def batch():
    x = np.random.default_rng(0).normal(size=(max(LENGTHS), len(LENGTHS), SIZE)).astype(np.float32)
    return tf.constant(x), tf.constant(LENGTHS, tf.int32)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def as_documented(*, input, input_h, input_c, params, sequence_lengths, rnn_mode, is_training, time_major):
    """One layer in one direction by the equations of cuDNN's documentation (cudnnRNNMode_t), in float64."""
    assert is_training and time_major
    x, params = np.asarray(input, np.float64), np.asarray(params, np.float64)
    hidden, size, gates = input_h.shape[-1], x.shape[-1], {"lstm": 4, "gru": 3}[rnn_mode]
    shapes = [(hidden, size)] * gates + [(hidden, hidden)] * gates + [(hidden,)] * (2 * gates)
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    assert ends[-1] == params.size
    pieces = [piece.reshape(shape) for piece, shape in zip(np.split(params, ends[:-1]), shapes, strict=True)]
    w, r, b_w, b_r = pieces[:gates], pieces[gates:2 * gates], pieces[2 * gates:3 * gates], pieces[3 * gates:]
    outputs = np.zeros([*x.shape[:2], hidden])
    for row, length in enumerate(np.asarray(sequence_lengths)):
        h = np.asarray(input_h, np.float64)[0, row]
        c = np.asarray(input_c, np.float64)[0, row] if rnn_mode == "lstm" else None
        for step in range(length):
            from_x, from_h = ([m @ v + b for m, b in zip(ms, bs, strict=True)]
                              for ms, v, bs in ((w, x[step, row], b_w), (r, h, b_r)))
            if rnn_mode == "lstm":  # i, f, c', o
                i, f, o = (sigmoid(from_x[k] + from_h[k]) for k in (0, 1, 3))
                c = f * c + i * np.tanh(from_x[2] + from_h[2])
                h = o * np.tanh(c)
            else:  # r, i, h'
                reset, update = (sigmoid(from_x[k] + from_h[k]) for k in (0, 1))
                h = (1.0 - update) * np.tanh(from_x[2] + reset * from_h[2]) + update * h
            outputs[step, row] = h
    return SimpleNamespace(output=tf.constant(outputs, input.dtype))


@pytest.mark.parametrize("cell_type", ["lstm", "gru"])
def test_the_weights_mean_the_same_to_cudnn(cell_type, monkeypatch):
    layer, (x, lengths) = make(cell_type), batch()
    expected = layer(x, lengths)
    monkeypatch.setattr(layers, "cudnn_serves", lambda cell: True)
    monkeypatch.setattr(layers.tf.raw_ops, "CudnnRNNV3", as_documented)
    np.testing.assert_allclose(layer(x, lengths), expected, atol=2e-6)


@pytest.mark.parametrize(("cell", "params"), [(GLSTMCell, {"number_of_groups": 2}), (FLSTMCell, {"fact_size": 2})])
def test_composed_weights_mean_the_same_to_cudnn(cell, params, monkeypatch):
    with creating_variables(3):
        direction = cell.layer({"num_units": HIDDEN, **params}, SIZE)
    (x, lengths) = batch()
    expected = direction.outputs(x, lengths)
    monkeypatch.setattr(layers, "cudnn_serves", lambda cell: True)
    monkeypatch.setattr(layers.tf.raw_ops, "CudnnRNNV3", as_documented)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(direction.outputs(x, lengths)[:length, row], expected[:length, row], atol=2e-6)


@pytest.mark.parametrize("cell_type", ["lstm", "gru"])
def test_states_that_are_passed_on_mean_the_same(cell_type, monkeypatch):
    direction, (x, lengths) = make(cell_type).forward, batch()
    states = [tf.fill([x.shape[1], direction.hidden_size], 0.1 * number) for number in range(direction.cell.num_states)]
    expected = direction(x, lengths, states)
    monkeypatch.setattr(layers, "cudnn_serves", lambda cell: True)
    monkeypatch.setattr(layers.tf.raw_ops, "CudnnRNNV3", as_documented)
    given = direction(x, lengths, states)
    assert len(given) == len(expected)  # LSTMs use the loop, because cuDNN has no inner states of all steps
    for row, length in enumerate(lengths.numpy()):
        np.testing.assert_allclose(given[0][:length, row], expected[0][:length, row], atol=2e-6)


@pytest.mark.parametrize(("steps", "rows"), [(0, 2), (3, 0), (0, 0)])
def test_the_kernel_never_gets_an_empty_batch(steps, rows, monkeypatch):
    def kernel(**given):
        assert 0 not in given["input"].shape and given["sequence_lengths"].shape[0] == given["input_h"].shape[1] > 0
        return as_documented(**given)

    layer, (x, _) = make("lstm"), batch()
    monkeypatch.setattr(layers, "cudnn_serves", lambda cell: True)
    monkeypatch.setattr(layers.tf.raw_ops, "CudnnRNNV3", kernel)
    outputs = layer(tf.zeros([steps, rows, x.shape[-1]]), tf.fill([rows], steps))
    assert outputs.shape == (steps, rows, layer.output_size)


@pytest.mark.parametrize("cell_type", ["classic_gru", "layernorm_lstm", "projected_lstm", "input_lstm"])
def test_other_cells_run_in_the_loop(cell_type, monkeypatch):
    monkeypatch.setattr(layers.tf.config, "list_logical_devices", lambda kind: ["one"])
    assert not layers.cudnn_serves(layers.CELLS[cell_type])
    assert layers.cudnn_serves(layers.CELLS["gru"])


@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="cuDNN runs on GPUs")
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
@pytest.mark.parametrize("cell_type", ["lstm", "gru"])
def test_the_kernel_equals_the_loop(cell_type, dtype, monkeypatch):
    layer, (x, lengths) = make(cell_type), batch()
    results = []
    for use in (True, False):
        monkeypatch.setattr(layers, "cudnn_serves", lambda cell, use=use: use)
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = tf.cast(layer(tf.cast(x, dtype), lengths), tf.float32)
            total = tf.reduce_sum(tf.square(outputs))
        results.append([outputs, *tape.gradient(total, [x, *layer.trainable_variables])])
    for kernel, loop in zip(*results, strict=True):
        np.testing.assert_allclose(kernel, loop, atol=1e-4 if dtype == tf.float32 else 2e-2)
