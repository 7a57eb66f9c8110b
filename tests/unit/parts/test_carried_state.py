"""State that a part carries from batch to batch: what is read and written, and where it is kept apart."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.carried_state import CarriedState, carried_values, put_aside
from open_seq2seq.parts.component import (
    Module,
    carried_states,
    creating_variables,
    named_variables,
    regularized_variables,
    share_variables,
)
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.recompute import recomputed


class Cell(Module):
    def __init__(self):
        super().__init__()
        self.kernel = self.weight([2, 2])
        self.moving = self.weight([2], "zeros", trainable=False)
        self.hidden = self.carried_state([2])


class Net(Module):
    def __init__(self, rows):
        super().__init__()
        self.layers = [Cell(), Cell()]
        self.count = self.carried_state([], tf.int64)
        for state in carried_states(self).values():
            state.allocate(3, rows)


def state_of(shape=(2,), dtype=tf.float32, slots=2, rows=3):
    state = CarriedState(shape, dtype)
    state.allocate(slots, rows)
    return state


def test_each_slot_has_its_own():
    state = state_of()
    for slot in (0, 1):
        with forward_pass(carried=carried_values([state], 3, slot, True)):
            np.testing.assert_array_equal(state.read(), np.zeros([3, 2]))
            state.write(tf.fill([3, 2], slot + 1.0))
            np.testing.assert_array_equal(state.read(), np.zeros([3, 2]), "what is written is for the next batch")
    for slot in (0, 1):
        with forward_pass(carried=carried_values([state], 3, slot, False)):
            np.testing.assert_array_equal(state.read(), np.full([3, 2], slot + 1.0))
        with forward_pass(carried=carried_values([state], 3, slot, True)):
            np.testing.assert_array_equal(state.read(), np.zeros([3, 2]))


@pytest.mark.parametrize("slots", [1, 2])
def test_rows_that_a_batch_has_not_keep_their_state(slots):
    state = state_of(slots=slots)
    state.variable.assign(tf.ones([slots, 3, 2]))
    with forward_pass(carried=carried_values([state], 2, slots - 1, False)):
        assert state.read().shape == (2, 2)
        state.write(state.read() * 5.0)
    np.testing.assert_array_equal(state.variable[slots - 1][:, 0], [5, 5, 1])


def test_a_row_that_is_not_finite_keeps_what_it_had():
    state = state_of(slots=1)
    state.variable.assign(tf.ones([1, 3, 2]))
    with forward_pass(carried=carried_values([state], 3, 0, False)):
        state.write(tf.constant([[2.0, 2.0], [np.nan, 2.0], [2.0, -np.inf]]))
    np.testing.assert_array_equal(state.variable[0], [[2, 2], [1, 1], [1, 1]])
    with forward_pass(carried=carried_values([state], 3, 0, True)):
        state.write(tf.constant([[2.0, 2.0], [np.nan, 2.0], [2.0, 2.0]]))
    np.testing.assert_array_equal(state.variable[0], [[2, 2], [0, 0], [2, 2]])


def test_integers():
    state = state_of((), tf.int32, slots=1)
    for _ in range(2):
        with forward_pass(carried=carried_values([state], 3, 0, False)):
            state.write(state.read() + [1, 2, 3])
    np.testing.assert_array_equal(state.variable[0], [2, 4, 6])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_types_are_refused(dtype):
    with pytest.raises(ValueError, match="use float32"):
        CarriedState([2], dtype)


def test_put_aside():
    state, other = state_of(), state_of()
    state.variable.assign(tf.ones([2, 3, 2]))
    with forward_pass(carried=put_aside(2, {state: tf.fill([3, 2], 4.0)})):
        np.testing.assert_array_equal(state.read(), np.full([2, 2], 4.0))
        np.testing.assert_array_equal(other.read(), np.zeros([2, 2]))
        state.write(state.read())
        other.write(state.read())
    np.testing.assert_array_equal(state.variable, np.ones([2, 3, 2]))
    assert not np.any(other.variable)


def test_outside_of_any_pass():
    state = state_of()
    state.variable.assign(tf.ones([2, 3, 2]))
    np.testing.assert_array_equal(state.read(), np.zeros([3, 2]))
    state.write(tf.zeros([3, 2]))
    np.testing.assert_array_equal(state.variable, np.ones([2, 3, 2]))
    with pytest.raises(RuntimeError, match="put_aside"):
        CarriedState([2]).read()


@pytest.mark.parametrize("use_xla_jit", [False, True])
def test_a_layer_that_is_computed_again_reads_what_it_read(use_xla_jit):
    """Its gradient is that of the first time, and it writes once."""
    state, weight = state_of(slots=1), tf.Variable(3.0)

    @tf.function(autograph=False, jit_compile=use_xla_jit)
    def step(again):
        def layer(x):
            before = state.read()
            state.write(before + 1.0)
            return weight * x * before

        with forward_pass(carried=carried_values([state], 3, 0, False)), tf.GradientTape() as tape:
            x = tf.ones([3, 2])
            loss = tf.reduce_sum(recomputed(layer, x) if again else layer(x))
        return tape.gradient(loss, weight)

    for number in range(3):
        assert float(step(number % 2 == 1)) == 6.0 * number
    np.testing.assert_array_equal(state.variable, np.full([1, 3, 2], 3.0))


def test_no_gradient_flows_to_the_batch_before():
    state = state_of(slots=1, rows=1)
    with tf.GradientTape() as tape:
        x = tf.ones([1, 2])
        tape.watch(x)
        with forward_pass(carried=carried_values([state], 1, 0, False)):
            state.write(x * 3.0)
        with forward_pass(carried=carried_values([state], 1, 0, False)):
            loss = tf.reduce_sum(state.read() * 2.0)
    assert float(loss) == 12.0 and tape.gradient(loss, x) is None


def test_it_is_neither_weight_nor_statistic():
    net = Net(4)
    assert list(named_variables(net)) == ["layer_0/kernel", "layer_0/moving", "layer_1/kernel", "layer_1/moving"]
    assert list(carried_states(net)) == ["layer_0/hidden", "layer_1/hidden", "count"]
    assert not regularized_variables(net)


def test_a_model_that_shares_has_its_own():
    net = Net(4)
    with creating_variables(shared=True):
        other = Net(2)
    share_variables(other, net)
    assert other.layers[0].kernel is net.layers[0].kernel
    assert other.layers[0].hidden is not net.layers[0].hidden
    assert [state.variable.shape[1] for state in carried_states(other).values()] == [2, 2, 2]
