"""Random bits, and seeds for stateless random operations.

Both are derived from the run's seed and either from the micro-batch and the index of the draw, or from the example and
the epoch.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.parts.forward_pass import ForwardPass, current_pass

LARGEST_SEED = 2 ** 43 - 1
"""The largest seed of a run. It has 43 bits, because a seed word of 64 bits also contains the sign and 20 bits for the
index of the draw."""
_PHILOX = 1  # in TensorFlow's enumeration of algorithms


def next_words(count: tf.Tensor) -> tf.Tensor:
    """Returns ``count`` random words, int64 ``[count]`` of the full range; each call returns different ones.

    They are those of the generator Philox (Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405) with the key of
    the micro-batch. The upper half of the generator's counter is the index of the draw, a constant, so that a draw is a
    single operation.

    Raises:
      RuntimeError: called outside of a ``forward_pass`` of a micro-batch.
    """
    forward = _next_draw()
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[count], key=forward.key, counter=tf.constant(np.array([0, forward.draws], np.uint64)),
        alg=tf.constant(_PHILOX), dtype=tf.int64)


def next_seed() -> tf.Tensor:
    """Returns a seed, int64 ``[2]``, for one stateless operation; each call returns a different seed.

    With ``alg="philox"`` the operation draws the same numbers whether or not XLA compiles it.

    Raises:
      RuntimeError: called outside of a ``forward_pass`` of a micro-batch.
    """
    forward = _next_draw()
    # The first word contains the run's seed and the index of the draw, the second the index of the micro-batch.
    return tf.stack([tf.constant((forward.seed << 20) + forward.draws, tf.int64), forward.micro_batch])


def _next_draw() -> ForwardPass:
    """Returns the current pass after counting a draw."""
    forward = current_pass()
    if forward.micro_batch is None:
        raise RuntimeError("Random numbers were drawn outside of a training step: wrap the call in "
                           "forward_pass(seed, micro_batch).")
    forward.draws += 1
    return forward


def example_seeds(seed: int, examples: tf.Tensor, epoch: tf.Tensor, draw: int = 0) -> tf.Tensor:
    """Returns a seed for each example and epoch, for a stateless operation that augments the example.

    The seeds differ from all seeds that ``next_seed`` returns.

    Args:
      seed: the run's seed, ``DataLayer.seed``.
      examples: indices of the examples, int64 ``[…]``.
      epoch: int64 scalar.
      draw: index of the operation, less than 2²⁰, if several operations augment an example.

    Returns:
      int64 ``[…, 2]``.
    """
    # As in next_seed, but with a negative second word, whose 63 bits are enough for 2⁴⁰ examples and 2²³ epochs.
    second = -1 - (tf.cast(epoch, tf.int64) * 2**40 + tf.cast(examples, tf.int64))
    return tf.stack([tf.fill(tf.shape(second), tf.constant((seed << 20) + draw, tf.int64)), second], axis=-1)


def example_uniforms(seed: int, examples: tf.Tensor, epoch: tf.Tensor, count: int, draw: int = 0) -> tf.Tensor:
    """Returns uniformly distributed random numbers for each example, which are different in each epoch.

    This is faster than a stateless operation for each example. Each seed of ``example_seeds`` starts a sequence of the
    generator SplitMix64 (Steele et al. 2014, https://doi.org/10.1145/2714064.2660195).

    Args:
      seed: the run's seed; see ``example_seeds``.
      examples: indices of the examples, int64 ``[batch]``.
      epoch: int64 scalar.
      count: number of random numbers for each example.
      draw: index of the operation; see ``example_seeds``.

    Returns:
      FP32 ``[batch, count]``, at least 0 and below 1.
    """
    words = tf.bitcast(example_seeds(seed, examples, epoch, draw), tf.uint64)
    state = _mixed(_mixed(words[:, 0]) + words[:, 1])
    # In a graph tf.constant would convert a list to float64 first, and lose the low bits.
    steps = tf.constant(np.array([_STEP * (number + 1) % 2**64 for number in range(count)], np.uint64))
    # FP32 represents exactly the 24 bits that remain.
    bits = tf.bitwise.right_shift(_mixed(state[:, tf.newaxis] + steps), tf.constant(40, tf.uint64))
    return tf.cast(tf.cast(bits, tf.int32), tf.float32) / 2.0**24


# Increment of the state of SplitMix64: 2⁶⁴ divided by the golden ratio.
_STEP = 0x9E3779B97F4A7C15


def _mixed(x: tf.Tensor) -> tf.Tensor:
    """Returns the output of SplitMix64 for each state; states and outputs are uint64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint64)))
        x = x * tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(31, tf.uint64)))
