"""The confusion matrix of a classifier, as text and as a picture."""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from open_seq2seq.models.reporter import Reporter
from open_seq2seq.utils.console import deco_print

# In inches: size of a cell, space for the names and labels of an axis, and maximum width and height of a figure.
_INCHES_PER_NAME, _MARGIN, _LARGEST = 0.28, 1.6, 40.0


def has_matplotlib() -> bool:
    """Returns whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def matrix_figure(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str],
                  labels: tuple[str, str]) -> tuple[Any, Any]:
    """Draws a matrix with matplotlib, which must be installed. The higher a value, the darker its cell.

    Args:
      matrix: values from 0 to 1, ``[rows, columns]``.
      rows: names of the rows, from top to bottom.
      columns: names of the columns.
      labels: (label of the rows, label of the columns), such as ``("label", "prediction")``.

    Returns:
      (matplotlib's figure, its axes).
    """
    from matplotlib.figure import Figure  # imported here because the import is slow

    width, height = (min(_MARGIN + _INCHES_PER_NAME * len(names), _LARGEST) for names in (columns, rows))
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(matrix, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(columns)), [_escaped(name) for name in columns], rotation=90)
    axes.set_yticks(range(len(rows)), [_escaped(name) for name in rows])
    axes.set_ylabel(labels[0])
    axes.set_xlabel(labels[1])
    return figure, axes


@contextlib.contextmanager
def without_font_warnings() -> Iterator[None]:
    """Context manager that hides matplotlib's warnings about characters without a glyph, which are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def _escaped(name: str) -> str:
    return name.replace("$", r"\$")  # matplotlib would read text between dollar signs as a formula


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
