"""Metrics of classification: accuracy, top-k accuracy, F1 and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def classification_scores(found: Sequence[int] | np.ndarray, correct: Sequence[int] | np.ndarray,
                          num_classes: int) -> dict[str, float]:
    """Returns the accuracy and, for two classes, precision, recall and F1 of class 1.

    A score whose denominator is 0 is reported as 0.

    Args:
      found: indices of the predicted classes ``[examples]``.
      correct: indices of the correct classes ``[examples]``.
      num_classes: number of classes.

    Returns:
      The scores from 0 to 1, by name: ``accuracy``, ``precision``, ``recall`` and ``F1``.
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


def in_top(scores: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """Returns whether each label is among the ``count`` classes with the highest scores, bool ``[batch]``.

    If classes have equal scores, the one with the lower index ranks higher. A label whose score is NaN is never among
    these classes.

    Args:
      scores: ``[batch, classes]``.
      labels: indices of the correct classes ``[batch]``.
      count: number of classes with the highest scores, such as 5 for top-5 accuracy.
    """
    own = np.take_along_axis(scores, labels[:, np.newaxis], axis=1)
    before = np.arange(scores.shape[1]) < labels[:, np.newaxis]
    higher = (scores > own) | ((scores == own) & before)
    return (higher.sum(axis=1) < count) & ~np.isnan(own[:, 0])


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """Returns the number of examples for each pair of label and prediction, int64 ``[label, prediction]``.

    Args:
      labels: indices of the correct classes ``[examples]``.
      predictions: indices of the predicted classes ``[examples]``.
      num_classes: number of classes.
    """
    pairs = np.asarray(labels, np.int64) * num_classes + np.asarray(predictions, np.int64)
    return np.bincount(pairs, minlength=num_classes ** 2).reshape(num_classes, num_classes)


def most_confused(matrix: np.ndarray, count: int) -> list[tuple[int, int, int]]:
    """Returns the most frequent mistakes as (label, prediction, number of examples), most frequent first.

    Args:
      matrix: the result of ``confusion_matrix``.
      count: maximum number of pairs (label, prediction) to return.
    """
    mistakes = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-mistakes, axis=None, kind="stable")[:count]
    found = [(*divmod(int(place), len(matrix)), int(mistakes.flat[place])) for place in order]
    return [mistake for mistake in found if mistake[2]]
