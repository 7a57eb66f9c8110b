"""The one context of a forward pass: all that layers need to know about the pass that they are part of.

The code that runs a model enters ``forward_pass`` once; layers read ``current_pass``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf


class Stack(threading.local):
    """A separate list for each thread.

    Each replica of a process is traced by its own thread, and the threads take turns. A context that one thread has
    entered must not apply to the others.

    Attributes:
      entries: the contexts, the innermost last.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []


@dataclasses.dataclass
class ForwardPass:
    """The forward pass of one micro-batch.

    Attributes:
      seed: the run's seed.
      micro_batch: int64 scalar, index of the micro-batch since the start of training; None if the pass must not draw
        random numbers.
      update: int64 scalar, number of updates before this one; None outside of training.
      for_xla: whether layers are traced in a form that XLA can compile, with the same results: no shape depends on
        values (padding is computed and then ignored), and only operations that XLA supports are used.
      portable: whether layers are traced in a form that other runtimes can hold, with the same results up to rounding.
        A portable pass is also one for XLA.
      fourier_by_matrix: whether Fourier transforms are products with a matrix, for runtimes that have no transform.
      weights_are_fixed: whether the weights do not change after the pass is traced, so that what is computed from them
        alone can be computed once; see ``precision.of_weights``.
      ranks: a ``JoinedRanks``, which computes sums over ranks; None if ranks are not joined.
      carried: the ``carried_state.CarriedValues`` of the states that the previous batch has left; None without any.
      is_recomputing: whether layers are recomputed in a backward pass, where they must not update statistics again.
      key: key of the generator Philox for this micro-batch, uint64 ``[1]``; None without ``micro_batch``.
      draws: number of seeds and of draws with ``key`` so far.
      casts: the weights that the pass has cast so far; see ``precision.cast_weight``. None outside of any pass.
    """

    seed: int = 0
    micro_batch: tf.Tensor | None = None
    update: tf.Tensor | None = None
    for_xla: bool = False
    portable: bool = False
    fourier_by_matrix: bool = False
    weights_are_fixed: bool = False
    ranks: Any = None
    carried: Any = None
    key: tf.Tensor | None = None
    is_recomputing: bool = False
    draws: int = 0
    casts: dict[Any, tuple[tf.Tensor, tf.Variable]] | None = dataclasses.field(default_factory=dict)

    def again(self) -> ForwardPass:
        """Returns a pass that repeats this one from here on, to recompute layers for their gradients.

        It draws the same seeds and reads the same carried states, but does not write them. Weights are cast again,
        because the tape of the recomputation does not contain earlier casts.
        """
        carried = None if self.carried is None else self.carried.without_writing()
        return dataclasses.replace(self, carried=carried, is_recomputing=True, casts={})


_PASSES = Stack()
_OUTSIDE = ForwardPass(casts=None)


def current_pass() -> ForwardPass:
    """Returns this thread's innermost pass; outside of any, one without random numbers and carried states."""
    return _PASSES.entries[-1] if _PASSES.entries else _OUTSIDE


@contextlib.contextmanager
def entered(forward: ForwardPass) -> Iterator[None]:
    """Context manager within which ``forward`` is the current pass."""
    _PASSES.entries.append(forward)
    try:
        yield
    finally:
        _PASSES.entries.pop()


def forward_pass(seed: int = 0, micro_batch: Any = None, *, update: Any = None, for_xla: bool = False,
                 portable: bool = False, fourier_by_matrix: bool = False, weights_are_fixed: bool = False,
                 ranks: Any = None, carried: Any = None) -> contextlib.AbstractContextManager[None]:
    """Returns a context manager within which a new pass is the current one; see ``ForwardPass`` for the arguments."""
    index, number = (None if value is None else tf.cast(value, tf.int64) for value in (micro_batch, update))
    # The first word is that of ``randomness.next_seed`` for the index 0, which no draw has.
    key = None if index is None else tf.raw_ops.StatelessRandomGetKeyCounter(
        seed=tf.stack([tf.constant(seed << 20, tf.int64), index]))[0]
    return entered(ForwardPass(seed, index, number, for_xla or portable, portable, fourier_by_matrix, weights_are_fixed,
                               ranks, carried, key))


# Function from (tensors by name, name of the reduction) to the sums of the tensors over ranks.
Reduce = Callable[[dict[str, Any], str], dict[str, Any]]


class JoinedRanks:
    """Computes sums over ranks, and numbers the reductions to give each a different name.

    Args:
      reduce: function that sums over ranks.
    """

    def __init__(self, reduce: Reduce) -> None:
        self._reduce, self._count = reduce, 0

    def sums(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the sums of the values over ranks; each call uses a new reduction name."""
        self._count += 1
        # The leading spaces avoid collisions with names of variables.
        tensors = {f" {number}": tf.convert_to_tensor(value) for number, value in enumerate(values)}
        return list(self._reduce(tensors, f"inside.{self._count}").values())


def sum_over_ranks(*values: tf.Tensor) -> Sequence[tf.Tensor]:
    """Returns the sums of FP32 tensors over all ranks; or the tensors themselves, unless the pass joins ranks.

    The gradient is summed over ranks too, because the loss of each rank depends on the values of all ranks.
    """
    joined = current_pass().ranks
    if joined is None:
        return values

    @tf.custom_gradient
    def add_up(*values: tf.Tensor) -> Any:
        def grad(*gradients: tf.Tensor) -> list[tf.Tensor]:
            return joined.sums(gradients)

        return joined.sums(values), grad

    return add_up(*values)
