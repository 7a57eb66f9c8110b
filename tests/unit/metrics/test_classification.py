"""Metrics of classification."""

from __future__ import annotations

import pytest

from open_seq2seq.metrics.classification import classification_scores


@pytest.mark.parametrize(("found", "correct", "classes", "scores"), [
    ([0, 2, 1, 1], [0, 2, 2, 1], 3, {"accuracy": 0.75}),
    ([1, 1, 1, 0, 0], [1, 1, 0, 1, 0], 2, {"accuracy": 0.6, "precision": 2 / 3, "recall": 2 / 3, "F1": 2 / 3}),
    ([1, 0, 0, 0], [1, 1, 1, 1], 2, {"accuracy": 0.25, "precision": 1.0, "recall": 0.25, "F1": 0.4}),
    ([0, 0], [0, 0], 2, {"accuracy": 1.0, "precision": 0.0, "recall": 0.0, "F1": 0.0}),
])
def test_scores(found, correct, classes, scores):
    assert classification_scores(found, correct, classes) == pytest.approx(scores)
