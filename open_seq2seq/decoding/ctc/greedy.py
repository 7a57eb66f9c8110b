"""Greedy CTC decoding in the graph: the likeliest symbol of each frame, without repeats and blanks."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class GreedyResult(NamedTuple):
    """The symbols of each utterance's likeliest path, padded with 0.

    Attributes:
      ids: ``[batch, symbols]`` int32.
      lengths: number of symbols of each utterance ``[batch]`` int32.
      starts: first frame of each symbol ``[batch, symbols]`` int32.
      ends: frame after each symbol's last frame ``[batch, symbols]`` int32.
      confidences: each symbol's highest probability in its frames ``[batch, symbols]`` FP32.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    confidences: tf.Tensor


def greedy_decode(logits: tf.Tensor, lengths: tf.Tensor) -> GreedyResult:
    """Decodes logits ``[batch, time, vocabulary]``, the blank last; ``lengths`` ``[batch]`` are numbers of frames."""
    logits = tf.cast(logits, tf.float32)
    steps, blank = tf.shape(logits)[1], logits.shape[-1] - 1
    path = tf.argmax(logits, 2, tf.int32)
    spoken = tf.sequence_mask(lengths, steps) & tf.not_equal(path, blank)
    before = tf.pad(path[:, :-1], [[0, 0], [1, 0]], constant_values=blank)[:, :steps]
    begins = spoken & tf.not_equal(path, before)
    place = tf.cumsum(tf.cast(begins, tf.int32), 1) - 1
    counts = tf.reduce_sum(tf.cast(begins, tf.int32), 1)

    frames = tf.where(spoken)  # [spoken frames, 2]
    rows = tf.cast(frames[:, 0], tf.int32)
    cells = tf.stack([rows, tf.gather_nd(place, frames)], 1)
    shape = tf.stack([tf.shape(logits)[0], tf.maximum(tf.reduce_max(counts), 0)])
    first = tf.boolean_mask(cells, tf.gather_nd(begins, frames))
    begin_frames = tf.where(begins)
    starts = tf.scatter_nd(first, tf.cast(begin_frames[:, 1], tf.int32), shape)
    durations = tf.scatter_nd(cells, tf.ones_like(rows), shape)
    probabilities = tf.gather_nd(tf.reduce_max(tf.nn.softmax(logits), 2), frames)
    confidences = tf.tensor_scatter_nd_max(tf.zeros(shape), cells, probabilities)
    ids = tf.scatter_nd(first, tf.gather_nd(path, begin_frames), shape)
    return GreedyResult(ids, counts, starts, starts + durations, confidences)
