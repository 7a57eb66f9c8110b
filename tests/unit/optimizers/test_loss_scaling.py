"""Loss scalers step by step against their algorithms in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import BackoffScaler, LogMaxScaler, StaticScaler, make_loss_scaler
from open_seq2seq.utils.errors import ConfigError
from tests.unit.optimizers import numpy_reference as ref


def run(scaler, amaxes):
    step = tf.function(scaler.update, input_signature=[tf.TensorSpec([], tf.bool), tf.TensorSpec([])])
    scales = []
    for amax in amaxes:
        step(tf.constant(bool(np.isfinite(amax))), tf.constant(amax, tf.float32))
        scales.append(float(scaler.scale))
    return scales


def pattern(passes=400, seed=0):
    rng = np.random.default_rng(seed)
    amaxes = 2.0 ** rng.normal(-3, 2, passes)
    amaxes[[3, 4, 50, 51, 52, 53, 200]] = np.inf
    amaxes[300] = np.nan
    amaxes[[120, 121]] = 0.0
    return amaxes.astype(np.float32)


@pytest.mark.parametrize("params", [{}, {"step_window": 20}, {"step_window": 7, "step_factor": 3.0,
                                                             "scale_min": 32.0, "scale_max": 1000.0}])
def test_backoff(params):
    names = {"step_window": "window", "step_factor": "factor"}
    expected = ref.backoff(np.isfinite(pattern()), **{names.get(k, k): v for k, v in params.items()})
    assert float(BackoffScaler(**params).scale) == params.get("scale_max", 2.0**14)
    np.testing.assert_allclose(run(BackoffScaler(**params), pattern()), list(expected), rtol=1e-6)


@pytest.mark.parametrize("params", [{}, {"scale_max": 2.0**20, "beta1": 0.9, "beta2": 0.95,
                                         "overflow_std_dev": 2.0, "log_max": 15.0}])
def test_logmax(params):
    names = {"overflow_std_dev": "deviations"}
    expected = list(ref.logmax(pattern(), **{names.get(k, k): v for k, v in params.items()}))
    assert float(LogMaxScaler(**params).scale) == 1.0
    np.testing.assert_allclose(run(LogMaxScaler(**params), pattern()), expected, rtol=1e-5)
    assert len(set(expected)) > 100  # not stuck at a bound


@pytest.mark.parametrize("make", [lambda: BackoffScaler(step_window=5), LogMaxScaler])
def test_state_is_all_there_is_to_resume(make):
    amaxes = pattern()[:60]
    whole = run(make(), amaxes)
    first, second = make(), make()
    start = run(first, amaxes[:23])
    for name, variable in second.state().items():
        variable.assign(first.state()[name])
    assert start + run(second, amaxes[23:]) == whole


def test_names():
    assert isinstance(make_loss_scaler("backoff", {"step_window": 10}), BackoffScaler)
    assert isinstance(make_loss_scaler("LogMax"), LogMaxScaler)
    assert float(make_loss_scaler(512).scale) == 512.0
    assert float(make_loss_scaler("512.0").scale) == 512.0
    assert isinstance(make_loss_scaler("Backoff", None, tf.float32), StaticScaler)
    assert float(make_loss_scaler(512.0, None, tf.float32).scale) == 1.0
    assert isinstance(make_loss_scaler(), BackoffScaler)
    assert float(make_loss_scaler(compute=tf.bfloat16).scale) == 1.0


@pytest.mark.parametrize("loss_scaling,params,message", [
    ("Backof", None, "Did you mean 'Backoff'"),
    (0.0, None, "positive"),
    (True, None, "must be a number"),
    (2.0, {"scale_min": 1.0}, "no effect"),
    ("Backoff", {"stepwindow": 3}, "Did you mean 'step_window'"),
    ("Backoff", {"initial_scale": 8.0}, "initial_scale"), ("LogMax", {"initial_scale": 8.0}, "initial_scale"),
    ("Backoff", {"step_factor": 1.0}, "step_factor' is 1.0 but has to be above 1"),
    ("LogMax", {"scale_min": 4.0, "scale_max": 2.0}, "scale_min' must not exceed"),
])
def test_mistakes_are_explained(loss_scaling, params, message):
    with pytest.raises(ConfigError, match=message):
        make_loss_scaler(loss_scaling, params)


@pytest.mark.parametrize("params", [{}, {"scale_max": 2.0**24},
                                    {"scale_max": 100.0, "scale_min": 1.0, "step_factor": 3.0}])
def test_the_longest_search_of_backoff(params):
    scaler = BackoffScaler(**params)
    skips = 1
    while float(scaler.scale) > params.get("scale_min", 1.0):
        scaler.update(tf.constant(False))
        skips += 1
    assert scaler.longest_search == skips
    assert LogMaxScaler().longest_search == StaticScaler(2.0).longest_search == 0
