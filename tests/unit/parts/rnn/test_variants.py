"""LSTMs in groups, with factors, with projections, and zoneout: against plain loops in float64, with gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.rnn.cells import Zoneout
from open_seq2seq.parts.rnn.core_cells import FLSTMCell, GLSTMCell, GRUCell, LayerNormBasicLSTMCell, LSTMCell
from open_seq2seq.parts.rnn.layers import Direction
from open_seq2seq.parts.rnn.recurrence import recurrence
from tests.unit.parts.rnn import naive_cells

SIZE, TIME, BATCH = 6, 7, 3
CASES = {
    "projection": (LSTMCell, {"num_units": 4, "num_proj": 3}),
    "groups": (GLSTMCell, {"num_units": 4, "number_of_groups": 2}),
    "groups-projection": (GLSTMCell, {"num_units": 6, "number_of_groups": 3, "num_proj": 3}),
    "factors": (FLSTMCell, {"num_units": 4, "fact_size": 2}),
    "factors-projection": (FLSTMCell, {"num_units": 4, "fact_size": 3, "num_proj": 5}),
    "zoneout": (LSTMCell, {"num_units": 4, "zoneout_prob": 0.3}),
    "zoneout-gru": (GRUCell, {"num_units": 4, "zoneout_prob": 0.3}),
    "zoneout-layer-norm": (LayerNormBasicLSTMCell, {"num_units": 4, "zoneout_prob": 0.3}),
    "zoneout-projection": (LSTMCell, {"num_units": 4, "num_proj": 3, "zoneout_prob": 0.3}),
}


def make(name: str) -> Direction:
    cell, params = CASES[name]
    with creating_variables(3):
        direction = cell.layer({"forget_bias": 0.5, **params}, SIZE)
    for number, variable in enumerate(direction.trainable_variables):
        variable.assign(variable + np.random.default_rng(number).normal(0.0, 0.3, variable.shape))
    return direction


def inputs() -> tf.Tensor:
    return tf.constant(np.random.default_rng(0).normal(size=[TIME, BATCH, SIZE]), tf.float32)


@pytest.mark.parametrize("name", CASES)
def test_equals_a_plain_loop(name: str):
    direction, x = make(name), inputs()
    weights = named_variables(direction)

    with tf.GradientTape() as tape:
        tape.watch(x)
        histories = direction(x, tf.fill([BATCH], TIME))
        total = tf.add_n([tf.reduce_sum(tf.sin(3.0 * history)) for history in histories])
    dx, gradients = tape.gradient(total, [x, weights])
    wide = tf.cast(x, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(wide)
        step, own = naive_cells.stepper(direction)
        total, rows = 0.0, []
        for row in range(BATCH):
            states = tuple(tf.zeros([size], tf.float64) for size in direction.state_sizes)
            for number in range(TIME):
                states = step(wide[number, row], states)
                total += tf.add_n([tf.reduce_sum(tf.sin(3.0 * state)) for state in states])
            rows.append(states)
    expected_dx, expected = tape.gradient(total, [wide, list(weights.values())])
    for found, wanted in zip(histories, zip(*rows, strict=True), strict=True):
        np.testing.assert_allclose(found[-1], tf.stack(wanted), atol=2e-6)
    np.testing.assert_allclose(dx, expected_dx, atol=5e-5)
    assert set(own) == set(weights)
    for (key, found), wanted in zip(gradients.items(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=key)


@pytest.mark.parametrize("name", ["zoneout", "zoneout-gru", "zoneout-projection"])
def test_zoneout_in_training_keeps_what_the_masks_say(name: str):
    direction, x = make(name), inputs()
    sizes = direction.state_sizes
    masks = tf.constant(np.random.default_rng(5).random([TIME, BATCH, sum(sizes)]) < 0.5, tf.float32)
    projected = tf.reshape(direction.project(tf.reshape(x, [-1, SIZE])), [TIME, BATCH, -1])
    cell = Zoneout(direction.cell, 0.3, sizes, training=True)
    first = [tf.constant(np.random.default_rng(7).normal(size=[BATCH, size]), tf.float32) for size in sizes]
    weights = direction.step_weights(tf.float32)
    with tf.GradientTape() as tape:
        tape.watch([projected, first, weights])
        histories = recurrence(cell, tf.concat([projected, masks], -1), first, weights)
        total = tf.add_n([tf.reduce_sum(tf.sin(3.0 * history)) for history in histories])
    found = tape.gradient(total, [projected, first, weights])
    with tf.GradientTape() as tape:
        tape.watch([projected, first, weights])
        states, plain = first, []
        for number in range(TIME):
            new, _ = direction.cell.step(projected[number], tuple(states), weights)
            kept = tf.split(masks[number], sizes, axis=-1)
            states = [tf.where(mask > 0, old, after) for mask, old, after in zip(kept, states, new, strict=True)]
            plain.append(states)
        total = tf.add_n([tf.reduce_sum(tf.sin(3.0 * state)) for own in plain for state in own])
    expected = tape.gradient(total, [projected, first, weights])
    for history, wanted in zip(histories, zip(*plain, strict=True), strict=True):
        np.testing.assert_allclose(history, tf.stack(wanted), atol=1e-6)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_zoneout_draws_its_masks_from_the_seed():
    direction, x = make("zoneout"), tf.repeat(inputs(), 50, 1)
    results = []
    for batch_index in (0, 0, 1):
        with forward_pass(1, tf.constant(batch_index, tf.int64)):
            results.append(direction.outputs(x, tf.fill([x.shape[1]], TIME), training=True).numpy())
    np.testing.assert_array_equal(results[0], results[1])
    assert np.any(results[0] != results[2])
    kept = np.mean(results[0][1:] == results[0][:-1])
    assert abs(kept - 0.3) < 0.03
