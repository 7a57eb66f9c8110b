"""Gathers the inputs of requests that wait for one model, so that they are computed in common batches."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from open_seq2seq.server.limits import Refused

SECONDS = 0.02
"""How long the first of the waiting requests waits for others."""
Compute = Callable[[list[Any]], list[Any]]


@dataclass
class _Request:
    key: str
    compute: Compute
    inputs: list[Any]
    future: Future[list[Any]] = field(default_factory=Future)


class Batcher:
    """Computes the inputs of requests in the order in which they arrive; inputs of several requests share batches.

    Requests wait for others at most ``SECONDS`` after the first one. If requests fail together, each is computed alone,
    so that a mistake does not concern the others.

    Args:
      most: most inputs that are computed together.
      waiting: most inputs that wait.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most, self._waiting = most, waiting
        self._queue: queue.Queue[_Request | None] = queue.Queue()
        self._count = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """Number of inputs that wait or are being computed."""
        return self._count

    def submit(self, inputs: Sequence[Any], compute: Compute, key: str) -> Future[list[Any]]:
        """Adds a request; returns its future results, one for each input.

        Args:
          inputs: the inputs.
          compute: function from a list of inputs to their results, which do not depend on one another.
          key: requests with the same key have the same function.

        Raises:
          Refused: too many inputs wait already.
        """
        request = _Request(key, compute, list(inputs))
        with self._lock:
            if self._count and self._count + len(request.inputs) > self._waiting:
                raise Refused(503, f"{self._count:,} inputs wait for this model already: try again later.",
                              retry_after=1)
            self._count += len(request.inputs)
        request.future.add_done_callback(lambda _: self._leave(len(request.inputs)))
        self._queue.put(request)
        return request.future

    def _leave(self, count: int) -> None:
        with self._lock:
            self._count -= count

    def close(self) -> None:
        """Ends after what waits now has been computed."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            gathered, ended = self._gathered(first)
            for key in dict.fromkeys(request.key for request in gathered):
                _compute([request for request in gathered if request.key == key])
            del first, gathered  # so that the inputs do not stay in memory
            if ended:
                return

    def _gathered(self, first: _Request) -> tuple[list[_Request], bool]:
        """Returns the requests to compute now, and whether there will be no more."""
        requests, count, end = [first], len(first.inputs), time.monotonic() + SECONDS
        while count < self._most:
            try:
                request = self._queue.get(timeout=max(end - time.monotonic(), 0.0))
            except queue.Empty:
                break
            if request is None:
                return requests, True
            requests.append(request)
            count += len(request.inputs)
        return requests, False


def _compute(requests: list[_Request]) -> None:
    """Computes requests with the same function; those that have waited too long are left out."""
    requests = [request for request in requests if request.future.set_running_or_notify_cancel()]
    if not requests:
        return
    try:
        results = requests[0].compute([one for request in requests for one in request.inputs])
    except Exception as error:
        if len(requests) > 1:
            for request in requests:
                _answer_alone(request)
            return
        for request in requests:
            request.future.set_exception(error)
        return
    for request in requests:
        request.future.set_result(results[:len(request.inputs)])
        results = results[len(request.inputs):]


def _answer_alone(request: _Request) -> None:
    try:
        request.future.set_result(request.compute(request.inputs))
    except Exception as error:
        request.future.set_exception(error)
