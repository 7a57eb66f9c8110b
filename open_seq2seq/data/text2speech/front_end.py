"""From text to what is spoken: sentences, words and marks, and their phonemes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from open_seq2seq.data.text2speech.pronunciations import Pronunciations
from open_seq2seq.data.text2speech.spelling_out import ABBREVIATIONS, spelled_out

SILENCE = "SIL"
"""The symbol of silence: at the beginning, and at pauses without a mark."""
MARKS = (",", ".", "?")
"""Symbols of the marks at which a voice pauses or changes its melody; their duration is that of the pause."""
_WORD = r"[^\W\d_]+(?:['’][^\W\d_]+)*['’]?|['’](?:tis|twas|em|til|cause|bout|round)\b"
_TOKEN = re.compile(rf"\[\[(?P<raw>.*?)\]\]|(?P<word>{_WORD})|(?P<mark>[.,;:!?…()—–]|(?<=\s)-(?=\s)|--)|(?P<digit>\d+)",
                    re.IGNORECASE)
_MARK_OF = {"?": "?", ".": ".", "!": ".", "…": ","}
_TAG = re.compile(r"\[(pause|speed)\s+(\d+(?:\.\d+)?)\s*\]", re.IGNORECASE)
_LONGEST_PAUSE = 60.0
_SLOWEST, _FASTEST = 0.1, 10.0
_PHONEMES = re.compile(r"\[\[.*?\]\]", re.DOTALL)
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)")
_AT_END = re.compile(r"[.!?…][\"'”’)\]]*\s*$")
_ABBREVIATION = re.compile(rf"(?:^|\W)(?:[a-z]|no|e\.g|i\.e|{'|'.join(ABBREVIATIONS)})\.$", re.IGNORECASE)
_LONGEST_ABBREVIATION = 20  # characters before the end of a sentence that are searched for one
_BREAK = re.compile(r"[,;:—–]+(?=\s)")


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


class Sentence(NamedTuple):
    """A sentence, which may begin with its speed, see ``spoken_at``, and the seconds of silence after it."""

    text: str
    pause: float


def sentences(text: str, pause: float, longest: int = 300) -> list[Sentence]:
    """Divides a text into sentences; a text without any is one sentence, whose text is empty.

    Sentences end after ``.``, ``!`` or ``?`` before white space, except in frequent abbreviations, and at
    ``[pause 0.4]``, which gives the silence in seconds, up to a minute, and has no effect before the first word. What
    follows ``[speed 0.8]`` has this speed, up to the next one. Longer sentences are divided after commas, then between
    words. Phonemes in ``[[ ]]`` are never divided.

    Args:
      text: the text.
      pause: seconds of silence between sentences.
      longest: number of characters above which a sentence is divided.
    """
    parts = _TAG.split(text)
    result: list[Sentence] = []
    speed = ""
    for part, kind, value in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
        pieces = [piece for sentence in _cut(part, _END) for piece in _short(sentence, longest)]
        result += [Sentence(speed + piece, pause) for piece in pieces]
        if result and kind.lower() == "pause":
            result[-1] = Sentence(result[-1].text, min(float(value), _LONGEST_PAUSE))
        elif pieces and not (kind and _AT_END.search(part)):
            result[-1] = Sentence(result[-1].text, 0.0)
        if kind.lower() == "speed":
            speed = f"[speed {value}] " if float(value) != 1.0 else ""
    return result or [Sentence("", 0.0)]


def spoken_at(text: str) -> tuple[str, float]:
    """Returns a text without ``[speed 0.8]`` at its beginning, and this speed, from 0.1 to 10; without it, 1."""
    match = _TAG.match(text)
    if match is None or match[1].lower() != "speed":
        return text, 1.0
    return text[match.end():].lstrip(), min(max(float(match[2]), _SLOWEST), _FASTEST)


def _short(sentence: str, longest: int) -> Iterator[str]:
    """Yields the parts of a sentence, which have at most ``longest`` characters where words allow it."""
    if len(sentence) <= longest:
        yield sentence
        return
    words = [word for clause in _cut(sentence, _BREAK)
             for word in ([clause] if len(clause) <= longest else _words(clause))]
    part = ""
    for word in words:
        if part and len(part) + 1 + len(word) > longest:
            yield part
            part = ""
        part = f"{part} {word}".strip()
    yield part


def _words(text: str) -> list[str]:
    """Returns words; phonemes in ``[[ ]]`` count as one."""
    return re.findall(rf"{_PHONEMES.pattern}\S*|\S+", text, re.DOTALL)


def _cut(text: str, ends: re.Pattern[str]) -> list[str]:
    """Returns the parts of a text that end where ``ends`` matches, without empty ones and white space around them."""
    phonemes = [match.span() for match in _PHONEMES.finditer(text)]
    places = [end for end in (match.end() for match in ends.finditer(text))
              if not any(start < end < stop for start, stop in phonemes)
              and not (ends is _END and _ABBREVIATION.search(text[max(0, end - _LONGEST_ABBREVIATION):end]))]
    parts = [text[start:end].strip() for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    return [part for part in parts if part]
