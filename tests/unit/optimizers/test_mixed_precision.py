"""The wrapper: order of operations, skipping, clipping, counters, and what scaling is for."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import (
    BackoffScaler,
    LogMaxScaler,
    MixedPrecisionOptimizer,
    StaticScaler,
    make_optimizer,
    make_schedule,
)
from open_seq2seq.optimizers.clipping import global_norm, max_abs, scaled, sum_duplicates
from open_seq2seq.utils.errors import ConfigError

RATE = make_schedule("fixed_lr", {"learning_rate": 0.1}, 100)


def slices(values, indices, rows):
    values = tf.constant(values, tf.float32)
    return tf.IndexedSlices(values, tf.constant(indices), tf.constant([rows, values.shape[1]], tf.int64))


def build(optimizer="SGD", scaler=None, shapes=((2, 3), (3,)), schedule=RATE, **kwargs):
    variables = {f"w{i}": tf.Variable(tf.ones(shape)) for i, shape in enumerate(shapes)}
    wrapper = MixedPrecisionOptimizer(make_optimizer(optimizer), schedule, scaler, **kwargs)
    wrapper.build(variables)
    step = tf.function(lambda gradients: wrapper.update(gradients, variables))
    return wrapper, variables, step


def snapshot(wrapper, variables):
    return {n: v.numpy() for n, v in {**variables, **wrapper.state()}.items()}


def test_rows_of_equal_index_are_added_before_the_norm():
    gradient = slices([[1.0, 0.0], [2.0, 0.0], [0.0, 4.0]], [3, 3, 0], 5)
    assert float(global_norm({"e": gradient})) == pytest.approx(5.0)
    assert float(max_abs({"e": gradient})) == 4.0
    rows = sum_duplicates(gradient)
    assert sum_duplicates(rows) is rows
    np.testing.assert_array_equal(tf.convert_to_tensor(rows), tf.convert_to_tensor(gradient))


@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e25, 1e-15])
def test_norm_of_any_size(factor):
    rng = np.random.default_rng(0)
    arrays = {"a": rng.normal(size=(4, 5)) * factor, "b": rng.normal(size=3) * factor}
    expected = np.sqrt(sum((a**2).sum() for a in arrays.values()))
    norm = global_norm({n: tf.constant(a, tf.float32) for n, a in arrays.items()})
    assert float(norm) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_norm_tells_overflow(bad):
    assert not np.isfinite(global_norm({"a": tf.constant([1.0, bad]), "b": tf.ones([2])}))


def test_norm_of_no_rows_at_all():
    empty = tf.IndexedSlices(tf.zeros([0, 2]), tf.zeros([0], tf.int32), tf.constant([4, 2], tf.int64))
    assert float(global_norm({"e": empty})) == 0.0 and float(max_abs({"e": empty, "w": tf.ones(1)})) == 1.0


def test_clipping():
    gradients = {"a": tf.constant([3.0, 0.0]), "e": slices([[2.0], [2.0]], [1, 1], 3)}
    assert float(global_norm(gradients)) == pytest.approx(5.0)
    _, variables, step = build("SGD", shapes=((2,), (3, 1)), max_grad_norm=1.0)
    info = step({"w0": gradients["a"], "w1": gradients["e"]})
    assert float(info.clipped_grad_norm) == pytest.approx(1.0)
    np.testing.assert_allclose(variables["w0"], [1 - 0.1 * 0.6, 1])
    np.testing.assert_allclose(variables["w1"][:, 0], [1, 1 - 0.1 * 0.8, 1])


@pytest.mark.parametrize("scale", [1.0, 64.0])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
def test_unscales_and_clips(scale, dtype):
    _, variables, step = build(scaler=StaticScaler(scale), max_grad_norm=2.0)
    info = step({"w0": tf.cast(tf.fill([2, 3], 4.0 * scale), dtype), "w1": tf.zeros([3], dtype)})
    assert float(info.grad_norm) == pytest.approx(4 * 6**0.5, rel=1e-5)
    assert float(info.clipped_grad_norm) == pytest.approx(2.0)
    assert float(info.loss_scale) == scale and bool(info.applied)
    np.testing.assert_allclose(variables["w0"], np.full([2, 3], 1 - 0.1 * 2 / 6**0.5), rtol=1e-5)
    np.testing.assert_array_equal(variables["w1"], np.ones(3))


def test_joined_gradients_are_scaled_one_by_one():
    """Tensors of all sizes, rows of a table, scalars and an empty tensor: the products are exact to the bit."""
    rng = np.random.default_rng(2)
    shapes = {"large": (300, 300), "small": (3, 4), "scalar": (), "row": (7,), "empty": (0, 5), "other": (200, 200)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    gradients = {**{name: tf.constant(array) for name, array in arrays.items()}, "table": slices([[1.0, 3.0]], [4], 9)}
    products = scaled(gradients, tf.constant(0.3))
    assert list(products) == list(gradients)
    for name, array in arrays.items():
        np.testing.assert_array_equal(products[name], array * np.float32(0.3), strict=True)
    np.testing.assert_array_equal(products["table"].values, np.float32([[1.0, 3.0]]) * np.float32(0.3))


def test_agree_decides():
    wrapper, variables, _ = build(scaler=BackoffScaler(scale_max=8.0))
    gradients = {"w0": tf.cast(tf.fill([2, 3], 8.0), tf.float16)}
    wrapper.update(gradients, variables)
    np.testing.assert_allclose(variables["w0"], np.full([2, 3], 1 - 0.1), rtol=1e-6)
    info = wrapper.update(gradients, variables, agree=lambda finite: tf.logical_and(finite, False))
    assert not bool(info.applied) and int(wrapper.skipped) == 1 and float(wrapper.loss_scale) == 4.0


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "LazyAdam", "Adafactor", "Muon", "ScheduleFreeAdamW",
                                       "tf.keras.optimizers.Adam"])
@pytest.mark.parametrize("scaler", [BackoffScaler, LogMaxScaler])
def test_a_skipped_step_changes_nothing_but_the_scaler(optimizer, scaler):
    wrapper, variables, step = build(optimizer, scaler())
    good = {"w0": slices([[1.0, 2, 3]], [1], 2), "w1": tf.ones([3])}
    bad = {**good, "w1": tf.constant([1.0, np.inf, 0.0])}
    assert bool(step(good).applied)
    before = snapshot(wrapper, variables)
    info = step(bad)
    after = snapshot(wrapper, variables)
    assert not bool(info.applied) and not np.isfinite(info.grad_norm)
    changed = {n for n in before if not np.array_equal(before[n], after[n])}
    assert {n for n in changed if not n.startswith("loss_scale/")} == {"skipped", "overflows"}
    assert float(info.loss_scale) == before["loss_scale/scale"]
    assert after["loss_scale/scale"] < before["loss_scale/scale"] or scaler is LogMaxScaler
    assert bool(step(good).applied)
    assert int(wrapper.updates) == 2 and int(wrapper.skipped) == 1
    assert step.experimental_get_tracing_count() == 1


def test_fixed_scale_applies_always_unless_told():
    bad = {"w1": tf.constant([1.0, np.nan, 0.0])}
    wrapper, variables, step = build()
    assert bool(step(bad).applied) and np.isnan(variables["w1"].numpy()).any()
    wrapper, variables, step = build(skip_nonfinite=True)
    assert not bool(step(bad).applied) and int(wrapper.skipped) == 1
    np.testing.assert_array_equal(variables["w1"], np.ones(3))


def test_the_rate_follows_the_updates_made():
    schedule = make_schedule("poly_decay", {"learning_rate": 1.0}, 10)
    wrapper, _, step = build(scaler=BackoffScaler(), schedule=schedule)
    good, bad = {"w1": tf.zeros([3])}, {"w1": tf.fill([3], np.inf)}
    rates = [float(step(g).learning_rate) for g in (good, bad, bad, good, good)]
    np.testing.assert_allclose(rates, [1.0, 0.9, 0.9, 0.9, 0.8], rtol=1e-6)
    assert float(wrapper.learning_rate) == pytest.approx(0.7)


def test_state_names():
    wrapper, _, _ = build("Adam", LogMaxScaler())
    assert set(wrapper.state()) == {
        "updates", "skipped", "overflows", "rate_factor", "slots/m/w0", "slots/m/w1", "slots/v/w0", "slots/v/w1",
        "loss_scale/scale",
        "loss_scale/iteration", "loss_scale/mean", "loss_scale/slow_mean", "loss_scale/slow_square"}


def test_mistakes_are_explained():
    with pytest.raises(ConfigError, match="max_grad_norm"):
        build(max_grad_norm=0.0)
    wrapper, variables, _ = build()
    with pytest.raises(ConfigError, match="any trainable variable"):
        wrapper.update({}, variables)


def train_half(scaler, steps=60):
    """A linear model whose float16 gradients are below 2^-24 unless scaled."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(32, 4)), tf.float32)
    y = x @ tf.constant(rng.normal(size=(4, 1)), tf.float32)
    variables = {"w": tf.Variable(tf.zeros([4, 1]))}
    wrapper = MixedPrecisionOptimizer(
        make_optimizer("Momentum"), make_schedule("fixed_lr", {"learning_rate": 2e7}, steps), scaler)
    wrapper.build(variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            prediction = tf.cast(tf.cast(x, tf.float16) @ tf.cast(variables["w"], tf.float16), tf.float32)
            loss = tf.reduce_mean(tf.square(prediction - y)) * 1e-9
            scaled = wrapper.scale(loss)
        info = wrapper.update(tape.gradient(scaled, variables), variables)
        return loss * 1e9, info

    losses = [float(step()[0]) for _ in range(steps)]
    return losses, int(wrapper.skipped)


def test_tiny_half_gradients_vanish_without_scaling_and_train_with_it():
    losses, _ = train_half(StaticScaler(1.0))
    assert losses[-1] == losses[0]
    for scaler in (StaticScaler(2.0**20), BackoffScaler(scale_max=2.0**60, step_window=50),
                   LogMaxScaler(scale_max=2.0**30)):
        losses, skipped = train_half(scaler, 120)
        assert losses[-1] < 1e-2 * losses[0]
        assert skipped < 60
