"""Figures of matrices whose rows and columns have names, drawn with matplotlib."""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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
