"""Seeds of stateless random operations: by (seed, micro-batch, place in the model), or by example."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow as tf

from open_seq2seq.utils.stacks import Stack

LARGEST_SEED = 2 ** 43 - 1
"""The largest seed of a run: seeds of operations have 64 bits, 20 of them for the number of the draw, one the sign."""

_SCOPES = Stack()


@contextlib.contextmanager
def random_scope(seed: int, batch_index: tf.Tensor) -> Iterator[None]:
    """Within this context ``next_seed`` gives seeds for this micro-batch.

    Args:
      batch_index: int64 scalar, the number of the micro-batch since the start of training.
    """
    _SCOPES.entries.append([seed, tf.cast(batch_index, tf.int64), 0])
    try:
        yield
    finally:
        _SCOPES.entries.pop()


def next_seed() -> tf.Tensor:
    """Returns a seed int64 ``[2]`` for one stateless operation, different at each call.

    Raises:
      RuntimeError: called outside ``random_scope``.
    """
    if not _SCOPES.entries:
        raise RuntimeError("Random numbers are drawn outside a training step: wrap the call in random_scope.")
    scope = _SCOPES.entries[-1]
    scope[2] += 1
    # One word holds the run's seed and the number of the draw, the other the micro-batch.
    return tf.stack([tf.constant((scope[0] << 20) + scope[2], tf.int64), scope[1]])


def example_seeds(seed: int, examples: tf.Tensor, epoch: tf.Tensor, draw: int = 0) -> tf.Tensor:
    """Returns seeds int64 ``[…, 2]`` for a stateless operation that augments examples, different in each epoch.

    They differ from all seeds of ``next_seed``.

    Args:
      seed: the run's, ``DataLayer.seed``.
      examples: numbers of the examples, int64 ``[…]``.
      epoch: int64 scalar.
      draw: number of the operation, below 2²⁰, if several draw for an example.
    """
    # As in next_seed, but with a negative second word: 2⁴⁰ examples, 2²³ epochs.
    second = -1 - (tf.cast(epoch, tf.int64) * 2**40 + tf.cast(examples, tf.int64))
    return tf.stack([tf.fill(tf.shape(second), tf.constant((seed << 20) + draw, tf.int64)), second], axis=-1)


class Draws(NamedTuple):
    """A position in the sequence of seeds.

    Attributes:
      seed: of the run.
      batch_index: int64 scalar, number of the micro-batch.
      drawn: number of seeds drawn before.
    """

    seed: int
    batch_index: tf.Tensor
    drawn: int


def draws_so_far() -> Draws | None:
    """Returns the position of the current ``random_scope``; None outside one."""
    return Draws(*_SCOPES.entries[-1]) if _SCOPES.entries else None


@contextlib.contextmanager
def replayed_draws(draws: Draws | None, copy: Callable[[tf.Tensor], tf.Tensor] = tf.identity) -> Iterator[None]:
    """Within this context the seeds from a position on are drawn again.

    Args:
      draws: from ``draws_so_far``.
      copy: function that copies the number of the micro-batch.
    """
    if draws is None:
        yield
        return
    _SCOPES.entries.append([draws.seed, copy(draws.batch_index), draws.drawn])
    try:
        yield
    finally:
        _SCOPES.entries.pop()
