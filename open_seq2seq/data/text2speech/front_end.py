"""From text to what is spoken: words and marks, and their phonemes."""

from __future__ import annotations

import re
from typing import NamedTuple

from open_seq2seq.data.text2speech.pronunciations import Pronunciations
from open_seq2seq.data.text2speech.spelling_out import spelled_out

SILENCE = "SIL"
"""The symbol of silence: at the beginning, and at pauses without a mark."""
MARKS = (",", ".", "?")
"""Symbols of the marks at which a voice pauses or changes its melody; their duration is that of the pause."""
_WORD = r"[^\W\d_]+(?:['’][^\W\d_]+)*['’]?|['’](?:tis|twas|em|til|cause|bout|round)\b"
_TOKEN = re.compile(rf"\[\[(?P<raw>.*?)\]\]|(?P<word>{_WORD})|(?P<mark>[.,;:!?…()—–]|(?<=\s)-(?=\s)|--)|(?P<digit>\d+)",
                    re.IGNORECASE)
_MARK_OF = {"?": "?", ".": ".", "!": ".", "…": ","}


class Token(NamedTuple):
    """A word, a mark, or phonemes in a text.

    Attributes:
      kind: ``word``, ``mark`` or ``raw``.
      text: the word as it is written, one of ``MARKS``, or phonemes separated by spaces.
    """

    kind: str
    text: str


def tokens_of(text: str) -> list[Token]:
    """Returns the words and marks of a text, after numbers and abbreviations have been spelled out.

    Phonemes in double brackets, ``[[ HH AH L OW ]]``, are kept. Other characters separate words. Of several marks in a
    row, the strongest is kept; the text ends with a mark, ``.`` if it has none.

    Raises:
      DataError: the text has digits, but num2words is not installed.
    """
    tokens: list[Token] = []
    for piece in re.split(r"(\[\[.*?\]\])", text):
        for match in _TOKEN.finditer(piece if piece.startswith("[[") else spelled_out(piece)):
            kind = match.lastgroup or ""
            value = _MARK_OF.get(match[kind], ",") if kind == "mark" else match[kind].strip()
            if kind != "mark":
                tokens.append(Token(kind, value))
            elif tokens and tokens[-1].kind == "mark":
                tokens[-1] = Token(kind, max(tokens[-1].text, value, key=MARKS.index))
            elif tokens:
                tokens.append(Token(kind, value))
    if tokens and tokens[-1].kind != "mark":
        tokens.append(Token("mark", "."))
    elif tokens and tokens[-1].text == ",":
        tokens[-1] = Token("mark", ".")
    return tokens


def phonemes_of(text: str, pronunciations: Pronunciations) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Returns the symbols of a text as in aligned lists: ``SIL``, phonemes and marks; none for a text without words.

    Returns:
      The symbols, and a dict of word that has no pronunciation → the guess that is used for it.

    Raises:
      DataError: the text has digits, but num2words is not installed.
    """
    symbols, guesses = [SILENCE], {}
    for token in tokens_of(text):
        if token.kind != "word":
            symbols += token.text.split()
        elif variants := pronunciations.of(token.text):
            symbols += variants[0]
        else:
            guesses[token.text] = pronunciations.guessed(token.text)
            symbols += guesses[token.text]
    return symbols if len(symbols) > 1 else [], guesses
