"""The time of a training, estimated from a few updates."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from open_seq2seq.run import dry_run as time_estimate
from open_seq2seq.run.dry_run import time_remark
from open_seq2seq.training.loop.divergence import Divergence


class Clock:
    """A clock that moves on by the given times of updates."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time_estimate.time, "perf_counter", lambda: self.now)


def trainer_of(clock, seconds, last_step=1000, processes=1):
    def run_steps(hooks):
        for one in seconds[:last_step]:
            if isinstance(one, Exception):
                raise one
            clock.now += one
            for hook in hooks:
                hook.after_step(None, {"loss": 1.0})

    return SimpleNamespace(run_steps=run_steps, last_step=last_step, runner=SimpleNamespace(num_processes=processes))


EVALUATES = SimpleNamespace(params={"eval_steps": 300})


def passes(seconds, rounds):
    return lambda model, runner: SimpleNamespace(time_rounds=lambda least, most: (seconds, len(seconds), rounds))


@pytest.mark.parametrize(("seconds", "line"), [
    ([9.0] + [0.5] * 50, "Time: about 8 min (7 min to 10 min) for 1,000 updates of 0.5 s, measured on 10"),
    # The loader, which is slower than the device, made eight batches during the first update.
    ([9.0] + [0.1] * 8 + [0.5] * 50, "Time: about 8 min (7 min to 10 min) for 1,000 updates of 0.5 s, measured on 10"),
    ([0.1] * 99, "Time: about 2 min (80 s to 2 min) for 1,000 updates of 0.1 s, measured on 31"),
    ([8.0] * 9, "Time: about 2 h 13 min (1 h 47 min to 2 h 40 min) for 1,000 updates of 8 s, measured on 2"),
    ([90.0] * 9, "Time: about 25 h 00 min (20 h 00 min to 30 h 00 min) for 1,000 updates of 90 s, measured on 1"),
    ([1.0] + [0.2, 1.8] * 9, "Time: about 17 min (8 min to 25 min) for 1,000 updates of 1 s, measured on 10")])
def test_the_time_is_that_of_the_updates_after_the_first(monkeypatch, seconds, line):
    assert time_remark(trainer_of(Clock(monkeypatch), seconds), None) == line


@pytest.mark.parametrize(("seconds", "rounds", "time", "evaluations"), [
    ([6.0] * 5, 10, "12 min (9 min to 14 min)", "4 evaluations of 60 s, measured on 5 of 10 batches"),
    ([2.0], 1, "8 min (6 min to 9 min)", "4 evaluations of 2 s, measured on 1 of 1 batch")])
def test_the_time_includes_evaluations(monkeypatch, seconds, rounds, time, evaluations):
    monkeypatch.setattr(time_estimate, "EvaluationPass", passes(seconds, rounds))
    assert time_remark(trainer_of(Clock(monkeypatch), [9.0] + [0.45] * 50), EVALUATES) == (
        f"Time: about {time} for 1,000 updates of 0.45 s, measured on 10, and {evaluations}")


@pytest.mark.parametrize(("last_step", "updates", "evaluations"), [
    (1000, "300 updates", "2 evaluations"),  # at 900 and 1,000
    (850, "150 updates", "1 evaluation"),  # with more replicas than before
    (700, "0 updates", "0 evaluations")])
def test_the_time_of_a_resumed_run_is_that_of_what_is_left(monkeypatch, last_step, updates, evaluations):
    monkeypatch.setattr(time_estimate, "EvaluationPass", passes([6.0], 10))
    trainer = trainer_of(Clock(monkeypatch), [9.0] + [0.5] * 50)
    trainer.resume = lambda step, micro_batch: setattr(trainer, "last_step", last_step)
    line = time_remark(trainer, EVALUATES, {"step": 700, "micro_batch": 1400})
    assert f" for {updates} of 0.5 s" in line and f"and {evaluations} of" in line


@pytest.mark.parametrize(("trainer", "reason"), [
    ({"seconds": [1.0], "last_step": 1}, ", because training has too few updates"),
    ({"seconds": [1.0, Divergence("nan", 2)]}, ", because the first updates diverge"),
    ({"seconds": [], "processes": 2}, " for several processes; --benchmark measures their speed")])
def test_why_a_time_is_not_estimated(monkeypatch, trainer, reason):
    assert time_remark(trainer_of(Clock(monkeypatch), **trainer), None) == f"Time: not estimated{reason}"
