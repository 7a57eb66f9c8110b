"""The confusion matrix of a classifier, as text and as a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from open_seq2seq.models.matrix_figure import has_matplotlib, matrix_figure, without_font_warnings
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.utils.console import deco_print

MOST_PRINTED, MOST_DRAWN = 12, 60
"""Largest numbers of classes for which a matrix is printed and drawn; larger matrices would not be readable."""
_MOST_WITH_NUMBERS = 20  # largest number of classes for which numbers are written into the cells of a picture


def print_confusion(matrix: np.ndarray, names: Sequence[str]) -> None:
    """Prints a matrix, unless it has too many classes.

    Args:
      matrix: numbers of examples, ``[label, prediction]``.
      names: names of the classes.
    """
    if len(names) > MOST_PRINTED:
        return
    width = max(6, *(len(name) for name in names))
    deco_print("Confusion matrix (rows: label, columns: prediction):", offset=1)
    for name, row in (("", names), *zip(names, matrix.tolist(), strict=True)):
        deco_print(" ".join(f"{cell!s:>{width}}" for cell in (name, *row)), offset=2)


def report_confusion(matrix: np.ndarray, names: Sequence[str], reporter: Reporter) -> None:
    """Shows a picture of a matrix, unless it has too many classes or matplotlib is missing.

    The darkness of a cell shows its share of the examples with its label. If there are few classes, each cell also
    shows its number of examples.

    Args:
      matrix: numbers of examples, ``[label, prediction]``.
      names: names of the classes.
      reporter: receives the picture.
    """
    if len(names) > MOST_DRAWN or not has_matplotlib():
        return
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    figure, axes = matrix_figure(shares, names, names, ("label", "prediction"))
    if len(names) <= _MOST_WITH_NUMBERS:
        for (label, prediction), count in np.ndenumerate(matrix):
            axes.text(prediction, label, str(count), ha="center", va="center", fontsize=6,
                      color="white" if shares[label, prediction] > 0.5 else "black")
    with without_font_warnings():
        reporter.figure("confusion_matrix", figure)
