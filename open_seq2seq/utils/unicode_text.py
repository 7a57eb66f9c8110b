"""The Unicode form of text: composed letters, and one kind of space."""

from __future__ import annotations

import sys
import unicodedata
from functools import cache


def composed(text: str) -> str:
    """Returns a text with each letter and its accents as one character where there is one (NFC)."""
    return unicodedata.normalize("NFC", text)


@cache
def composition_rules() -> dict[str, str]:
    """Returns strings that occur in text and what replaces them: composed letters, and a space for each other space.

    The rules are those of a program that cannot call ``composed``, such as SentencePiece: it replaces the longest string
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
