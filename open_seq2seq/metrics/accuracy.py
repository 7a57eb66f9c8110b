"""Metrics of classification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def classification_scores(found: Sequence[int], correct: Sequence[int], num_classes: int) -> dict[str, float]:
    """Returns the accuracy and, for two classes, precision, recall and F1 of class 1.

    A score without a denominator is 0.

    Args:
      found: the class that was predicted for each example.
      correct: the class of each example.
      num_classes: number of classes.
    """
    predicted, labels = np.asarray(found, np.int64), np.asarray(correct, np.int64)
    scores = {"accuracy": _ratio((predicted == labels).sum(), len(labels))}
    if num_classes == 2:
        hits = ((predicted == 1) & (labels == 1)).sum()
        precision, recall = _ratio(hits, (predicted == 1).sum()), _ratio(hits, (labels == 1).sum())
        scores |= {"precision": precision, "recall": recall, "F1": _ratio(2.0 * precision * recall, precision + recall)}
    return scores


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
