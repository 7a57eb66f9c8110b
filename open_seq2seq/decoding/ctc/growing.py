"""Transcripts that grow as logits arrive in chunks, and that can be copied to try out continuations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from open_seq2seq.decoding.ctc.decoder import CtcDecoder
from open_seq2seq.decoding.ctc.prefix_search import PrefixSearch

_OPEN_SYMBOLS = 64  # number of symbols at the end of an endless stream's transcript that may still change


class GreedyTranscript:
    """The likeliest symbol of each frame, without repeats and blanks.

    Args:
      to_text: converts ids ``[symbols]`` to text.
    """

    def __init__(self, to_text: Callable[[np.ndarray], str]) -> None:
        self._to_text = to_text
        self._pieces: list[np.ndarray] = []
        self._last = -1

    def advance(self, logits: np.ndarray) -> None:
        """Decodes the next logits ``[time, vocabulary]``, the blank last."""
        if not len(logits):
            return
        path = logits.argmax(1)
        before = np.concatenate([[self._last], path[:-1]])
        self._pieces.append(path[(path != before) & (path != logits.shape[1] - 1)])
        self._last = int(path[-1])

    def fork(self) -> GreedyTranscript:
        """Returns an independent copy."""
        other = GreedyTranscript(self._to_text)
        self._pieces = [np.concatenate([np.zeros(0, np.int64), *self._pieces])]
        other._pieces, other._last = list(self._pieces), self._last
        return other

    def decide(self) -> None:
        """Does nothing: there is only one hypothesis."""

    def text(self) -> str:
        """Returns the transcript as if the utterance ended here."""
        return self._to_text(np.concatenate([np.zeros(0, np.int64), *self._pieces]))


class SearchedTranscript:
    """Prefix beam search, with a language model if the decoder has one.

    Args:
      decoder: the decoder whose settings the search uses.
      search: the search to continue; a new one by default.
    """

    def __init__(self, decoder: CtcDecoder, search: PrefixSearch | None = None) -> None:
        self._decoder = decoder
        self._search = search or decoder.search()

    def advance(self, logits: np.ndarray) -> None:
        """Decodes the next logits ``[time, vocabulary]``, the blank last."""
        self._search.advance(logits)

    def fork(self) -> SearchedTranscript:
        """Returns an independent copy."""
        return SearchedTranscript(self._decoder, self._search.fork())

    def decide(self) -> None:
        """Drops hypotheses that differ from the best one in early symbols, to limit the memory of endless streams."""
        self._search.decide(_OPEN_SYMBOLS)

    def text(self) -> str:
        """Returns the transcript as if the utterance ended here."""
        return self._decoder.transcripts(self._search)[0].text


GrowingTranscript = GreedyTranscript | SearchedTranscript
"""The transcript of an utterance so far."""
