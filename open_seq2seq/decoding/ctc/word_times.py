"""Times and confidences of the words of a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.decoding.ctc.frames import log_softmax
from open_seq2seq.decoding.ctc.symbols import Symbols


class Word(NamedTuple):
    """A word of a transcript.

    Attributes:
      text: the word.
      start: first frame of the word.
      end: frame after the word's last frame.
      confidence: geometric mean over the word's symbols of each symbol's highest probability in its frames; 0 to 1.
    """

    text: str
    start: int
    end: int
    confidence: float


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
    found = []
    for text, begin, end in symbols.words(ids):
        sure = float(np.exp(np.mean(np.log(np.maximum(times.confidences[begin:end], 1e-30)))))
        found.append(Word(text, int(times.starts[begin]), int(times.ends[end - 1]), sure))
    return found
