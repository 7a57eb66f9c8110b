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
# After a warm-up, the decay begins at its end here, and at step 0 there.
DECAY_FROM_0 = ("cosine_warmup_no_begin", "poly_warmup_no_begin")


def weights() -> dict[str, tf.Variable]:
    return {name: tf.Variable(ARRAYS[f"optimizers.w0.{name}"]) for name in VARIABLES}


def gradients(step: int) -> dict[str, tf.Tensor]:
    return {name: tf.constant(ARRAYS[f"optimizers.g.{name}"][step]) for name in VARIABLES}


def assert_close(ours: Any, key: str, step: int | None = None) -> None:
    for name in VARIABLES:
        theirs = ARRAYS[f"optimizers.{key}.{name}"]
        theirs = theirs if step is None else theirs[step]
        np.testing.assert_allclose(ours[name], theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("name", sorted({*POLICIES} - {*DECAY_FROM_0}))
def test_policies(name: str):
    params = POLICIES[name]["params"]
    schedule = make_schedule(POLICIES[name]["policy"], params, 10**9)
    steps = ARRAYS["lr_policies.steps"]
    if name == "exp_staircase":  # at multiples of decay_steps, the division is rounded down there
        steps = steps[(steps - params["begin_decay_at"]) % params["decay_steps"] > 0]
    ours = [float(schedule(tf.constant(step, tf.int64))) for step in steps]
    theirs = ARRAYS[f"lr_policies.{name}"][np.isin(ARRAYS["lr_policies.steps"], steps)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7 * theirs.max())


@pytest.mark.parametrize("name", sorted({*SCALERS} - {"logmax_params"}))
def test_loss_scales(name: str):
    """LogMax is compared as long as the original's scale does not stay at 1 after an overflow."""
    scaler = make_loss_scaler(SCALERS[name]["algorithm"], SCALERS[name]["params"])
    update = tf.function(scaler.update, input_signature=[tf.TensorSpec([], tf.bool), tf.TensorSpec([])])
    scales = [float(scaler.scale)]
    for has_nan, largest in zip(ARRAYS["loss_scaling.has_nan"], ARRAYS["loss_scaling.amax"], strict=True):
        update(tf.constant(bool(np.isfinite(largest) and not has_nan)), tf.constant(largest))
        scales.append(float(scaler.scale))
    np.testing.assert_allclose(scales, ARRAYS[f"loss_scaling.{name}"], rtol=1e-6)


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
