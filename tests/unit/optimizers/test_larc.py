"""LARC against its formula in float64, both modes, dense gradients and rows."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import (
    Larc,
    MixedPrecisionOptimizer,
    StaticScaler,
    make_optimizer,
    make_schedule,
)
from open_seq2seq.utils.errors import ConfigError
from tests.unit.optimizers import numpy_reference as ref

STEPS = 50
SHAPES = {"kernel": (6, 5), "bias": (5,), "table": (8, 3)}
MODES = [{"larc_eta": 0.001}, {"larc_eta": 0.02, "larc_mode": "clip", "min_update": 1e-3},
         {"larc_eta": 0.02, "larc_mode": "scale", "epsilon": 1e-4}]


def problem():
    """Weights (the bias is all zeros), gradients that grow and shrink, rates from 0 up and down."""
    rng = np.random.default_rng(0)
    start = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    start["bias"][:] = 0.0
    sizes = {"kernel": 3.0, "bias": 0.5, "table": 0.2}
    grads = []
    for step in range(STEPS):
        grads.append({name: (rng.normal(1.0, 1.0, size=SHAPES[name]) * size * 10.0 ** np.cos(step / 5))
                      .astype(np.float32) for name, size in sizes.items() if name != "table"})
        indices = rng.integers(0, 7, 5)
        indices[1] = indices[0]
        grads[-1]["table"] = ((rng.normal(size=(5, 3)) * sizes["table"]).astype(np.float32), indices)
    return start, grads


def dense(gradient):
    if not isinstance(gradient, tuple):
        return gradient.astype(np.float64)
    whole = np.zeros(SHAPES["table"])
    np.add.at(whole, gradient[1], gradient[0].astype(np.float64))
    return whole


def as_tensor(gradient, scale=1.0):
    if not isinstance(gradient, tuple):
        return tf.constant(gradient * np.float32(scale))
    return tf.IndexedSlices(tf.constant(gradient[0] * np.float32(scale)), tf.constant(gradient[1]),
                            tf.constant(SHAPES["table"], tf.int64))


SCHEDULE = {"learning_rate": 0.3, "warmup_steps": 10, "power": 2.0}


def run(optimizer, params, start, grads, scale=1.0, **options):
    variables = {name: tf.Variable(value) for name, value in start.items()}
    wrapper = MixedPrecisionOptimizer(make_optimizer(optimizer), make_schedule("poly_decay", SCHEDULE, STEPS),
                                      StaticScaler(scale), larc=Larc(**params))
    wrapper.build(variables)
    step = tf.function(lambda gradients: wrapper.update(gradients, variables), **options)
    infos = [step({name: as_tensor(g, scale) for name, g in gradients.items()}) for gradients in grads]
    assert step.experimental_get_tracing_count() == 1
    return {name: variable.numpy() for name, variable in variables.items()}, infos


@pytest.mark.parametrize("params", MODES)
@pytest.mark.parametrize("optimizer,reference", [("SGD", ref.sgd), ("Momentum", ref.momentum)])
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_follows_its_formula(params, optimizer, reference, scale):
    start, grads = problem()
    rates = [0.3 * s / 10 if s < 10 else 0.3 * (1 - (s - 10) / (STEPS - 10)) ** 2 for s in range(STEPS)]
    result, infos = run(optimizer, params, start, grads, scale)
    for name in SHAPES:
        factors = []
        rule = ref.with_larc(reference(), factors, **params)
        expected = ref.follow(rule, start[name], [dense(g[name]) for g in grads], rates)
        np.testing.assert_allclose(result[name], expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
        np.testing.assert_allclose([float(i.larc[name].grad_update) for i in infos], factors, rtol=1e-4)
        finals = [float(i.larc[name].final_lr) for i in infos]
        np.testing.assert_allclose(finals, np.array(factors) * rates, rtol=1e-4)
        clips = [float(i.larc[name].clip_on) for i in infos]
        assert clips == [float(f < 1.0 and params.get("larc_mode") != "scale") for f in factors]
    norms = [np.sqrt(sum((dense(g[n]) ** 2).sum() * float(i.larc[n].grad_update) ** 2 for n in SHAPES))
             for g, i in zip(grads, infos, strict=True)]
    np.testing.assert_allclose([float(i.clipped_grad_norm) for i in infos], norms, rtol=1e-5)


def test_a_zero_variable_is_not_frozen_for_ever():
    w = {"bias": np.zeros(4, np.float32)}
    grads = [{"bias": np.full(4, 0.1, np.float32)}] * STEPS
    slow, _ = run("SGD", {"larc_eta": 0.5}, w, grads)
    quick, _ = run("SGD", {"larc_eta": 0.5, "min_update": 0.01}, w, grads)
    assert np.abs(slow["bias"]).min() > 1e-3
    assert np.abs(quick["bias"]).min() > 10 * np.abs(slow["bias"]).max()


@pytest.mark.parametrize("params", MODES)
def test_xla_gives_the_same(params):
    start, grads = problem()
    grads = [{name: dense(g).astype(np.float32) for name, g in gradients.items()} for gradients in grads]
    plain, _ = run("Momentum", params, start, grads)
    compiled, _ = run("Momentum", params, start, grads, jit_compile=True)
    for name in SHAPES:
        np.testing.assert_allclose(compiled[name], plain[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("params,message", [
    ({}, "larc_params/larc_eta' is missing"),
    ({"larc_eta": 0.1, "larc_mod": "clip"}, "Did you mean 'larc_mode'"),
    ({"larc_eta": 0.1, "larc_mode": "clips"}, "one of 'clip', 'scale'"),
    ({"larc_eta": 0.0}, "above 0"),
    ({"larc_eta": 0.1, "min_update": -1.0}, "at least 0"),
    ({"larc_eta": 0.1, "epsilon": 0}, "above 0"),
])
def test_mistakes_are_explained(params, message):
    with pytest.raises(ConfigError, match=message):
        Larc(**params)
