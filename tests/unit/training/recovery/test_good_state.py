"""Which checkpoint a run goes back to, and which arithmetic a resumed one keeps."""

from __future__ import annotations

from unittest.mock import MagicMock

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.checkpoints.run_variables import RunVariables
from open_seq2seq.checkpoints.writing import copies
from open_seq2seq.optimizers import MixedPrecisionOptimizer, make_optimizer
from open_seq2seq.optimizers.weight_average import MEAN_COUNT, WeightMean
from open_seq2seq.training.recovery.good_state import GoodState, Tried, pick_state
from open_seq2seq.training.recovery.recovery import Counters, Restart, kept_dtype

INF = float("inf")


def pick(losses, before=None):
    """(step chosen, how many were tried) among checkpoints at 100, 90, 80, …"""
    tried = []

    def candidates():
        for number, loss in enumerate(losses):
            tried.append(loss)
            step = 100 - 10 * number
            yield Tried(GoodState(f"model.ckpt-{step}", step, {}, {"updates": np.array(0)}), loss)

    state, loss = pick_state(candidates(), before)
    assert loss == losses[(100 - state.step) // 10]
    return state.step, len(tried)


@pytest.mark.parametrize(("losses", "expected"), [
    ([2.0], (100, 1)),
    ([2.0, 2.1, 2.5], (100, 2)),  # training went well: the newest, and no more is read than needed
    ([2.2, 2.0, 2.5], (100, 2)),  # noise
    ([50.0, 2.0, 2.5, 3.0], (90, 3)),
    ([1e30, 1e9, 5.0, 2.0, 2.1], (70, 5)),  # a rate that is too high
    ([INF, 1e9, 5.0, 4.0], (80, 4)),
    ([INF, INF, INF], (100, 3)),  # the batch is to blame
    ([-3.0, -2.9], (100, 2)), ([5.0, -3.0, -2.9], (90, 3)),  # a log-likelihood
])
def test_the_newest_that_is_not_astray(losses, expected):
    assert pick(losses) == expected


def test_back_further_when_it_happens_again():
    assert pick([2.0, 2.1, 2.2, 2.3, 2.4], before=80) == (70, 5)
    assert pick([2.0, 2.1], before=80) == (90, 2)  # as far as there is


def test_a_mean_restarts_if_the_state_lacks_its_count():
    weights = {"w": tf.Variable([1.0])}
    optimizer = MixedPrecisionOptimizer(make_optimizer("SGD"), lambda index: tf.constant(0.1), average=WeightMean(0))
    optimizer.build(weights)
    of_another_average = {name: value for name, value in copies(optimizer.state()).items() if name != MEAN_COUNT}
    optimizer.update({"w": tf.constant([1.0])}, weights)
    assert int(optimizer.state()[MEAN_COUNT]) == 1
    state = GoodState("model.ckpt-1", 1, {"w": np.float32([2.0])}, of_another_average | {"ema/w": np.float32([5.0])})
    state.put_into(RunVariables(weights, weights, optimizer, MagicMock()))
    assert int(optimizer.state()[MEAN_COUNT]) == 0 and float(optimizer.averaged_weights["w"][0]) == 2.0


@pytest.mark.parametrize(("config", "policy", "lowered", "kept"), [
    ("mixed_float16", "lower_precision", "mixed_bfloat16", "mixed_bfloat16"),
    ("mixed_float16", "lower_precision", "float32", "float32"),
    ("mixed_float16", "lower_precision", None, None),
    ("float32", "lower_precision", "mixed_bfloat16", None),
    ("mixed_bfloat16", "lower_precision", "mixed_bfloat16", None),
    ("mixed_float16", "stop", "float32", None),
])
def test_the_type_of_a_resumed_run(config, policy, lowered, kept):
    params = {"dtype": config, "on_divergence": policy}
    assert kept_dtype(params, {"divergence": {"dtype": lowered}}) == kept
    assert kept_dtype(params, {}) is None


def test_a_new_trainer_does_not_restart_the_time_of_training():
    trainer = MagicMock(saver=None, began=50.0)
    Restart(MagicMock(), 3, 5, Counters(3, 0, 0, 1.0), 1.0, {}, began=7.0).put_into(trainer)
    assert trainer.began == 7.0
