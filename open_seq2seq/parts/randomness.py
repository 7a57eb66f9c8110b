"""Random numbers without state: of a training step, by (seed, micro-batch, place in the model); of an example."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow as tf

from open_seq2seq.utils.stacks import Stack

LARGEST_SEED = 2 ** 43 - 1
"""Of a run: seeds of operations have 64 bits, of which 20 number the draws, and one is the sign."""

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
    """Returns a seed ``[2]`` (int64) for one stateless op; another one at each call.

    Raises:
      RuntimeError: called outside ``random_scope``, where no seed is known.
    """
    if not _SCOPES.entries:
        raise RuntimeError("Random numbers are drawn outside a training step: wrap the call in random_scope.")
    scope = _SCOPES.entries[-1]
    scope[2] += 1
    # The number of the draw and the run's seed share one word, the micro-batch has the other.
    return tf.stack([tf.constant((scope[0] << 20) + scope[2], tf.int64), scope[1]])


def example_seeds(seed: int, examples: tf.Tensor, epoch: tf.Tensor, draw: int = 0) -> tf.Tensor:
    """Returns a seed ``[…, 2]`` (int64) for a stateless op that augments each example, another one in each epoch.

    None of them is one of ``next_seed``'s.

    Args:
      examples: numbers of the examples, int64 of any shape ``[…]``.
      epoch: int64 scalar.
      draw: number of the op, where several draw for an example; below 2²⁰.
    """
    # As in next_seed, but with a negative second word: 2⁴⁰ examples, 2²³ epochs.
    second = -1 - (tf.cast(epoch, tf.int64) * 2**40 + tf.cast(examples, tf.int64))
    return tf.stack([tf.fill(tf.shape(second), tf.constant((seed << 20) + draw, tf.int64)), second], axis=-1)


class Draws(NamedTuple):
    """A place in the sequence of seeds.

    Attributes:
      seed: of the run.
      batch_index: int64 scalar, the micro-batch.
      drawn: how many seeds were drawn before.
    """

    seed: int
    batch_index: tf.Tensor
    drawn: int


def draws_so_far() -> Draws | None:
    """Returns the place that the current ``random_scope`` has reached; None outside of one."""
    return Draws(*_SCOPES.entries[-1]) if _SCOPES.entries else None


@contextlib.contextmanager
def replayed_draws(draws: Draws | None, copy: Callable[[tf.Tensor], tf.Tensor] = tf.identity) -> Iterator[None]:
    """Within this context the seeds that were drawn from there on are drawn again.

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
