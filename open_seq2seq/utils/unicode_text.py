"""Decides which spellings of a text are the same: composed and decomposed letters, apostrophes, spaces, and words.

All tasks use these functions, so that vocabularies, alphabets and classes may be spelled in another form than the text.
"""

from __future__ import annotations

import itertools
import sys
import unicodedata
from collections.abc import Container, Mapping
from functools import cache

APOSTROPHES = "'\u2019\u02bc"
"""The ASCII apostrophe, and the typographic ones that mean the same within a word."""
_TO_ASCII = dict.fromkeys(map(ord, APOSTROPHES), "'")
_JOINERS = (0x200C, 0x200D)  # join or separate the letters of a word in some scripts, such as Persian and Hindi


def composed(text: str) -> str:
    """Returns a text with each letter and its accents as one character where there is one (NFC)."""
    return unicodedata.normalize("NFC", text)


def plain(text: str) -> str:
    """Returns a composed text with ASCII apostrophes: two spellings of the same words become equal."""
    return text if text.isascii() else composed(text).translate(_TO_ASCII)


def spelled(text: str, known: Container[str]) -> str:
    """Returns a text in the form in which most of its characters are known; the text itself if they all are.

    Args:
      text: the text.
      known: the known characters.
    """
    if all(char in known for char in text):
        return text
    forms = dict.fromkeys((text, composed(text), unicodedata.normalize("NFD", text)))
    best = min(forms, key=lambda form: sum(char not in known for char in form))
    usual = next((char for char in APOSTROPHES if char in known), "")
    return best.translate({ord(char): usual for char in APOSTROPHES if usual and char not in known})


class TextIds(dict[str, int]):
    """Ids of tokens or of class names. A text that has no id is looked up in its ``plain`` form.

    Args:
      ids: dict of text → id.
      unknown: the id of all other texts.
    """

    def __init__(self, ids: Mapping[str, int], unknown: int) -> None:
        super().__init__(ids)
        self.unknown = unknown
        for text, number in ids.items():
            if not text.isascii():
                self.setdefault(plain(text), number)

    def __missing__(self, text: str) -> int:
        return self.unknown if text.isascii() else self.get(plain(text), self.unknown)


@cache
def continuing_characters() -> str:
    r"""Returns the characters that continue a word besides those of ``\w``, as the inside of a class of ``re``.

    These are combining marks, such as the vowel signs of Hindi, and joiners.
    """
    codes = [code for code in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))
             if code in _JOINERS or unicodedata.category(chr(code))[0] == "M"]
    runs = itertools.groupby(enumerate(codes), lambda item: item[1] - item[0])  # consecutive codes
    ends = [(run[0][1], run[-1][1]) for run in (list(run) for _, run in runs)]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ends)


@cache
def composition_rules() -> dict[str, str]:
    """Returns strings that occur in text and what replaces them: composed letters, and a space for each other space.

    The rules are for programs that cannot call ``composed``, such as SentencePiece, which replaces the longest string
    that begins at a character. Every spelling of a letter is therefore listed, from its parts and from a letter that is
    partly composed.
    """
    rules: dict[str, str] = {}
    for char in map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1))):
        parts = unicodedata.normalize("NFD", char)
        if parts != char:
            spellings = [char, *(composed(parts[:count]) + parts[count:] for count in range(1, len(parts)))]
            rules.update((spelling, composed(char)) for spelling in spellings if spelling != composed(char))
        elif char.isspace():
            rules[char] = " "
    del rules[" "]
    return rules
