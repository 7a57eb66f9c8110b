"""Prepares the frames of an utterance for prefix search, all at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_IMPOSSIBLE, _UNLIKELY = -1e30, -1e3  # instead of -inf, which could leave the beam empty


class Pruning(NamedTuple):
    """What the search leaves out; the defaults rarely leave out the best result.

    Attributes:
      beam_width: how many prefixes are kept after each frame.
      beam_threshold: prefixes are dropped if their score is further below the best one, in nats.
      symbol_threshold: symbols of a lower log probability are not considered in a frame, except the likeliest; in nats.
      top_symbols: how many symbols are considered in a frame at most.
    """

    beam_width: int = 128
    beam_threshold: float = 12.0
    symbol_threshold: float = -7.0
    top_symbols: int = 40


class Frames(NamedTuple):
    """The frames of an utterance, prepared for the search.

    Attributes:
      log_probs: ``[time, vocabulary]`` float64, the blank last.
      considered: ``[time, vocabulary]``: ``log_probs``, but -inf for symbols that are not considered and for the blank.
      blanks: ``[time]``: log probability of the blank; -inf where it is not considered.
      symbols: the considered symbols of all frames, frame by frame, ascending in each, without the blank.
      begins: ``[time + 1]``: index in ``symbols`` of the first one of each frame, and the length of ``symbols``.
      likeliest: ``[time]``: the likeliest symbol.
      likeliest_sums: ``[time + 1]``: sum of the log probabilities of the likeliest symbols of all earlier frames.
      new_symbols: the likeliest symbols that differ from that of the frame before, without the blank.
      new_begins: ``[time + 1]``: index in ``new_symbols`` of the first one at or after each frame.
      single: ``[time]`` bool: whether only the likeliest symbol is considered.
      run_end: ``[time]``: the next frame that is not single.
    """

    log_probs: np.ndarray
    considered: np.ndarray
    blanks: list[float]
    symbols: np.ndarray
    begins: list[int]
    likeliest: list[int]
    likeliest_sums: list[float]
    new_symbols: list[int]
    new_begins: list[int]
    single: list[bool]
    run_end: list[int]


def says_nothing(logits: np.ndarray) -> np.ndarray:
    """Returns which frames of ``[…, vocabulary]`` hold NaN, ∞, or only -∞, as after divergence: bool ``[…]``."""
    return np.logical_not((logits < np.inf).all(-1) & (logits > -np.inf).any(-1))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the log-softmax of ``[…, vocabulary]`` in float64; log probabilities stay unchanged.

    Frames with invalid values (see ``says_nothing``) become blanks, so that one bad utterance does not end a run.
    """
    shifted = np.maximum(np.asarray(logits, np.float64), _IMPOSSIBLE)
    if (nothing := says_nothing(logits)).any():
        shifted[nothing] = _UNLIKELY
        shifted[nothing, -1] = 0.0
    shifted -= shifted.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def prepare_frames(logits: np.ndarray, pruning: Pruning) -> Frames:
    """Chooses the symbols that each frame of ``[time, vocabulary]`` is searched with."""
    log_probs = log_softmax(logits)
    steps, vocab = log_probs.shape
    likeliest = log_probs.argmax(1)
    keep = log_probs >= pruning.symbol_threshold
    if pruning.top_symbols < vocab:
        ranked = np.argpartition(log_probs, vocab - pruning.top_symbols, 1)
        np.put_along_axis(keep, ranked[:, :vocab - pruning.top_symbols], False, 1)
    keep[np.arange(steps), likeliest] = True
    single = keep.sum(1) == 1
    ends = np.where(single, steps, np.arange(steps))
    run_end = np.minimum.accumulate(ends[::-1])[::-1]
    rows, columns = np.nonzero(keep[:, :-1])
    begins = np.searchsorted(rows, np.arange(steps + 1)).tolist()
    considered = np.where(keep, log_probs, -np.inf)
    blanks = considered[:, -1].tolist()
    considered[:, -1] = -np.inf
    new = (likeliest != vocab - 1) & (np.diff(likeliest, prepend=-1) != 0)
    return Frames(
        log_probs, considered, blanks, columns, begins, likeliest.tolist(), _sums(log_probs.max(1)).tolist(),
        likeliest[new].tolist(), _sums(new).tolist(), single.tolist(), run_end.tolist())


def _sums(values: np.ndarray) -> np.ndarray:
    """Returns the sums of all earlier values of ``[time]``, and of all: ``[time + 1]``."""
    return np.concatenate([[0], np.cumsum(values)])
