"""Policies against their formulas in NumPy at many steps."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import POLICIES, cosine_decay, fixed_lr, make_schedule
from open_seq2seq.optimizers.lr_policies import scaled_schedule
from open_seq2seq.utils.errors import ConfigError
from tests.unit.optimizers import numpy_reference as ref

LAST = 1000
STEPS = [0, 1, 2, 9, 10, 11, 49, 50, 51, 99, 100, 101, 499, 500, 501, 999, 1000, 5000]


def values(policy, params, last_step=LAST, steps_per_epoch=None, steps=STEPS):
    schedule = tf.function(make_schedule(policy, params, last_step, steps_per_epoch),
                           input_signature=[tf.TensorSpec([], tf.int64)])
    rates = [schedule(tf.constant(s, tf.int64)) for s in steps]
    assert all(r.dtype == tf.float32 and r.shape == () for r in rates)
    return np.array([r.numpy() for r in rates])


CASES = [
    ("fixed_lr", {"learning_rate": 0.3}, lambda s: 0.3),
    ("exp_decay", {"learning_rate": 0.1, "decay_steps": 100, "decay_rate": 0.5, "use_staircase_decay": False,
                   "begin_decay_at": 50, "min_lr": 1e-3}, lambda s: ref.exponential(s, 0.1, 100, 0.5, False, 50, 1e-3)),
    ("exp_decay", {"learning_rate": 0.1, "decay_steps": 100, "decay_rate": 0.5, "use_staircase_decay": True},
     lambda s: ref.exponential(s, 0.1, 100, 0.5, True)),
    ("poly_decay", {"learning_rate": 0.02, "power": 2.0, "min_lr": 1e-5},
     lambda s: ref.poly(s, 0.02, LAST, 2.0, 0, 1e-5)),
    ("poly_decay", {"learning_rate": 0.02, "warmup_steps": 50, "begin_decay_at": 10},
     lambda s: ref.poly(s, 0.02, LAST - 50, warmup=50)),
    ("poly_decay", {"learning_rate": 0.02, "warmup_steps": 50, "begin_decay_at": 100, "decay_steps": 400},
     lambda s: ref.poly(s, 0.02, 400, begin=100, warmup=50)),
    ("cosine_decay", {"learning_rate": 0.5, "min_lr": 0.1}, lambda s: ref.cosine(s, 0.5, LAST, fraction=0.1)),
    ("cosine_decay", {"learning_rate": 0.5, "warmup_steps": 10, "begin_decay_at": 100},
     lambda s: ref.cosine(s, 0.5, LAST - 100, begin=100, warmup=10)),
    ("transformer_policy", {"learning_rate": 2.0, "d_model": 512, "warmup_steps": 100},
     lambda s: ref.transformer(s, 2.0, 512, 100)),
    ("transformer_policy", {"learning_rate": 2.0, "d_model": 512, "warmup_steps": 100, "max_lr": 5e-3,
                            "coefficient": 0.7},
     lambda s: min(5e-3, ref.transformer(s, 1.4, 512, 100))),
    ("inv_poly_decay", {"learning_rate": 0.1, "min_lr": 1e-3, "power": 2.0},
     lambda s: ref.inverse(s, 0.1, LAST, 1e-3, 2.0)),
    ("inv_poly_decay", {"learning_rate": 0.0, "min_lr": 0.0}, lambda s: 0.0),
    ("inv_poly_decay", {"learning_rate": 0.1, "min_lr": 0.0, "begin_decay_at": 10, "warmup_steps": 200},
     lambda s: ref.inverse(s, 0.1, LAST - 200, 0.0)),
    ("piecewise_constant", {"learning_rate": 0.1, "boundaries": [10, 100], "decay_rates": [0.1, 0.01]},
     lambda s: ref.piecewise(s, 0.1, [10, 100], [0.1, 0.01])),
]


@pytest.mark.parametrize("policy,params,formula", CASES)
def test_follows_its_formula(policy, params, formula):
    expected = np.array([formula(s) for s in STEPS])
    # Rates are FP32: near the end of a decay their error is relative to the first rate.
    np.testing.assert_allclose(values(policy, params), expected, rtol=2e-6, atol=2e-7 * expected.max())


def test_all_seven_are_covered():
    assert {case[0] for case in CASES} == set(POLICIES)


def test_boundaries_are_epochs_when_epochs_are_known():
    params = {"learning_rate": 1.0, "boundaries": [1, 2.5], "decay_rates": [0.1, 0.01]}
    np.testing.assert_allclose(values("piecewise_constant", params, steps_per_epoch=20, steps=[20, 21, 50, 51]),
                               [1, 0.1, 0.1, 0.01], rtol=1e-6)


def test_a_run_shorter_than_its_warm_up():
    np.testing.assert_allclose(values("poly_decay", {"learning_rate": 1.0, "warmup_steps": 100}, 10, steps=[0, 5]),
                               [0, 0.05], rtol=1e-6)


@pytest.mark.parametrize("policy", ["poly_decay", "cosine_decay"])
@pytest.mark.parametrize("last_step", [30, 300, 10000])
def test_a_warm_up_that_is_a_share_of_any_number_of_updates(policy, last_step):
    peak = last_step // 10
    rates = values(policy, {"learning_rate": 2e-3, "warmup_share": 0.1}, last_step,
                   steps=[0, peak - 1, peak, (peak + last_step) // 2, last_step])
    np.testing.assert_allclose(rates, [0, 2e-3 * (1 - 1 / peak), 2e-3, 1e-3, 0], rtol=0.06, atol=1e-9)


def test_steps_of_a_warm_up_come_before_its_share():
    np.testing.assert_array_equal(values("poly_decay", {"learning_rate": 1.0, "warmup_share": 0.5, "warmup_steps": 10}),
                                  values("poly_decay", {"learning_rate": 1.0, "warmup_steps": 10}))


def test_function_of_the_user():
    def halving(global_step, learning_rate, decay_steps, begin_decay_at=0):
        return learning_rate * 0.5 ** (tf.cast(global_step, tf.float64) / decay_steps)

    np.testing.assert_allclose(values(halving, {"learning_rate": 1.0, "begin_decay_at": 500}, steps=[0, 500]),
                               [1, 0.5])


def test_functions_and_names_are_alike():
    np.testing.assert_array_equal(values(cosine_decay, {"learning_rate": 1.0}),
                                  values("open_seq2seq.optimizers.cosine_decay", {"learning_rate": "1"}))
    assert fixed_lr(tf.constant(3, tf.int64), learning_rate=0.5).numpy() == 0.5


@pytest.mark.parametrize("policy,params,message", [
    ("cosine", {}, "cosine_decay"),
    ("no_module_here.policy", {}, "cannot be imported"),
    ("fixed_lr", {}, "learning_rate' is missing"),
    ("poly_decay", {"learning_rate": 0.1, "min_rl": 0.1}, "Did you mean 'min_lr'"),
    ("poly_decay", {"learning_rate": "fast"}, "lr_policy_params/learning_rate"),
    ("poly_decay", {"learning_rate": 0.1, "decay_steps": 1.5}, "decay_steps' is 1.5"),
    ("poly_decay", {"learning_rate": 0.1, "warmup_share": 10}, "warmup_share' is 10"),
    ("piecewise_constant", {"learning_rate": 0.1, "boundaries": [1], "decay_rates": [0.1, 0.2]}, "1 boundaries and 2"),
    ("piecewise_constant", {"learning_rate": 0.1, "boundaries": [2, 1], "decay_rates": [0.1, 0.2]}, "increasing order"),
    ("piecewise_constant", {"learning_rate": 0.1, "boundaries": 3, "decay_rates": [0.1]}, "a list of numbers"),
    ("inv_poly_decay", {"learning_rate": 0.1, "min_lr": 0.01, "power": 0}, "must be positive"),
    ("inv_poly_decay", {"learning_rate": 1e-2, "min_lr": 0, "power": 0.01}, "power' is 0.01 but must be at least 0.17"),
])
def test_mistakes_are_explained(policy, params, message):
    with pytest.raises(ConfigError, match=message):
        make_schedule(policy, params, LAST)


@pytest.mark.parametrize("factor", [1, 3])
def test_a_scaled_schedule_is_so_many_times_as_high_at_each_step(factor):
    schedule = make_schedule(cosine_decay, {"learning_rate": 0.1}, LAST, None)
    for step in (0, 500, 999):
        index = tf.constant(step, tf.int64)
        assert float(scaled_schedule(schedule, factor)(index)) == np.float32(factor) * np.float32(schedule(index))


@pytest.mark.parametrize(("policy", "params", "spans_run"), [
    ("poly_decay", {"warmup_share": 0.1}, True),
    ("piecewise_constant", {"boundaries": [5], "decay_rates": [0.1]}, True),
    ("poly_decay", {"decay_steps": 400}, False), ("transformer_policy", {"d_model": 16, "warmup_steps": 400}, False)])
def test_only_a_schedule_that_spans_the_run_is_shifted(policy, params, spans_run):
    """The variable is assigned after the schedule was traced."""
    shift = tf.Variable(0, dtype=tf.int64)
    plain, schedule = (make_schedule(policy, {"learning_rate": 1.0, **params}, 500, 50, more) for more in (None, shift))
    traced = tf.function(schedule, input_signature=[tf.TensorSpec([], tf.int64)])
    for by in (0, -250, 200):
        shift.assign(by)
        for step in (0, 240, 270, 500):
            shifted = max(step + by, 0) if spans_run else step
            expected = plain(tf.constant(shifted, tf.int64))
            assert float(traced(tf.constant(step, tf.int64))) == pytest.approx(float(expected), rel=1e-5)
