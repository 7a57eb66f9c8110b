"""Differentiable sums over ranks within a forward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.stacks import Stack

# Function from (tensors by name, name of the reduction) to the sums of the tensors over ranks.
Reduce = Callable[[dict[str, Any], str], dict[str, Any]]

_RANKS = Stack()


class _Joined:
    """Computes sums over ranks, and numbers the reductions to give each a different name."""

    def __init__(self, reduce: Reduce) -> None:
        self._reduce, self._count = reduce, 0

    def sums(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the sums of the values over ranks; each call uses a new reduction name."""
        self._count += 1
        # The leading spaces avoid collisions with names of variables.
        tensors = {f" {number}": tf.convert_to_tensor(value) for number, value in enumerate(values)}
        return list(self._reduce(tensors, f"inside.{self._count}").values())


@contextlib.contextmanager
def joined_ranks(reduce: Reduce | None) -> Iterator[None]:
    """Context manager within which ``sum_over_ranks`` sums over ranks.

    Args:
      reduce: function that sums over ranks; each reduction gets a different name. With None, ranks are not joined.
    """
    with rejoined_ranks(None if reduce is None else _Joined(reduce)):
        yield


@contextlib.contextmanager
def rejoined_ranks(joined: _Joined | None) -> Iterator[None]:
    """Context manager within which ranks are joined as they were when ``ranks_now`` returned ``joined``."""
    _RANKS.entries.append(joined)
    try:
        yield
    finally:
        _RANKS.entries.pop()


def ranks_now() -> _Joined | None:
    """Returns the current state for ``rejoined_ranks``; None if ranks are not joined."""
    return _RANKS.entries[-1] if _RANKS.entries else None


def sum_over_ranks(*values: tf.Tensor) -> Sequence[tf.Tensor]:
    """Returns the sums of FP32 tensors over all ranks; outside of ``joined_ranks``, returns the tensors unchanged.

    The gradient is summed over ranks too, because the loss of each rank depends on the values of all ranks.
    """
    joined = ranks_now()
    if joined is None:
        return values

    @tf.custom_gradient
    def add_up(*values: tf.Tensor) -> Any:
        def grad(*gradients: tf.Tensor) -> list[tf.Tensor]:
            return joined.sums(gradients)

        return joined.sums(values), grad

    return add_up(*values)

