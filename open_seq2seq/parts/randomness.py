"""Random numbers of a training step: stateless, by (seed, micro-batch, place in the model)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

_SCOPES: list[list] = []


@contextlib.contextmanager
def random_scope(seed: int, batch_index: tf.Tensor) -> Iterator[None]:
    """Within this context ``next_seed`` gives seeds for this micro-batch.

    Args:
      seed: the run's ``random_seed``.
      batch_index: int64 scalar, the number of the micro-batch since the start of training.
    """
    _SCOPES.append([seed, tf.cast(batch_index, tf.int64), 0])
    try:
        yield
    finally:
        _SCOPES.pop()


def next_seed() -> tf.Tensor:
    """Returns a seed ``[2]`` (int64) for one stateless op; another one at each call.

    Raises:
      RuntimeError: called outside ``random_scope``, where no seed is known.
    """
    if not _SCOPES:
        raise RuntimeError("Random numbers are drawn outside a training step: wrap the call in random_scope.")
    scope = _SCOPES[-1]
    scope[2] += 1
    # The number of the draw and the run's seed share one word, the micro-batch has the other.
    return tf.stack([tf.constant((scope[0] << 20) + scope[2], tf.int64), scope[1]])
