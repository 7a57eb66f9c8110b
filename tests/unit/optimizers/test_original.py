"""Policies, loss scales, LARC, clipping and optimizers compute what NVIDIA's OpenSeq2Seq computes.

``original.npz`` has the values that the original gave under TensorFlow 1.15, and its parameters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.original_defaults import _decay_in_warmup
from open_seq2seq.optimizers import (
    Larc,
    MixedPrecisionOptimizer,
    make_loss_scaler,
    make_optimizer,
    make_schedule,
)
from open_seq2seq.optimizers.clipping import clip_factor, global_norm

ARRAYS = dict(np.load(Path(__file__).with_name("original.npz")))
PARAMS: dict[str, dict[str, Any]] = json.loads(str(ARRAYS.pop("params")))
POLICIES, SCALERS, OPTIMIZERS = (PARAMS[part] for part in ("lr_policies", "loss_scaling", "optimizers"))
VARIABLES = ("a", "b", "c")  # "b" has gradients of small norms, and "c" is zero at first


def weights() -> dict[str, tf.Variable]:
    return {name: tf.Variable(ARRAYS[f"optimizers.w0.{name}"]) for name in VARIABLES}


def gradients(step: int) -> dict[str, tf.Tensor]:
    return {name: tf.constant(ARRAYS[f"optimizers.g.{name}"][step]) for name in VARIABLES}


def assert_close(ours: Any, key: str, step: int | None = None) -> None:
    for name in VARIABLES:
        theirs = ARRAYS[f"optimizers.{key}.{name}"]
        theirs = theirs if step is None else theirs[step]
        np.testing.assert_allclose(ours[name], theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("name", POLICIES)
def test_policies(name: str):
    policy, params = POLICIES[name]["policy"], dict(POLICIES[name]["params"])
    lines = list(_decay_in_warmup({"base_params": {"lr_policy": policy, "lr_policy_params": params}}))
    assert bool(lines) == params.get("decay_in_warmup", False) == name.endswith("_warmup_no_begin")
    schedule = make_schedule(policy, params, 10**9)
    steps, theirs = ARRAYS["lr_policies.steps"], ARRAYS[f"lr_policies.{name}"]
    ours = tf.function(lambda: tf.map_fn(schedule, tf.constant(steps), fn_output_signature=tf.float32))().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7 * theirs.max())
    eager = [float(schedule(tf.constant(step))) for step in steps[::9]]  # for graphs, TensorFlow changes arithmetic
    np.testing.assert_allclose(eager, ours[::9], rtol=1e-5)


def test_without_the_originals_meaning_the_decay_begins_after_the_warm_up():
    for name, ours, theirs in (("poly_warmup_no_begin", 0.010671, 0.009339),
                               ("cosine_warmup_no_begin", 0.005747, 0.004753)):
        schedule = make_schedule(POLICIES[name]["policy"], POLICIES[name]["params"], 10**9)
        place = ARRAYS["lr_policies.steps"].tolist().index(8000)
        assert float(schedule(tf.constant(8000, tf.int64))) == pytest.approx(ours, abs=1e-6)
        assert ARRAYS[f"lr_policies.{name}"][place] == pytest.approx(theirs, abs=1e-6)


def scales_of(name: str, has_nan: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """The scale of ours before the first update and after each."""
    scaler = make_loss_scaler(SCALERS[name]["algorithm"], SCALERS[name]["params"])

    @tf.function
    def run(finite: tf.Tensor, amax: tf.Tensor) -> tf.Tensor:
        def step(_: tf.Tensor, values: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            scaler.update(*values)
            return scaler.scale

        return tf.scan(step, (finite, amax), scaler.scale, parallel_iterations=1)

    first = float(scaler.scale)
    return np.array([first, *run(tf.constant(np.isfinite(largest) & ~has_nan), tf.constant(largest)).numpy()])


def logmax(params: dict[str, float], finite: np.ndarray, largest: np.ndarray, after_overflow: float) -> np.ndarray:
    """The rule of LogMax, for which an overflow has the base-2 logarithm ``after_overflow``."""
    beta1, beta2, margin = (params.get(*pair) for pair in (
        ("beta1", 0.99), ("beta2", 0.999), ("overflow_std_dev", 3.09)))
    mean = slow = square = 0.0
    scales = [1.0]
    for count, (is_finite, value) in enumerate(zip(finite, largest.astype(np.float64), strict=True), 1):
        x = np.log2(value) if is_finite else after_overflow
        mean = beta1 * mean + (1 - beta1) * x
        slow, square = beta2 * slow + (1 - beta2) * x, beta2 * square + (1 - beta2) * x * x
        variance = square / (1 - beta2**count) - (slow / (1 - beta2**count))**2
        exponent = 16 - mean / (1 - beta1**count) - margin * np.sqrt(max(variance, 0.0))
        scales.append(float(np.clip(2.0**np.clip(exponent, -99, 99), 1.0, params.get("scale_max", 2.0**14))))
    return np.array(scales)


@pytest.mark.parametrize("name", [name for name in SCALERS if SCALERS[name]["algorithm"] == "Backoff"])
def test_loss_scales(name: str):
    ours = scales_of(name, ARRAYS["loss_scaling.has_nan"], ARRAYS["loss_scaling.amax"])
    np.testing.assert_allclose(ours, ARRAYS[f"loss_scaling.{name}"], rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in SCALERS if SCALERS[name]["algorithm"] == "LogMax"])
@pytest.mark.parametrize("series", ["", "finite."])
def test_logmax_differs_only_in_what_counts_as_the_logarithm_of_an_overflow(name: str, series: str):
    """It is 2^16 there, so that the scale stays at 1, and 16 here; the series ``finite`` overflows in update 2,500."""
    has_nan, largest = (ARRAYS[f"loss_scaling.{series}{part}"] for part in ("has_nan", "amax"))
    finite = np.isfinite(largest) & ~has_nan
    every = 20 if series else 1  # the file has every 20th scale of the long series
    theirs, ours = ARRAYS[f"loss_scaling.{series}{name}"], scales_of(name, has_nan, largest)
    params = SCALERS[name]["params"]
    np.testing.assert_allclose(theirs, logmax(params, finite, largest, 2.0**16)[::every], rtol=1e-3)
    np.testing.assert_allclose(ours, logmax(params, finite, largest, 16.0), rtol=1e-4)
    before = int(np.argmin(finite)) // every + 1
    np.testing.assert_allclose(ours[::every][:before], theirs[:before], rtol=1e-3)
    assert np.all(theirs[before:] == 1.0)
    assert ours[-1] > 1.0 or not series  # recovers


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if "optimizer" not in OPTIMIZERS[name]])
def test_larc_and_clipping(name: str):
    given = OPTIMIZERS[name]
    if given["larc_params"]:
        rate = tf.constant(given["lr"])
        changed, _, _ = Larc(**given["larc_params"]).apply(gradients(0), weights(), rate, tf.constant(1.0))
    else:
        factor = clip_factor(global_norm(gradients(0)), given["clip_gradients"])
        changed = {key: gradient * factor for key, gradient in gradients(0).items()}
    assert_close(changed, f"{name}.g")


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if "optimizer" in OPTIMIZERS[name]])
def test_optimizers(name: str):
    given = OPTIMIZERS[name]
    kind = given["optimizer"].removesuffix("Optimizer")
    params = {**given["params"], **({"compat_no_ema": True} if kind == "NovoGrad" else {})}
    optimizer = MixedPrecisionOptimizer(
        make_optimizer(kind, params), make_schedule("fixed_lr", {"learning_rate": given["lr"]}, 10),
        larc=Larc(**given["larc_params"]) if "larc_params" in given else None)
    variables = weights()
    optimizer.build(variables)
    for step in range(5):
        optimizer.update(gradients(step), variables)
        assert_close(variables, f"{name}.w", step)
