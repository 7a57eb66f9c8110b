"""Fifty updates of everything together against its reference in float64: what a run really does."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import LossTerm
from open_seq2seq.optimizers import (
    Larc,
    MixedPrecisionOptimizer,
    WeightAverage,
    WeightDecay,
    make_loss_scaler,
    make_optimizer,
    make_schedule,
)
from open_seq2seq.parts.component import Module, named_variables
from open_seq2seq.runners import Runner
from open_seq2seq.training.loop.step import TrainStep
from tests.unit.optimizers import numpy_reference as ref

STEPS = 50
BAD = (3, 20, 21)  # batches whose gradients overflow
POLICY_CASES = {
    "fixed_lr": ({"learning_rate": 0.05}, lambda s: 0.05),
    "piecewise_constant": ({"learning_rate": 0.1, "boundaries": [10, 30], "decay_rates": [0.5, 0.1]},
                           lambda s: ref.piecewise(s, 0.1, [10, 30], [0.5, 0.1])),
    "exp_decay": ({"learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.7, "use_staircase_decay": False,
                   "begin_decay_at": 5}, lambda s: ref.exponential(s, 0.1, 10, 0.7, False, 5)),
    "poly_decay": ({"learning_rate": 0.1, "power": 2.0, "warmup_steps": 8},
                   lambda s: ref.poly(s, 0.1, STEPS - 8, 2.0, warmup=8)),
    "cosine_decay": ({"learning_rate": 0.1, "min_lr": 0.1, "warmup_steps": 4},
                     lambda s: ref.cosine(s, 0.1, STEPS - 4, fraction=0.1, warmup=4)),
    "transformer_policy": ({"learning_rate": 1.0, "d_model": 64, "warmup_steps": 12},
                           lambda s: ref.transformer(s, 1.0, 64, 12)),
    "inv_poly_decay": ({"learning_rate": 0.1, "min_lr": 1e-3, "power": 2.0},
                       lambda s: ref.inverse(s, 0.1, STEPS, 1e-3, 2.0)),
}


class Layer:
    input_signature = {"x": tf.TensorSpec([None, 3], tf.float32), "y": tf.TensorSpec([None], tf.float32)}


class Regression(Module):
    """Linear regression with a bias that starts at 0."""

    data_layer = Layer()

    def __init__(self):
        super().__init__(name="regression")
        self.kernel = self.weight([3, 1], tf.constant_initializer([[0.5], [-0.7], [0.9]]))
        self.bias = self.weight([1], "zeros")

    def loss_terms(self, batch, training):
        errors = (tf.matmul(batch["x"], self.kernel) + self.bias)[:, 0] - batch["y"]
        return [LossTerm(tf.reduce_sum(errors ** 2), tf.cast(tf.size(errors), tf.float32), unit="row")], {}


def make_batches(iter_size, rows=None):
    """For each update its micro-batches, of unequal sizes; those in BAD have a value that overflows."""
    rng = np.random.default_rng(0)
    updates = []
    for number in range(STEPS + len(BAD)):
        sizes = rng.integers(2, 9, iter_size) if rows is None else [rows] * iter_size
        updates.append([{"x": rng.normal(size=(n, 3)).astype(np.float32),
                         "y": (rng.normal(size=n) * (1 + number / 10)).astype(np.float32)} for n in sizes])
        if number in BAD:
            updates[-1][-1]["y"][0] = np.inf
    return updates


def train(optimizer, params, policy, iter_size, scaling, compute, use_xla_jit=False, rows=None, **additions):
    model = Regression()
    variables = named_variables(model)
    wrapper = MixedPrecisionOptimizer(
        make_optimizer(optimizer, params), make_schedule(policy, POLICY_CASES[policy][0], STEPS),
        make_loss_scaler(scaling, None, compute), **additions)
    wrapper.build(variables)
    step = TrainStep(model, wrapper, variables, Runner(), seed=1, iter_size=iter_size, use_xla_jit=use_xla_jit)
    infos = [step(batches) for batches in make_batches(iter_size, rows)]
    return {name: variable.numpy() for name, variable in variables.items()}, wrapper, infos


def reference(rules, policy, iter_size):
    """Returns the weights by name after the updates whose gradients are finite."""
    kernel, bias, made = np.array([[0.5], [-0.7], [0.9]], np.float32).astype(np.float64), np.zeros(1), 0
    for batches in make_batches(iter_size):
        x = np.concatenate([b["x"] for b in batches]).astype(np.float64)
        y = np.concatenate([b["y"] for b in batches]).astype(np.float64)
        if not np.isfinite(y).all():
            continue
        errors = x @ kernel + bias - y[:, None]
        rate = POLICY_CASES[policy][1](made)
        kernel_gradient, bias_gradient = 2 * x.T @ errors / len(y), 2 * errors.sum(0) / len(y)
        kernel = rules["kernel"](kernel, kernel_gradient, rate)
        bias = rules["bias"](bias, bias_gradient, rate)
        made += 1
    assert made == STEPS
    return {"kernel": kernel, "bias": bias}


def assert_close(result, expected):
    near = 1e-4 if tf.config.list_physical_devices("GPU") else 1e-5  # float16 sums are in another order there
    for name, value in expected.items():
        np.testing.assert_allclose(result[name], value, rtol=near, atol=near * np.abs(value).max())


@pytest.mark.parametrize("policy", sorted(POLICY_CASES))
def test_every_policy_drives_an_optimizer(policy):
    """A skipped update does not move the rate along."""
    result, wrapper, infos = train("Momentum", {}, policy, 1, "Backoff", tf.float16)
    assert_close(result, reference({"kernel": ref.momentum(), "bias": ref.momentum()}, policy, 1))
    rates = [float(info["learning_rate"]) for info in infos if info["applied"]]
    np.testing.assert_allclose(rates, [POLICY_CASES[policy][1](s) for s in range(STEPS)], rtol=1e-5, atol=1e-9)
    assert int(wrapper.skipped) == len(BAD) and int(wrapper.updates) == STEPS


@pytest.mark.parametrize("scaling", ["Backoff", "LogMax"])
@pytest.mark.parametrize("optimizer,rule", [("Adam", ref.adam), ("SGD", ref.sgd), ("RMSProp", ref.rmsprop)])
def test_a_scale_that_adjusts_itself_changes_no_update(scaling, optimizer, rule):
    result, wrapper, infos = train(optimizer, {}, "poly_decay", 1, scaling, tf.float16)
    assert_close(result, reference({"kernel": rule(), "bias": rule()}, "poly_decay", 1))
    assert len({float(info["loss_scale"]) for info in infos}) > 3


@pytest.mark.parametrize("mode", ["clip", "scale"])
@pytest.mark.parametrize("iter_size", [1, 3])
@pytest.mark.parametrize("compat_no_ema", [False, True])
def test_larc_novograd_decay_average_accumulation_and_scaling(mode, iter_size, compat_no_ema):
    larc = {"larc_eta": 0.02 if mode == "clip" else 0.5, "larc_mode": mode, "min_update": 1e-3}
    result, wrapper, infos = train(
        "NovoGrad", {"beta2": 0.9, "compat_no_ema": compat_no_ema}, "cosine_decay", iter_size, "Backoff", tf.float16,
        larc=Larc(**larc), weight_decay=WeightDecay(0.05, "bias"), average=WeightAverage(0.8))
    factors, averages, rules = {"kernel": [], "bias": []}, {}, {}
    for name, start in (("kernel", np.array([[0.5], [-0.7], [0.9]], np.float32)), ("bias", np.zeros(1))):
        rule = ref.novograd(beta2=0.9, ema=not compat_no_ema)
        # LARC looks at the weights before they decay.
        rule = ref.with_weight_decay(rule, 0.05 if name == "kernel" else 0.0)
        rule = ref.with_larc(rule, factors[name], **larc)
        averages[name] = [start.astype(np.float64)]
        rules[name] = ref.with_average(rule, averages[name], 0.8)
    assert_close(result, reference(rules, "cosine_decay", iter_size))
    assert_close({name: average.numpy() for name, average in wrapper.averaged_weights.items()},
                 {name: average[0] for name, average in averages.items()})
    for name in factors:
        seen = [float(info["larc"][name].grad_update) for info in infos if info["applied"]]
        # The bias, one number, comes near 0, where its norm has few digits.
        np.testing.assert_allclose(seen, factors[name], rtol=1e-4, atol=1e-4 * max(factors[name]))
    assert int(wrapper.skipped) == len(BAD)
