"""Spelling of words in the symbols of an alphabet."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from open_seq2seq.utils.unicode_text import spelled

_PIECE_START = "\u2581"  # SentencePiece's marker for the start of a word
BYTE = re.compile("<0x([0-9A-F]{2})>")  # SentencePiece's byte_fallback: UTF-8 bytes of characters without a piece
_UNSPACED = {"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"}
"""First words of the names of letters of scripts without spaces between words."""
_MARKED = "open_seq2seq.mark_each_byte"


def _mark_each(error: UnicodeError) -> tuple[str, int]:
    """Replaces each invalid byte by U+FFFD, as SentencePiece does. Python's "replace" may merge several bytes."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_MARKED, _mark_each)


class Symbols:
    """An alphabet without the blank: characters, usually with a space, or SentencePiece's pieces.

    Args:
      labels: the text of each symbol, in the order of the model's outputs; empty for symbols without text.

    Attributes:
      labels: the argument ``labels``.
      has_words: whether spaces separate words; otherwise each symbol is one, with the combining marks after it.
      is_unspaced: ``[symbols]`` bool: whether a symbol begins with a letter of a script without spaces, such as
        Chinese, so that it is a word of its own, with the marks and pieces of words after it.
      starts_word: ``[symbols]`` bool: whether a symbol begins a new word, so that the word before it is complete; True
        for a space and for the first piece of a word.
      texts: the characters that each symbol adds to a word, in the form that ``spelling`` returns; empty for a space.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self._in_bytes = any(map(BYTE.fullmatch, self.labels))
        self._units = [self._unit(label) for label in self.labels]
        self.has_words = self._in_bytes or any(" " in unit for unit in self._units)
        self.texts = [unit.strip(" ") for unit in self._units]
        self._characters = frozenset("".join(self.texts))
        self.starts_word = np.array([unit.startswith(" ") for unit in self._units], bool)
        self.is_unspaced = np.array([_is_unspaced(label.lstrip(_PIECE_START)[:1]) for label in self.labels], bool)
        self._divides = self.starts_word | self.is_unspaced if self.has_words else np.array(
            [unicodedata.category(text[:1] or " ")[0] != "M" for text in self.texts], bool)

    def __len__(self) -> int:
        return len(self.labels)

    def _unit(self, label: str) -> str:
        """Returns a symbol's spelling (see ``spelling``), with a space where a word begins."""
        byte = BYTE.fullmatch(label)
        return chr(int(byte[1], 16)) if byte else self.spelling(label.replace(_PIECE_START, " "))

    def spelling(self, text: str) -> str:
        """Returns a text unchanged or, if some symbols are bytes, with one character for each of its UTF-8 bytes."""
        return text.encode("utf-8", "replace").decode("latin-1") if self._in_bytes else text

    def word_spelling(self, word: str) -> str:
        """Returns the ``spelling`` of a word, composed or decomposed as the alphabet is."""
        return self.spelling(word if self._in_bytes else spelled(word, self._characters))

    def _spelled(self, spelling: str) -> str:
        """Inverse of ``spelling``: returns the text, with U+FFFD for invalid bytes."""
        return spelling.encode("latin-1").decode("utf-8", _MARKED) if self._in_bytes else spelling

    def text(self, ids: Sequence[int]) -> str:
        """Returns the text of symbol ids, words separated by single spaces."""
        raw = self._spelled("".join(self._units[i] for i in ids))
        return " ".join(part for part in raw.split(" ") if part)

    def words(self, ids: Sequence[int]) -> list[tuple[str, int, int]]:
        """Returns (word, start, end) of each word that the ids spell; its symbols are ``ids[start:end]``."""
        found: list[tuple[str, int, int]] = []
        text, begin = "", 0
        for place, symbol in enumerate(ids):
            if self._divides[symbol] or (text and self._units[ids[place - 1]].endswith(" ")):
                found += [(self._spelled(text), begin, place)] if text else []
                text = ""
            if self.texts[symbol]:
                begin = begin if text else place
                text += self.texts[symbol]
        return [*found, (self._spelled(text), begin, len(ids))] if text else found


def _is_unspaced(letter: str) -> bool:
    return unicodedata.category(letter or " ") == "Lo" and unicodedata.name(letter, "?").split()[0] in _UNSPACED
