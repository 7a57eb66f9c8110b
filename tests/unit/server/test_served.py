"""Requests that wait share batches, keep their own results and mistakes, and are refused when too many wait."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from open_seq2seq.server.limits import Refused
from open_seq2seq.server.served import Batcher
from open_seq2seq.utils.errors import DataError


class Doubling:
    """Doubles numbers, and remembers what was computed together; the first call waits until it is let go."""

    def __init__(self):
        self.calls, self.go = [], threading.Event()

    def __call__(self, inputs):
        self.calls.append(list(inputs))
        self.go.wait(60)
        if -1 in inputs:
            raise DataError("-1 is wrong")
        return [2 * one for one in inputs]


def test_requests_that_wait_are_computed_together():
    compute, batcher = Doubling(), Batcher(4, 100)
    first = batcher.submit([1], compute, "a")
    while not compute.calls:
        pass
    others = [batcher.submit(inputs, compute, key)
              for inputs, key in (([2, 3], "a"), ([4], "b"), ([5], "a"), ([6], "a"))]
    assert batcher.count == 6
    compute.go.set()
    wait([first, *others], 60)
    assert [one.result() for one in [first, *others]] == [[2], [4, 6], [8], [10], [12]]
    assert compute.calls == [[1], [2, 3, 5], [4], [6]]  # of one key, and no more than four after the first
    batcher.close()
    assert batcher.count == 0


def test_a_mistake_concerns_its_own_request_only():
    compute, batcher = Doubling(), Batcher(8, 100)
    first = batcher.submit([0], compute, "a")
    while not compute.calls:
        pass
    wrong, right = batcher.submit([7, -1], compute, "a"), batcher.submit([8], compute, "a")
    compute.go.set()
    assert right.result(60) == [16] and first.result(60) == [0]
    with pytest.raises(DataError, match="-1 is wrong"):
        wrong.result(60)
    batcher.close()


def test_clients_that_have_gone_are_left_out_and_too_many_are_refused():
    compute, batcher = Doubling(), Batcher(8, 5)
    first = batcher.submit([0], compute, "a")
    while not compute.calls:
        pass
    gone = batcher.submit([1, 2, 3], compute, "a")
    with pytest.raises(Refused, match="4 inputs wait for this model already") as refused:
        batcher.submit([4, 5], compute, "a")
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    gone.cancel()
    after = batcher.submit([4, 5], compute, "a")
    compute.go.set()
    assert after.result(60) == [8, 10] and first.result(60) == [0]
    assert compute.calls == [[0], [4, 5]]
    batcher.close()


def test_what_waits_is_computed_before_the_end():
    compute, batcher = Doubling(), Batcher(1, 100)
    compute.go.set()
    futures = [batcher.submit([number], compute, "a") for number in range(5)]
    batcher.close()
    assert [one.result(0) for one in futures] == [[2 * number] for number in range(5)]
