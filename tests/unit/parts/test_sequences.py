"""Operations on sequences of different lengths."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.encoders.multi_encoder import concatenated_in_time


def test_sequences_follow_one_another_without_padding():
    random = np.random.default_rng(0)
    parts = [random.normal(size=(4, time, 2)).astype(np.float32) for time in (3, 5, 1)]
    lengths = [[3, 0, 1, 0], [2, 5, 0, 0], [1, 0, 1, 0]]
    for part, some in zip(parts, lengths, strict=True):
        for row, length in zip(part, some, strict=True):
            row[length:] = np.nan
    joined, total = concatenated_in_time([tf.constant(part) for part in parts], [tf.constant(one) for one in lengths])
    assert total.numpy().tolist() == [6, 5, 2, 0] and joined.shape == (4, 6, 2)
    for row in range(4):
        want = np.concatenate([part[row, :some[row]] for part, some in zip(parts, lengths, strict=True)])
        np.testing.assert_array_equal(joined[row, :len(want)], want)
        assert not joined[row, len(want):].numpy().any()


def test_no_examples():
    joined, total = concatenated_in_time([tf.zeros([0, 3, 2])] * 2, [tf.zeros([0], tf.int32)] * 2)
    assert joined.shape == (0, 0, 2) and total.shape == (0,)
