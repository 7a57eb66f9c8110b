"""Metrics of classification."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.metrics.classification import classification_scores, confusion_matrix, in_top, most_confused


@pytest.mark.parametrize(("found", "correct", "classes", "scores"), [
    ([0, 2, 1, 1], [0, 2, 2, 1], 3, {"accuracy": 0.75}),
    ([1, 1, 1, 0, 0], [1, 1, 0, 1, 0], 2, {"accuracy": 0.6, "precision": 2 / 3, "recall": 2 / 3, "F1": 2 / 3}),
    ([1, 0, 0, 0], [1, 1, 1, 1], 2, {"accuracy": 0.25, "precision": 1.0, "recall": 0.25, "F1": 0.4}),
    ([0, 0], [0, 0], 2, {"accuracy": 1.0, "precision": 0.0, "recall": 0.0, "F1": 0.0}),
])
def test_scores(found, correct, classes, scores):
    assert classification_scores(found, correct, classes) == pytest.approx(scores)


def test_top_counts_agree_with_tensorflow():
    scores = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    labels = np.random.default_rng(1).integers(0, 8, 50)
    for count in (1, 3, 8):
        np.testing.assert_array_equal(in_top(scores, labels, count), tf.math.in_top_k(labels, scores, count))


def test_ties_and_nan():
    assert in_top(np.zeros([2, 4]), np.array([0, 3]), 1).tolist() == [True, False]
    assert not in_top(np.array([[np.nan, np.nan]]), np.array([0]), 2).any()


def test_confusion():
    labels, predictions = [0, 0, 1, 2, 2, 2], [0, 1, 1, 0, 0, 2]
    matrix = confusion_matrix(labels, predictions, 3)
    assert matrix.tolist() == [[1, 1, 0], [0, 1, 0], [2, 0, 1]]
    assert most_confused(matrix, 5) == [(2, 0, 2), (0, 1, 1)]
