"""Passes in windows: every example once, in windows of consecutive ones, equal on any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from open_seq2seq.data import windows
from open_seq2seq.data.batching import EpochPlanner
from open_seq2seq.data.windows import WindowedPlan, WindowLoader
from open_seq2seq.utils.errors import DataError

COUNTED_OR_NOT = [(False, True), (False, False), (True, True)]
"""Whether examples cost their longer side, and whether they are bucketed."""


class Layer:
    def make_batch(self, examples):
        return {"ids": np.asarray(examples)}


def lengths_of(count: int, sides: int = 1, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).integers(1, 60, [count, sides])
    return found[:, 0] if sides == 1 else found


def settings_of(lengths: np.ndarray, costly: bool, budget: int = 200) -> dict[str, Any]:
    costs = lengths.reshape(len(lengths), -1).max(axis=1)
    return {"batch_size": budget, "costs": costs} if costly else {"batch_size": 8, "costs": np.ones_like(costs)}


@pytest.fixture
def few(monkeypatch):
    """Windows of four batches or 50 examples."""
    monkeypatch.setattr(windows, "WINDOW_BATCHES", 4)
    monkeypatch.setattr(windows, "WINDOW_EXAMPLES", 50)


@pytest.mark.parametrize(("costly", "bucketed"), COUNTED_OR_NOT)
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("count", [1, 49, 50, 51, 333])
def test_windows_are_of_consecutive_examples_and_hold_each_once(few, costly, bucketed, sides, count):
    lengths = lengths_of(count, sides)
    plan = WindowedPlan(lengths, **settings_of(lengths, costly), bucketed=bucketed)
    assert (plan.cuts[0], plan.cuts[-1]) == (0, count) and (np.diff(plan.cuts) <= 50).all()
    for number in range(len(plan)):
        window = plan.window(number)
        held = np.concatenate([window.batch(place) for place in range(len(window))])
        assert sorted(held) == list(range(plan.cuts[number], plan.cuts[number + 1]))
        assert len(window) == plan.batches[number]
        # Only the last window may have fewer, and those that the number of examples cuts short.
        assert len(window) >= 4 or number == len(plan) - 1 or plan.cuts[number + 1] - plan.cuts[number] == 50


@pytest.mark.parametrize(("costly", "bucketed"), COUNTED_OR_NOT)
@pytest.mark.parametrize("sides", [1, 2])
def test_a_small_set_has_the_batches_of_evaluation(costly, bucketed, sides):
    lengths = lengths_of(300, sides)
    settings = {**settings_of(lengths, costly, 400), "bucketed": bucketed}
    plan = WindowedPlan(lengths, **settings)
    whole = EpochPlanner(lengths, strict=False, **settings).plan(shuffle=False)
    assert len(plan) == 1 and plan.batches.tolist() == [len(whole)]
    for place in range(len(whole)):
        np.testing.assert_array_equal(plan.window(0).batch(place), whole.batch(place))
        assert plan.window(0).batch(place).dtype == whole.batch(place).dtype


@pytest.mark.parametrize(("world", "replicas"), [(1, 1), (2, 1), (3, 1), (7, 1), (4, 2), (3, 3)])
def test_ranks_share_the_batches_of_each_window_in_turn(few, world, replicas):
    plan = WindowedPlan(lengths_of(333), batch_size=8)
    loaders = [WindowLoader(Layer(), plan, world, range(rank, rank + replicas)) for rank in range(0, world, replicas)]
    for number in range(len(plan)):
        window = plan.window(number)
        own = [[next(loader)["ids"] for _ in range(loader.own[number])] for loader in loaders]
        dealt = []
        while any(own):  # as Runner.gather puts them together
            for batches in own:
                dealt += batches[:replicas]
                del batches[:replicas]
        for place, examples in enumerate(dealt):
            np.testing.assert_array_equal(examples, window.batch(place))
        assert len(dealt) == len(window)
    for loader in loaders:
        assert next(loader, None) is None
    assert sum(map(len, loaders)) == plan.batches.sum()


def test_bucketing_in_windows_wastes_next_to_nothing():
    """Padding of batches sorted within windows, against that of batches in the order of the input."""
    lengths = lengths_of(40_000)

    def padded(plan: WindowedPlan) -> int:
        batches = [window.batch(place) for number in range(len(plan))
                   for window in [plan.window(number)] for place in range(len(window))]
        return sum(int(lengths[batch].max()) * len(batch) for batch in batches)

    sorted_ones = padded(WindowedPlan(lengths, batch_size=16))
    assert len(WindowedPlan(lengths, batch_size=16)) > 20
    assert sorted_ones < 1.03 * lengths.sum() < 1.7 * lengths.sum() < padded(
        WindowedPlan(lengths, batch_size=16, bucketed=False))


def test_a_long_example_is_a_batch_of_its_own_and_no_examples_are_refused():
    plan = WindowedPlan(np.array([1, 1000, 1]), batch_size=10, costs=np.array([1, 1000, 1]))
    assert [batch.tolist() for batch in (plan.window(0).batch(0), plan.window(0).batch(1))] == [[1], [0, 2]]
    for costs in (None, np.zeros([0], np.int64)):
        with pytest.raises(DataError, match="no examples"):
            WindowedPlan(np.zeros([0, 2], np.int64), batch_size=10, costs=costs)
