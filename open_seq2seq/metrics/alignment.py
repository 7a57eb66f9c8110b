"""Measures of how well an attention follows a text from beginning to end."""

from __future__ import annotations

import numpy as np

_BAND = 0.15


def spoken_attention(weights: np.ndarray, is_spoken: np.ndarray) -> np.ndarray:
    """Returns the attention to the symbols that are spoken, as the functions below measure it.

    Start, end and padding symbols, and marks without a duration, have no place on the diagonal and need not be attended
    to, so their columns are removed, and the frames that attend to one of them more than to any other symbol.

    Args:
      weights: attention weights ``[frames, text]`` without padding.
      is_spoken: which symbols are spoken ``[text]``.
    """
    frames = is_spoken[weights.argmax(1)] if weights.size else np.zeros(len(weights), bool)
    return weights[frames][:, is_spoken]


def diagonality(weights: np.ndarray) -> float:
    """Returns the share of the attention mass that is near the diagonal, from 0 to 1.

    Near means within 15 % of the text's length; uniform attention gives about 0.28.

    Args:
      weights: attention weights ``[frames, text]`` without padding, see ``spoken_attention``.
    """
    frames, symbols = weights.shape
    if not weights.size:
        return 0.0
    diagonal = (np.arange(frames) + 0.5) / frames
    position = (np.arange(symbols) + 0.5) / symbols
    near = np.abs(diagonal[:, None] - position) <= _BAND
    return float((weights * near).sum() / max(weights.sum(), 1e-9))


def monotonicity(weights: np.ndarray) -> float:
    """Returns the share of steps in which the most attended symbol is the same, or one further, from 0 to 1.

    Args:
      weights: attention weights ``[frames, text]`` without padding, see ``spoken_attention``.
    """
    steps = np.diff(weights.argmax(1)) if weights.size else np.zeros(0)
    return float(np.mean((steps >= 0) & (steps <= 1))) if len(steps) else 1.0


def coverage(weights: np.ndarray) -> float:
    """Returns the share of symbols that some frame attends to more than to any other symbol, from 0 to 1.

    Args:
      weights: attention weights ``[frames, text]`` without padding, see ``spoken_attention``.
    """
    return len(np.unique(weights.argmax(1))) / max(1, weights.shape[1]) if weights.size else 0.0
