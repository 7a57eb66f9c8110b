"""The update as XLA compiles it: that of the plain step for every optimizer, without branches."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import (
    BackoffScaler,
    MixedPrecisionOptimizer,
    WeightAverage,
    WeightDecay,
    make_optimizer,
)
from open_seq2seq.optimizers.clipping import global_norm, map_values, sum_duplicates, unique_rows_for_xla
from open_seq2seq.optimizers.registry import OPTIMIZERS

SHAPES = {"table": (7, 3), "kernel": (4, 6), "bias": (3,)}
SCALE = 4096.0
BAD = 2  # the update whose gradients are not finite


def gradients_of(update):
    """Gradients of the scaled loss, of which those of the table have a repeated row."""
    rng = np.random.default_rng(update)
    found = {name: tf.constant(rng.normal(size=shape).astype(np.float32)) for name, shape in SHAPES.items()}
    rows = tf.constant(rng.normal(size=(4, 3)).astype(np.float32))
    found["table"] = tf.IndexedSlices(rows, tf.constant([5, 1, 5, update % 3]), tf.constant([7, 3], tf.int64))
    if update == BAD:
        found["bias"] = tf.constant([1.0, np.inf, 2.0])
    return {name: map_values(lambda values: values * SCALE, gradient) for name, gradient in found.items()}


def build(optimizer, for_xla):
    rng = np.random.default_rng(9)
    variables = {name: tf.Variable(rng.normal(size=shape).astype(np.float32)) for name, shape in SHAPES.items()}
    average = None if optimizer == "ScheduleFreeAdamW" else WeightAverage(0.9)
    wrapper = MixedPrecisionOptimizer(
        make_optimizer(optimizer, {}), lambda index: 0.01 * (tf.cast(index, tf.float32) + 1.0),
        BackoffScaler(scale_max=SCALE), max_grad_norm=2.0, weight_decay=WeightDecay(0.01, "bias"), average=average)
    wrapper.build(variables)
    step = tf.function(lambda gradients: wrapper.update(gradients, variables, for_xla=for_xla),
                       autograph=False, jit_compile=for_xla or None)
    return {**variables, **wrapper.state()}, step


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, tf.keras.optimizers.Adam], ids=str)
def test_updates_are_those_of_the_plain_step(optimizer):
    (state, step), (expected, plain) = build(optimizer, True), build(optimizer, False)
    for update in range(5):
        before = {name: variable.numpy() for name, variable in state.items()}
        info, other = step(gradients_of(update)), plain(gradients_of(update))
        assert bool(info.applied) == bool(other.applied) == (update != BAD)
        assert float(info.loss_scale) == float(other.loss_scale)
        for name, variable in state.items():
            value = variable.numpy()
            np.testing.assert_allclose(value, expected[name].numpy(), rtol=2e-5, atol=1e-6, err_msg=name)
            if update == BAD and not name.startswith("loss_scale/") and name not in ("skipped", "overflows"):
                np.testing.assert_array_equal(value, before[name], name)
    assert int(state["skipped"]) == int(state["overflows"]) == 1 and int(state["updates"]) == 4
    assert step.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("optimizer", ["Momentum", "LazyAdam", "Muon", "ScheduleFreeAdamW"])
def test_there_is_no_branch_and_no_loop(optimizer):
    _, step = build(optimizer, True)
    program = step.experimental_get_compiler_ir(gradients_of(0))(stage="hlo")
    assert " conditional(" not in program and " while(" not in program


@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e18, 1e25, 1e37, 1e-15])
@pytest.mark.parametrize("bad", [None, np.inf, np.nan])
def test_norm_of_any_size(factor, bad):
    rng = np.random.default_rng(0)
    arrays = {"a": rng.uniform(-1, 1, size=(4, 5)) * factor, "b": rng.uniform(-1, 1, size=3) * factor}
    expected = np.sqrt(sum((a**2).sum() for a in arrays.values()))
    if bad is not None:
        arrays["a"][1, 2] = bad
    tensors = {name: tf.constant(array, tf.float32) for name, array in arrays.items()}
    norm = float(tf.function(lambda some: global_norm(some, for_xla=True), jit_compile=True)(tensors))
    assert norm == pytest.approx(expected, rel=1e-5) if bad is None else not np.isfinite(norm)


def test_rows_of_equal_index_are_added():
    rng = np.random.default_rng(1)
    slices = tf.IndexedSlices(tf.constant(rng.normal(size=(6, 2)).astype(np.float32)),
                              tf.constant([3, 0, 3, 4, 0, 3]), tf.constant([5, 2], tf.int64))
    found, expected = unique_rows_for_xla(slices), sum_duplicates(slices)
    np.testing.assert_array_equal(found.indices, [3, 0, 5, 4, 5, 5])
    kept = found.indices.numpy() < 5
    np.testing.assert_array_equal(found.indices[kept], expected.indices)
    np.testing.assert_allclose(found.values[kept], expected.values, rtol=1e-6)
    np.testing.assert_array_equal(found.values[~kept], np.zeros((3, 2)))
