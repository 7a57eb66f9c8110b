"""Batches whose rows continue from one to the next: in training by slot, and in a pass on any number of ranks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from open_seq2seq.data import DataLayer
from open_seq2seq.data.contiguous import ContiguousPass, ContiguousStream, OnePass, contiguous_problems
from open_seq2seq.utils.errors import DataError

STREAMS = [(50, 4, 1, 1), (50, 4, 2, 1), (97, 3, 2, 3), (12, 2, 3, 2), (13, 1, 1, 1)]


@pytest.mark.parametrize(("examples", "rows", "world_size", "iter_size"), STREAMS)
def test_rows_continue_in_the_same_slot(examples, rows, world_size, iter_size):
    stream = ContiguousStream(examples, batch_size=rows, world_size=world_size, iter_size=iter_size)
    slots, length = world_size * iter_size, stream.micro_batches_per_epoch
    assert stream.slots == slots and length == stream.positions * slots == stream.updates_per_epoch * slots
    for index in range(2 * length):
        here, there = stream.examples(index), stream.examples(index + slots)
        assert here.shape == (rows,)
        if stream.epoch_of(index) == stream.epoch_of(index + slots):
            np.testing.assert_array_equal(there, here + 1)


@pytest.mark.parametrize(("examples", "rows", "world_size", "iter_size"), STREAMS)
def test_an_epoch_has_every_example_once_but_for_a_few_at_the_end(examples, rows, world_size, iter_size):
    stream = ContiguousStream(examples, batch_size=rows, world_size=world_size, iter_size=iter_size)
    first, second = (sorted(np.concatenate([stream.examples(epoch * stream.micro_batches_per_epoch + index)
                                            for index in range(stream.micro_batches_per_epoch)])) for epoch in (0, 3))
    assert first == second == list(range(len(first)))
    assert 0 <= examples - len(first) < rows * world_size * iter_size
    plan = stream.plan(0)
    for index in range(len(plan)):
        np.testing.assert_array_equal(plan.batch(index), stream.examples(index))


def test_however_the_slots_are_divided_up_the_batches_are_the_same():
    whole = ContiguousStream(100, batch_size=2, iter_size=6)
    for world_size, iter_size, replicas in ((2, 3, 1), (3, 2, 3), (6, 1, 2)):
        found = {}
        for rank in range(0, world_size, replicas):
            stream = ContiguousStream(100, batch_size=2, world_size=world_size, rank=rank, replicas=replicas,
                                      iter_size=iter_size)
            for of_rank in stream.by_rank(12):
                for index, examples, epoch in itertools.islice(of_rank, 20):
                    found[index] = examples
                    assert epoch == whole.epoch_of(index)
        assert min(found) == 12
        for index, examples in found.items():
            np.testing.assert_array_equal(examples, whole.examples(index))


def test_any_place_is_reached_at_once():
    stream = ContiguousStream(10**15, batch_size=100, iter_size=7)
    place = 10**12
    np.testing.assert_array_equal(stream.examples(place + 7), stream.examples(place) + 1)
    index, examples, _ = next(stream.by_rank(place)[0])
    assert index == place
    np.testing.assert_array_equal(examples, stream.examples(place))


def test_too_few_examples():
    with pytest.raises(DataError, match="only 23 training examples"):
        ContiguousStream(23, batch_size=4, world_size=2, iter_size=3)
    with pytest.raises(DataError, match="no examples"):
        ContiguousPass(0, 2, 1)


PASSES = [(23, 2, 3), (24, 2, 3), (25, 4, 1), (5, 2, 4), (1, 1, 1), (2, 3, 2), (40, 1, 7)]


@pytest.mark.parametrize(("examples", "rows", "slots"), PASSES)
def test_a_pass_has_every_example_once_and_its_rows_continue(examples, rows, slots):
    plan = ContiguousPass(examples, rows, slots)
    assert sorted(np.concatenate([plan.batch(number) for number in range(len(plan))])) == list(range(examples))
    for number in range(1, len(plan)):
        slot, position = plan.place(number)
        assert plan.place(number - 1) == (slot, position - 1) or position == 0
        batch, before = plan.batch(number), plan.batch(number - 1)
        assert 1 <= len(batch) <= rows
        if position:
            np.testing.assert_array_equal(batch, before[:len(batch)] + 1)


@pytest.mark.parametrize(("examples", "rows", "slots"), PASSES)
@pytest.mark.parametrize(("processes", "replicas"), [(1, 1), (2, 1), (1, 2), (3, 2), (1, 8)])
def test_a_slot_stays_with_one_replica(examples, rows, slots, processes, replicas):
    plan, seen = ContiguousPass(examples, rows, slots), []
    for process in range(processes):
        last = {}
        for numbers in plan.rounds(processes * replicas, process * replicas, replicas):
            assert 1 <= len(numbers) <= replicas
            places = [plan.place(number) for number in numbers]
            assert len({position for _, position in places}) == 1
            for replica, (slot, position) in enumerate(places):
                assert position == 0 or last[replica] == (slot, position - 1)
                last[replica] = (slot, position)
            seen += numbers
    assert sorted(seen) == list(range(len(plan)))


class Numbers(DataLayer):
    num_examples = 11

    def make_batch(self, examples):
        return {"ids": np.asarray(examples)}


class Pieces(Numbers):
    contiguous = True


@pytest.mark.parametrize("layer", [Numbers, Pieces])
@pytest.mark.parametrize(("world_size", "rank", "replicas"), [(1, 0, 1), (2, 0, 2), (4, 2, 2)])
def test_one_pass(layer, world_size, rank, replicas):
    whole = OnePass(layer({"batch_size": 2}), slots=2)
    by_number = {number: batch["ids"] for of_round in whole for number, _, batch in of_round}
    assert len(whole) == len(by_number) and sorted(np.concatenate(list(by_number.values()))) == list(range(11))
    part = OnePass(layer({"batch_size": 2}), slots=2, world_size=world_size, rank=rank, replicas=replicas)
    rounds = list(part)
    assert sum(map(len, rounds)) == len(part)
    for number, fresh, batch in itertools.chain(*rounds):
        np.testing.assert_array_equal(batch["ids"], by_number[number])
        assert fresh == (layer is Numbers or number in (0, 3))
    whole.close()
    part.close()


def test_more_slots_than_examples_cost_nothing():
    one_pass = ContiguousPass(100, 4, 10**6)
    assert [number for batches in one_pass.rounds(3, 1) for number in batches] == list(range(1, 25, 3))
    assert sorted(np.concatenate([one_pass.batch(number) for number in range(len(one_pass))])) == list(range(100))


def test_examples_that_continue_one_another_are_not_shuffled_by_default():
    assert Numbers({"mode": "train"}).params["shuffle"] is True
    layer = Pieces({"mode": "train"})
    assert layer.params["shuffle"] is False
    assert not contiguous_problems(layer)
    problems = contiguous_problems(Pieces({"shuffle": True, "batch_size_unit": "tokens"}), 3)
    assert len(problems) == 3 and all("Pieces" in problem and ": remove '" in problem for problem in problems)
