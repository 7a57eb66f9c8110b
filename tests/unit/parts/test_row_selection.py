"""Picking rows to compute: every held row is there, counts are rounded, results do not change."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.row_selection import gather_rows, rows_to_compute, scatter_rows


@pytest.mark.parametrize(("held", "total", "expected"), [
    (0, 100, 0), (1, 100, 64), (64, 100, 64), (65, 200, 128), (65, 70, 70), (70, 70, 70), (0, 0, 0)])
def test_counts_are_rounded_up_as_far_as_there_are_rows(held: int, total: int, expected: int) -> None:
    mask = np.zeros(total, bool)
    mask[np.random.default_rng(0).permutation(total)[:held]] = True
    rows = rows_to_compute(tf.constant(mask)).numpy()
    assert len(rows) == expected == len(set(rows))
    assert set(np.flatnonzero(mask)) <= set(rows)


def test_gathered_and_scattered_rows_keep_their_values_and_gradients() -> None:
    mask = tf.constant([True, False, True, True, False])
    x = tf.Variable(tf.reshape(tf.range(10.0), [5, 2]))
    rows = tf.constant([3, 0, 2])
    with tf.GradientTape() as tape:
        y = scatter_rows(gather_rows(x, rows) ** 2, rows, 5)
        loss = tf.reduce_sum(y * tf.cast(mask, tf.float32)[:, None])
    kept = mask.numpy()[:, None]
    np.testing.assert_array_equal(y, np.where(kept, x.numpy() ** 2, 0))
    np.testing.assert_array_equal(tape.gradient(loss, x), np.where(kept, 2 * x.numpy(), 0))
