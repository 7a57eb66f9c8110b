"""The plan of an epoch, and the stream of micro-batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.data.batching import BatchStream, EpochPlan, EpochPlanner, evaluation_plan
from open_seq2seq.utils.errors import ConfigError, DataError


def random_lengths(count: int, sides: int = 2, seed: int = 0) -> np.ndarray:
    lengths = np.random.default_rng(seed).integers(1, 60, (count, sides))
    return lengths if sides == 2 else lengths[:, 0]


def costs_of(lengths: np.ndarray, unit: str) -> np.ndarray | None:
    """Costs of examples: none where batches are so many sentences, else their longest sides."""
    return None if unit == "sentences" else lengths.reshape(len(lengths), -1).max(axis=1)


def plan_epoch(lengths, *, epoch: int = 0, shuffle: bool = True, seed: int = 0, **settings) -> EpochPlan:
    return EpochPlanner(lengths, **settings).plan(epoch, shuffle=shuffle, seed=seed)


def batches_of(plan):
    return [plan.batch(i) for i in range(len(plan))]


SETTINGS = list(itertools.product((1, 2), ("sentences", "tokens"), (False, True), (False, True)))


@pytest.mark.parametrize("bucketed", [False, True])
def test_epochs_and_seeds_shuffle_differently_and_reproducibly(bucketed):
    lengths = random_lengths(300)

    def order(seed, epoch):
        return np.concatenate(batches_of(plan_epoch(lengths, batch_size=8, seed=seed, epoch=epoch, bucketed=bucketed)))

    orders = [order(seed, epoch) for seed in (0, 1, -3) for epoch in (0, 1)]
    assert all((a != b).any() for a, b in itertools.combinations(orders, 2))
    np.testing.assert_array_equal(order(1, 1), order(1, 1))


def test_without_buckets_examples_follow_one_another():
    plan = plan_epoch(random_lengths(30), batch_size=8, bucketed=False, shuffle=False)
    np.testing.assert_array_equal(np.concatenate(batches_of(plan)), np.arange(30))


def test_buckets_shuffle_ties_and_hold_like_lengths():
    lengths = np.repeat([5, 9], 100)
    first, second = (plan_epoch(lengths, batch_size=50, epoch=epoch) for epoch in (0, 1))
    assert all(len(set(lengths[b])) == 1 for b in batches_of(first))
    assert set(map(frozenset, batches_of(first))) != set(map(frozenset, batches_of(second)))


def test_plan_of_lengths_beyond_16_bits():
    lengths = np.array([70000, 3, 200000, 5, 66000])
    plan = plan_epoch(lengths, batch_size=2, shuffle=False)
    np.testing.assert_array_equal(np.concatenate(batches_of(plan)), [2, 0, 4, 3, 1])


class LongLines(DataLayer):
    """Lines of 10, 20 and 90 tokens."""

    lengths = np.array([10, 20, 90])
    num_examples = 3
    length_limit = "max_length"

    def __init__(self, unit="tokens", **params):
        super().__init__({"batch_size": 80, **params, "batch_size_unit": unit})

    @staticmethod
    def get_optional_params():
        return {**DataLayer.get_optional_params(), "max_length": Param(int, 100),
                "batch_size_unit": Param(["sentences", "tokens", "images", "frames"], "sentences")}

    def describe_example(self, example):
        return f"line {example + 1}"


@pytest.mark.parametrize("unit", ["tokens", "frames"])
def test_an_example_longer_than_a_batch_is_named(unit):
    layer = LongLines(unit)
    with pytest.raises(DataError) as caught:
        BatchStream(layer.lengths, batch_size=layer.batch_budget, costs=layer.costs, explain=layer.explain_too_costly)
    assert str(caught.value) == (f"line 3 has 90 {unit}, padding included, but the batch size is 80: raise "
                                 "batch_size_per_gpu or lower max_length.")


def test_evaluation_gives_a_long_example_a_batch_of_its_own():
    assert [list(b) for b in batches_of(evaluation_plan(LongLines()))] == [[2], [1, 0]]
    assert [list(b) for b in batches_of(evaluation_plan(LongLines("images", batch_size=2)))] == [[2, 1], [0]]


def test_evaluation_goes_by_the_layer_s_own_costs_and_budget():
    class Weighed(LongLines):
        costs = np.array([5, 1, 2])
        batch_budget = 6

    assert [list(b) for b in batches_of(evaluation_plan(Weighed()))] == [[0], [2, 1]]


def plan_by_definition(lengths, batch_size, unit, bucketed, shuffle, seed, epoch):
    """The batches of an epoch, example by example."""
    order, count = list(range(len(lengths))), len(lengths)
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
    if shuffle:
        drawn = np.arange(count, dtype=np.int32)
        random.shuffle(drawn)
        order = drawn.tolist()
    sides = [tuple(sorted(np.atleast_1d(row), reverse=True)) for row in lengths]
    if bucketed or unit != "sentences":
        order.sort(key=lambda example: [-side for side in sides[example]])
    batches = [[]]
    for example in order:
        price = max(1, sides[batches[-1][0] if batches[-1] else example][0]) if unit != "sentences" else 1
        if batches[-1] and (len(batches[-1]) + 1) * price > batch_size:
            batches.append([])
        batches[-1].append(example)
    sequence = np.arange(len(batches))
    if shuffle:
        random.shuffle(sequence)
    return [batches[place] for place in sequence]


@pytest.mark.parametrize(("sides", "unit", "shuffle", "bucketed"),
                         [*SETTINGS, *itertools.product((1, 2), ("frames",), (False, True), (False, True))])
def test_plans_are_those_of_the_definition(sides, unit, shuffle, bucketed):
    for seed, (count, longest, batch_size) in enumerate([(1, 9, 9), (40, 5, 16), (300, 60, 64), (200, 100000, 10**6)]):
        lengths = np.random.default_rng(seed).integers(1, longest + 1, (count, sides))
        lengths = lengths[:, 0] if sides == 1 else lengths
        for epoch in (0, 3):
            plan = plan_epoch(lengths, batch_size=batch_size, costs=costs_of(lengths, unit), bucketed=bucketed,
                              shuffle=shuffle, seed=seed, epoch=epoch)
            expected = plan_by_definition(lengths, batch_size, unit, bucketed, shuffle, seed, epoch)
            assert [batch.tolist() for batch in batches_of(plan)] == expected


@pytest.mark.parametrize("seed", range(40))
def test_batches_of_any_costs_keep_the_budget_and_hold_every_example_once(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 200))
    costs = rng.integers(0, rng.integers(1, 1000) + 1, count)
    columns = int(rng.integers(0, 3))
    lengths = rng.integers(1, 80, (count, columns)) if columns else np.ones(count, np.int64)
    budget = int(costs.max()) + int(rng.integers(1, 500))
    shapes = int(rng.integers(1, 9)) if rng.random() < 0.5 else None
    planner = EpochPlanner(lengths, batch_size=budget, costs=costs, max_shapes=shapes,
                           bucketed=bool(shapes) or rng.random() < 0.5)
    batches = batches_of(planner.plan(int(rng.integers(5)), shuffle=rng.random() < 0.8, seed=seed))
    assert sorted(np.concatenate(batches)) == list(range(count))
    assert all(len(batch) * costs[batch].max() <= budget for batch in batches)
    assert len(batches) == planner.num_batches


def test_batches_of_like_costs_and_like_lengths_are_made_of_them():
    costs, lengths = np.repeat([4, 2], 20), np.tile(np.repeat([3, 7], 10), 2)
    for batch in batches_of(plan_epoch(lengths, batch_size=20, costs=costs, seed=3)):
        assert len(set(costs[batch])) == len(set(lengths[batch])) == 1 and len(batch) == 20 // costs[batch[0]]


@pytest.mark.parametrize("costs", [
    np.ones(9, np.int64), np.ones(10, np.float32), np.full(10, -1), np.ones([10, 1], np.int64)])
def test_costs_are_one_integer_for_each_example(costs):
    with pytest.raises(DataError, match="non-negative integers, one for each of the 10 examples"):
        plan_epoch(random_lengths(10), batch_size=4, costs=costs)


def take(stream, start, count):
    return [batch.tolist() for _, batch, _ in itertools.islice(stream.by_rank(start)[0], count)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_resuming_anywhere_continues_the_sequence(shuffle):
    def make():
        return BatchStream(random_lengths(40), batch_size=9, shuffle=shuffle, seed=3)

    whole = take(make(), 0, 23)
    for start in range(20):
        assert take(make(), start, 3) == whole[start:start + 3]


@pytest.mark.parametrize(("world", "iter_size"), [(2, 1), (3, 2)])
def test_ranks_share_the_sequence_of_one(world, iter_size):
    lengths = random_lengths(100)
    one = take(BatchStream(lengths, batch_size=10, seed=5), 0, 36)
    ranks = [take(BatchStream(lengths, batch_size=10, seed=5, world_size=world, rank=rank, iter_size=iter_size),
                  0, 36 // world) for rank in range(world)]
    assert [batch for group in zip(*ranks, strict=True) for batch in group] == one


def test_resuming_on_another_number_of_ranks():
    lengths = random_lengths(100)
    one = take(BatchStream(lengths, batch_size=10, seed=5), 0, 30)
    ranks = [take(BatchStream(lengths, batch_size=10, seed=5, world_size=2, rank=rank), 6, 12) for rank in range(2)]
    assert [batch for group in zip(*ranks, strict=True) for batch in group] == one[6:]


def test_plans_can_be_asked_for_in_any_order():
    stream = BatchStream(random_lengths(50), batch_size=7, seed=2)
    expected = [plan_epoch(random_lengths(50), batch_size=7, seed=2, epoch=epoch) for epoch in range(6)]
    for epoch in (5, 0, 0, 3, 4, 5, 1):
        np.testing.assert_array_equal(stream.plan(epoch).order, expected[epoch].order)


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(DataError, match="batch_size_per_gpu is 64, but there are only 10"):
        BatchStream(random_lengths(10), batch_size=64)


def test_an_update_larger_than_an_epoch_is_refused():
    with pytest.raises(ConfigError, match=r"takes 6 batches \(3 devices, iter_size 2\).* only 5"):
        BatchStream(random_lengths(10), batch_size=2, world_size=3, iter_size=2)


def test_a_batch_size_below_1_is_refused():
    with pytest.raises(ConfigError, match="must be at least 1, got 0"):
        plan_epoch(random_lengths(10), batch_size=0)


def test_no_examples_are_refused():
    with pytest.raises(DataError):
        plan_epoch(np.zeros([0, 2], np.int32), batch_size=2)
