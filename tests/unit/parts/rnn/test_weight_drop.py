"""Weight drop and recurrent dropout, compared with TensorFlow's own gradients of a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.dropout import dropout, keep_mask, keep_scale
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.rnn.weight_drop import WeightDropDirection

SIZE, HIDDEN, STEPS, ROWS = 3, 4, 6, 2
RATES = {"input_weight_rate": 0.25, "recurrent_weight_rate": 0.5, "candidate_rate": 0.4}


def make(cell_type, **rates):
    with creating_variables(1):
        direction = WeightDropDirection(SIZE, HIDDEN, cell_type, **rates)
    rng = np.random.default_rng(2)
    for variable in named_variables(direction).values():
        variable.assign(variable + rng.normal(0.0, 0.3, variable.shape))
    return direction


def norm(x, scale, offset):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-6) * scale + offset


def plain(direction, x):
    """The outputs of the same dropped network, written as a loop over steps with the masks of the same draws."""
    kernel = dropout(tf.convert_to_tensor(direction.kernel), RATES["input_weight_rate"], True)
    rate = RATES["candidate_rate"]
    mask = tf.cast(keep_mask([STEPS, ROWS, HIDDEN], rate), tf.float32) * keep_scale(rate)
    recurrent = dropout(tf.convert_to_tensor(direction.recurrent_kernel), RATES["recurrent_weight_rate"], True)
    h = c = tf.zeros([ROWS, HIDDEN])
    outputs = []
    for step in range(STEPS):
        z = tf.matmul(x[step], kernel) + tf.matmul(h, recurrent)
        if direction.cell.name == "lstm":
            i, f, o, g = tf.split(z + direction.bias, 4, -1)
        else:
            scales, offsets = tf.split(direction.scale, 5), tf.split(direction.offset, 5)
            i, f, o, g = (norm(*parts) for parts in zip(tf.split(z, 4, -1), scales[:4], offsets[:4], strict=True))
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g) * mask[step]
        if direction.cell.name != "lstm":
            c = norm(c, scales[4], offsets[4])
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    return tf.stack(outputs)


@pytest.mark.parametrize("cell_type", ["lstm", "layernorm_lstm"])
def test_outputs_and_gradients_equal_those_of_a_plain_loop(cell_type):
    direction = make(cell_type, **RATES)
    x = tf.constant(np.random.default_rng(3).normal(size=(STEPS, ROWS, SIZE)), tf.float32)
    variables, found = named_variables(direction), []
    for run in (lambda: direction(x, tf.constant([STEPS] * ROWS), training=True)[0], lambda: plain(direction, x)):
        with forward_pass(6, tf.constant(7)), tf.GradientTape() as tape:
            tape.watch(x)
            outputs = run()
            total = tf.reduce_sum(tf.sin(3.0 * outputs))
        found.append((outputs, *tape.gradient(total, [x, *variables.values()])))
    for name, one, other in zip(["outputs", "x", *variables], *found, strict=True):
        np.testing.assert_allclose(one, other, atol=3e-5, err_msg=name)


@pytest.mark.parametrize("rates", [{}, RATES])
def test_nothing_is_dropped_outside_of_training(rates):
    direction, reference = make("lstm", **rates), make("lstm")
    x = tf.random.stateless_normal([STEPS, ROWS, SIZE], [1, 2])
    lengths = tf.constant([STEPS, 2])
    np.testing.assert_array_equal(direction(x, lengths)[0], reference(x, lengths)[0])
    np.testing.assert_array_equal(direction.outputs(x, lengths), reference.outputs(x, lengths))


def test_a_dropped_weight_is_the_same_at_all_steps():
    """With an identity for the recurrent matrix, a dropped unit never sees its own past."""
    direction = make("lstm", recurrent_weight_rate=0.5)
    x = tf.zeros([STEPS, ROWS, SIZE])
    with forward_pass(1, tf.constant(1)):
        first = direction(x, tf.constant([STEPS] * ROWS), training=True)[0]
    with forward_pass(1, tf.constant(1)):
        again = direction.outputs(x, tf.constant([STEPS] * ROWS), training=True)
    with forward_pass(1, tf.constant(2)):
        other = direction(x, tf.constant([STEPS] * ROWS), training=True)[0]
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[:, 0], first[:, 1])  # all rows of a batch share the mask
    assert not np.allclose(first, other)
