"""Replicas on several devices of one process, here of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import LossTerm
from open_seq2seq.optimizers import MixedPrecisionOptimizer, make_loss_scaler, make_optimizer
from open_seq2seq.optimizers.weight_average import exchanged
from open_seq2seq.parts.component import Module, creating_variables, named_variables
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.runners import Runner
from open_seq2seq.runners.tower import TowerRunner, mirrored_strategy
from open_seq2seq.training.loop.step import TrainStep


def make_runner(towers):
    return TowerRunner(mirrored_strategy([f"CPU:{n}" for n in range(towers)])) if towers > 1 else Runner()


class Layer:
    input_signature = {"x": tf.TensorSpec([None, 3], tf.float32), "rows": tf.TensorSpec([None], tf.int32),
                       "y": tf.TensorSpec([None], tf.float32)}


class Net(Module):
    """An embedding, a layer with dropout, batch norm and a regulariser; the unit of its loss is the row."""

    def __init__(self, dtype=tf.float32, drop=0.0):
        super().__init__(name="net")
        self.table = self.weight([5, 3], tf.random_normal_initializer(seed=1))
        self.kernel = self.weight([3, 1], tf.constant_initializer([[0.1], [-0.2], [0.3]]),
                                  regularizer=lambda v: 0.01 * tf.reduce_sum(v ** 2))
        self.moving = self.weight([3], "zeros", trainable=False)
        self.data_layer, self.dtype, self.drop = Layer(), dtype, drop

    def loss_terms(self, batch, training):
        x = batch["x"] + tf.gather(self.table, batch["rows"])
        self.moving.assign_add(0.1 * (tf.reduce_mean(x, 0) - self.moving))
        x = tf.cast(x, self.dtype)
        if self.drop:
            x = dropout(x, self.drop, training)
        errors = tf.cast(tf.matmul(x, cast_weight(self.kernel, self.dtype)), tf.float32)[:, 0] - batch["y"]
        return [LossTerm(tf.reduce_sum(errors ** 2), tf.cast(tf.size(errors), tf.float32), unit="row")], {}


def make_batch(rows, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, 3)).astype(np.float32), "rows": rng.integers(0, 5, rows).astype(np.int32),
            "y": rng.normal(size=rows).astype(np.float32)}


def make_step(towers, iter_size, optimizer="Momentum", params=None, scaling=1.0, compute=tf.float32, drop=0.0,
              use_xla_jit=False, **additions):
    runner = make_runner(towers)
    with runner.scope(), creating_variables(1):
        model = Net(compute, drop)
        variables = {name: v for name, v in named_variables(model).items() if v.trainable}
        wrapper = MixedPrecisionOptimizer(
            make_optimizer(optimizer, {"momentum": 0.9} if optimizer == "Momentum" else params or {}),
            lambda step: tf.constant(0.1), make_loss_scaler(scaling, None, compute), skip_nonfinite=True, **additions)
        wrapper.build(variables)
        step = TrainStep(model, wrapper, variables, runner, seed=1, iter_size=iter_size, use_xla_jit=use_xla_jit)
    return model, wrapper, step


def state(model, wrapper):
    return {**named_variables(model), **wrapper.state()}


def assert_replicas_equal(variables):
    for name, variable in variables.items():
        copies = [copy.numpy() for copy in variable.values]
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, copies[0], err_msg=name)


BATCHES = [make_batch(rows, rows) for rows in (4, 1, 7, 2, 9, 3)]


@pytest.mark.parametrize(("towers", "iter_size", "optimizer"), [
    (2, 1, "Momentum"), (2, 1, "Adam"), (2, 1, "LazyAdam"), (2, 1, "NovoGrad"), (2, 1, "Adafactor"), (3, 1, "Momentum"),
    (2, 3, "LazyAdam"), (2, 1, "Muon"), (2, 1, "ScheduleFreeAdamW")])
def test_replicas_are_micro_batches(towers, iter_size, optimizer):
    """Unequal batches, dropout, sparse gradients, a regulariser, clipping: as one process with iter_size."""
    one, one_wrapper, one_step = make_step(1, towers * iter_size, optimizer, drop=0.3, max_grad_norm=0.5)
    several, wrapper, step = make_step(towers, iter_size, optimizer, drop=0.3, max_grad_norm=0.5)
    for start in range(0, 6, towers * iter_size):
        batches = BATCHES[start:start + towers * iter_size]
        expected, found = one_step(batches), step(batches)
        for name in ("loss", "grad_norm", "clipped_grad_norm"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, err_msg=name)
    expected = {name: v.numpy() for name, v in state(one, one_wrapper).items() if name != "moving"}
    for name, value in expected.items():
        np.testing.assert_allclose(state(several, wrapper)[name].numpy(), value, rtol=1e-5, atol=1e-7, err_msg=name)
    assert_replicas_equal({name: v for name, v in state(several, wrapper).items() if name != "moving"})
    assert step.traces == (1 if iter_size == 1 else 2)


@pytest.mark.parametrize("iter_size", [1, 2])
def test_an_overflow_on_one_replica_is_skipped_on_all(iter_size):
    model, wrapper, step = make_step(2, iter_size, scaling="Backoff", compute=tf.float16)
    good = [make_batch(4)] * (2 * iter_size)
    step(good)
    before = {name: v.numpy() for name, v in state(model, wrapper).items()}
    bad = [*good[:-1], {**make_batch(4), "x": np.full([4, 3], 6e4, np.float32)}]
    assert not step(bad)["applied"]
    after = {name: v.numpy() for name, v in state(model, wrapper).items()}
    changed = {name for name in before if not np.array_equal(before[name], after[name])} - {"moving"}
    assert {name for name in changed if not name.startswith("loss_scale/")} == {"skipped", "overflows"}
    assert step(good)["applied"]
    assert_replicas_equal({name: v for name, v in state(model, wrapper).items() if name != "moving"})


def test_tallies_are_counted_once():
    _, _, step = make_step(3, 1)
    assert float(step(BATCHES[:3], {"objects": 14.0})["objects"]) == 14.0


def test_fewer_inputs_than_replicas_give_as_many_results():
    runner = make_runner(3)
    with runner.scope():
        factor = tf.Variable(2.0)
    double = runner.compile(lambda x: tf.reduce_sum(x) * factor, [tf.TensorSpec([None], tf.float32)])
    for held in (3, 2, 1):
        results = double([np.full([2 + n], n, np.float32) for n in range(held)])
        assert [float(r) for r in results] == [2.0 * n * (2 + n) for n in range(held)]
    assert double.traces == 1


def test_assigning_from_outside_reaches_all_replicas():
    model, wrapper, step = make_step(2, 1, "Adam")
    step(BATCHES[:2])
    for variable in state(model, wrapper).values():
        variable.assign(tf.ones_like(variable))
    assert_replicas_equal(state(model, wrapper))
    others = {name: slot for name, slot in wrapper.state().items() if name == "slots/m/kernel"}
    model.kernel.assign(tf.fill([3, 1], 5.0))
    with exchanged({"slots/m/kernel": model.kernel}, others):
        assert_replicas_equal({"kernel": model.kernel, **others})
        assert model.kernel.numpy().max() == 1.0 and others["slots/m/kernel"].numpy().min() == 5.0
    assert model.kernel.numpy().min() == 5.0


def test_statistics_are_each_replicas_own():
    model, _, step = make_step(2, 1)
    step(BATCHES[:2])
    copies = [copy.numpy() for copy in model.moving.values]
    assert not np.array_equal(*copies)
    np.testing.assert_array_equal(model.moving.numpy(), copies[0])


def test_a_model_can_be_run_on_one_device_outside():
    model, _, step = make_step(2, 1)
    step(BATCHES[:2])

    @tf.function(autograph=False)
    def gradient(batch):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(model.kernel)
            terms, _ = model.loss_terms(batch, training=False)
        return tape.gradient(terms[0].sum, {"kernel": model.kernel})["kernel"]

    assert gradient(BATCHES[0]).shape == [3, 1]


@pytest.mark.parametrize("keras", [tf.keras.optimizers.Adam, tf.keras.optimizers.Nadam])
def test_keras_optimizers_update_each_replica_once(keras):
    one, one_wrapper, one_step = make_step(1, 2, keras, {"weight_decay": 0.01})
    several, wrapper, step = make_step(2, 1, keras, {"weight_decay": 0.01})
    for start in (0, 2, 4):
        one_step(BATCHES[start:start + 2])
        step(BATCHES[start:start + 2])
    np.testing.assert_allclose(several.kernel.numpy(), one.kernel.numpy(), rtol=1e-5)
    np.testing.assert_allclose(several.table.numpy(), one.table.numpy(), rtol=1e-5)
    assert_replicas_equal({name: v for name, v in state(several, wrapper).items() if name != "moving"})
