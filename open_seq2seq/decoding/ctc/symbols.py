"""What the symbols of an alphabet mean for words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_PIECE_START = "\u2581"  # SentencePiece's mark of a word's beginning


class Symbols:
    """An alphabet without the blank: characters with a space, or SentencePiece's pieces.

    Args:
      labels: the symbols' texts, in the order of the model's outputs.

    Attributes:
      labels: those.
      starts_word: ``[symbols]`` bool: whether the word before it is ended (a space, or a piece that begins a word).
      texts: what each adds to a word; empty for a space.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self.texts = [label.strip(" ").replace(_PIECE_START, "") for label in self.labels]
        self.starts_word = np.array([label.startswith((" ", _PIECE_START)) for label in self.labels], bool)

    def __len__(self) -> int:
        return len(self.labels)

    def text(self, ids: Sequence[int]) -> str:
        """Returns the text of symbol ids, words separated by single spaces."""
        raw = "".join(self.labels[i] for i in ids).replace(_PIECE_START, " ")
        return " ".join(part for part in raw.split(" ") if part)

    def words(self, ids: Sequence[int]) -> list[tuple[str, int, int]]:
        """Returns the words that ids spell, with the places of their first and after their last symbol."""
        found: list[tuple[str, int, int]] = []
        text, begin = "", 0
        for place, symbol in enumerate(ids):
            if self.starts_word[symbol]:
                found += [(text, begin, place)] if text else []
                text = ""
            if self.texts[symbol]:
                begin = begin if text else place
                text += self.texts[symbol]
        return [*found, (text, begin, len(ids))] if text else found
