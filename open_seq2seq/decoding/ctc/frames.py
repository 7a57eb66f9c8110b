"""The frames of an utterance: prepared for prefix search, and those of each symbol and word of a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.decoding.ctc.symbols import Symbols

_IMPOSSIBLE, _UNLIKELY = -1e30, -1e3  # replace -inf, with which the beam could become empty


class Pruning(NamedTuple):
    """Limits of the search; the defaults rarely prune the best result.

    Attributes:
      beam_width: maximum number of prefixes kept after each frame.
      beam_threshold: maximum difference in nats between the best score and the score of a prefix that is kept.
      symbol_threshold: log probability below which a symbol is not considered in a frame, unless it is the likeliest.
      top_symbols: maximum number of symbols considered in a frame.
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
      symbols: the considered symbols of all frames, concatenated; ascending in each frame, without the blank.
      begins: ``[time + 1]``: index in ``symbols`` of each frame's first symbol, and finally the length of ``symbols``.
      likeliest: ``[time]``: the likeliest symbol of each frame.
      likeliest_sums: ``[time + 1]``: sum of the likeliest symbols' log probabilities over all earlier frames.
      new_symbols: the likeliest symbols that differ from the likeliest symbol of the frame before, without blanks.
      new_begins: ``[time + 1]``: number of symbols in ``new_symbols`` that belong to earlier frames.
      single: ``[time]`` bool: whether only the likeliest symbol is considered.
      run_end: ``[time]``: index of the first frame, at or after this frame, that is not single; the number of frames if
        there is none.
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
    """Returns whether each frame of logits ``[…, vocabulary]`` contains NaN or +inf, or only -inf: bool ``[…]``."""
    return np.logical_not((logits < np.inf).all(-1) & (logits > -np.inf).any(-1))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the log-softmax of logits ``[…, vocabulary]`` in float64; log probabilities are returned unchanged.

    Invalid frames (see ``says_nothing``) become blanks, so that decoding continues in spite of a bad utterance.
    """
    shifted = np.maximum(np.asarray(logits, np.float64), _IMPOSSIBLE)
    if (nothing := says_nothing(logits)).any():
        shifted[nothing] = _UNLIKELY
        shifted[nothing, -1] = 0.0
    shifted -= shifted.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def prepare_frames(logits: np.ndarray, pruning: Pruning) -> Frames:
    """Prepares logits ``[time, vocabulary]`` and chooses the symbols to consider in each frame."""
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
    """Returns the cumulative sums ``[time + 1]`` of values ``[time]``, starting with 0."""
    return np.concatenate([[0], np.cumsum(values)])


class Word(NamedTuple):
    """A word of a transcript.

    Attributes:
      text: the word.
      start: first frame of the word.
      end: frame after the word's last frame.
      confidence: geometric mean over the word's symbols of each symbol's highest probability in its frames; 0 to 1.
      has_space: whether a space separates it from the word before it; for the first word, whether a space
        would separate it from an earlier one.
    """

    text: str
    start: int
    end: int
    confidence: float
    has_space: bool = True


class Alignment(NamedTuple):
    """The frames of each symbol of a label sequence on the likeliest path.

    Attributes:
      starts: first frame of each symbol ``[symbols]``.
      ends: frame after each symbol's last frame ``[symbols]``.
      confidences: each symbol's highest probability in its frames ``[symbols]``.
    """

    starts: np.ndarray
    ends: np.ndarray
    confidences: np.ndarray


def align(logits: np.ndarray, ids: Sequence[int]) -> Alignment:
    """Finds the likeliest path of a label sequence (Viterbi).

    Args:
      logits: ``[time, vocabulary]``, the blank last.
      ids: the symbols of the label sequence.

    Raises:
      ValueError: the label sequence needs more frames than the logits have.
    """
    log_probs = log_softmax(logits)
    label = np.asarray(ids, np.int64)
    if not len(label):
        return Alignment(label, label, np.zeros(0))
    if len(label) + int((label[1:] == label[:-1]).sum()) > len(log_probs):
        raise ValueError(f"A label sequence of {len(label)} symbols does not fit into {len(log_probs)} frames.")
    states = _best_states(log_probs, label)
    starts = np.array([np.argmax(states == 2 * place + 1) for place in range(len(label))])
    counts = np.bincount(states, minlength=2 * len(label) + 1)[1::2]
    spoken = states % 2 == 1
    confidences = np.zeros(len(label))
    np.maximum.at(confidences, states[spoken] // 2,
                  np.exp(log_probs[spoken, label[states[spoken] // 2]]))
    return Alignment(starts, starts + counts, confidences)


def _best_states(log_probs: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Returns the likeliest path's state in each frame: 2 k + 1 for symbol k (from 0), 2 k for the blank before it."""
    states = np.full(2 * len(label) + 1, log_probs.shape[1] - 1)
    states[1::2] = label
    emissions = log_probs[:, states]
    skips = np.full(len(states), -np.inf)
    skips[3::2][label[1:] != label[:-1]] = 0.0
    moves = np.full([3, len(states)], -np.inf)
    taken = np.zeros(emissions.shape, np.int8)
    score = np.full(len(states), -np.inf)
    score[:2] = emissions[0, :2]
    for time in range(1, len(emissions)):
        moves[0], moves[1, 1:], moves[2, 2:] = score, score[:-1], score[:-2]
        moves[2] += skips
        taken[time] = moves.argmax(0)
        score = moves.max(0) + emissions[time]
    state = len(states) - 1 if score[-1] >= score[-2] else len(states) - 2
    path = np.empty(len(emissions), np.int64)
    for time in range(len(emissions) - 1, -1, -1):
        path[time] = state
        state -= int(taken[time, state])
    return path


def words_of(symbols: Symbols, ids: Sequence[int], times: Alignment) -> list[Word]:
    """Returns the words that ids spell, with their frames and confidences."""
    words, spaced, place = list[Word](), symbols.text(ids), 0
    for text, begin, end in symbols.words(ids):
        sure = float(np.exp(np.mean(np.log(np.maximum(times.confidences[begin:end], 1e-30)))))
        is_apart = spaced.startswith(" ", place) if place else symbols.has_words and not symbols.is_unspaced[ids[begin]]
        words.append(Word(text, int(times.starts[begin]), int(times.ends[end - 1]), sure, bool(is_apart)))
        place += len(text) + (place > 0 and is_apart)
    return words
