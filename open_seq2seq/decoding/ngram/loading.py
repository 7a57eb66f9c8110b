"""Loads language models from files."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from open_seq2seq.decoding.ngram.arpa import read_arpa
from open_seq2seq.decoding.ngram.model import EOS, UNKNOWN, LanguageModel
from open_seq2seq.utils.data_files import opened_text, read_lines
from open_seq2seq.utils.errors import DataError

_LN10 = math.log(10.0)


class KenlmModel:
    """A model read with the package kenlm; states are numbered in the order of their first use.

    Each state is the context of an n-gram of the model, so the model has at most as many states as n-grams.

    Args:
      path: the binary file.
      words: the model's vocabulary, which the binary file does not contain.

    Raises:
      DataError: the package is missing, or it cannot read the file.
    """

    def __init__(self, path: str, words: Sequence[str]) -> None:
        try:
            import kenlm
        except ImportError as error:
            raise DataError(f"{path} is a KenLM binary file, but the package kenlm is not installed: run "
                            "`pip install kenlm` (which compiles it), or give the ARPA file that the binary was made "
                            "from.") from error
        try:
            self._model = kenlm.Model(path)
        except (OSError, RuntimeError) as error:
            raise DataError(f"KenLM cannot read {path}: {error}") from error
        self._make_state = kenlm.State
        self.order = int(self._model.order)
        self.words = list(words)
        start = kenlm.State()
        self._model.BeginSentenceWrite(start)
        self._states = [start]
        self._numbers: dict = {start: 0}

    def start_state(self) -> int:
        return 0

    def score(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        results = [self._score_one(state, self.words[word] if word >= 0 else UNKNOWN)
                   for state, word in zip(np.asarray(states).tolist(), np.asarray(words).tolist(), strict=True)]
        scores, after = zip(*results, strict=True) if results else ((), ())
        return np.array(scores, np.float64), np.array(after, np.int64)

    def score_end(self, states: np.ndarray) -> np.ndarray:
        return np.array([self._score_one(state, EOS)[0] for state in np.asarray(states).tolist()])

    def _score_one(self, state: int, word: str) -> tuple[float, int]:
        after = self._make_state()
        score = self._model.BaseScore(self._states[state], word, after)
        number = self._numbers.setdefault(after, len(self._states))
        if number == len(self._states):
            self._states.append(after)
        return score * _LN10, number


def load_language_model(path: str, vocabulary: str | None = None) -> LanguageModel:
    """Loads an ARPA file (plain or ``.gz``) or a KenLM binary file.

    Args:
      path: the model.
      vocabulary: text file with the model's words, separated by white space; required for a KenLM binary file.

    Raises:
      DataError: a file is missing or invalid, or the package kenlm is required but not installed.
    """
    if not _is_kenlm_binary(path):
        return read_arpa(path)
    if vocabulary is None:
        raise DataError(f"{path} is a KenLM binary file, which does not contain the model's words: give a text file of "
                        "the words (`lm_vocabulary`), or the ARPA file that the binary was made from.")
    words = dict.fromkeys(word for line in read_lines(vocabulary, "The vocabulary") for word in line.split())
    return KenlmModel(path, list(words))


def _is_kenlm_binary(path: str) -> bool:
    with opened_text(path, "The language model") as file:
        return file.read(5) == b"mmap "
