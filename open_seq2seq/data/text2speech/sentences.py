"""Divides texts into the sentences that are spoken one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from open_seq2seq.data.text2speech.spelling_out import ABBREVIATIONS

_PAUSE = re.compile(r"\[pause\s+(\d+(?:\.\d+)?)\s*\]", re.IGNORECASE)
_LONGEST_PAUSE = 60.0
_PHONEMES = re.compile(r"\[\[.*?\]\]", re.DOTALL)
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)")
_ABBREVIATION = re.compile(rf"(?:^|\W)(?:[a-z]|no|e\.g|i\.e|{'|'.join(ABBREVIATIONS)})\.$", re.IGNORECASE)
_LONGEST_ABBREVIATION = 20  # characters before the end of a sentence that are searched for one
_BREAK = re.compile(r"[,;:—–]+(?=\s)")


class Sentence(NamedTuple):
    """A sentence, and the seconds of silence after it."""

    text: str
    pause: float


def sentences(text: str, pause: float, longest: int = 300) -> list[Sentence]:
    """Divides a text into sentences; a text without any is one sentence, whose text is empty.

    Sentences end after ``.``, ``!`` or ``?`` before white space, except in frequent abbreviations, and at
    ``[pause 0.4]``, which gives the silence in seconds, up to a minute, and has no effect before the first word. Longer
    sentences are divided after commas, then between words. Phonemes in ``[[ ]]`` are never divided.

    Args:
      text: the text.
      pause: seconds of silence between sentences.
      longest: number of characters above which a sentence is divided.
    """
    texts, pauses = _PAUSE.split(text)[::2], _PAUSE.findall(text)
    result: list[Sentence] = []
    for number, part in enumerate(texts):
        pieces = [piece for sentence in _cut(part, _END) for piece in _short(sentence, longest)]
        result += [Sentence(piece, pause) for piece in pieces]
        if result and number < len(pauses):
            result[-1] = Sentence(result[-1].text, min(float(pauses[number]), _LONGEST_PAUSE))
        elif pieces:
            result[-1] = Sentence(result[-1].text, 0.0)
    return result or [Sentence("", 0.0)]


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
