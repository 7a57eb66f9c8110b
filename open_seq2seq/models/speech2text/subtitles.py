"""Words with times: joined where windows of a recording overlap, and written as subtitles or JSON."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from open_seq2seq.utils.errors import UserError

CSV = "csv"
TIMED_FORMATS = ("srt", "vtt")
FORMATS = (CSV, *TIMED_FORMATS, "json")
"""Formats of transcripts."""
_PAUSE_SECONDS, _MOST_SECONDS = 0.8, 6.0  # a pause that ends a subtitle, and how long one is shown at most
_ROW, _ROWS = 42, 2  # characters in a row of a subtitle, and rows, as is customary on television


class SpokenWord(NamedTuple):
    """A word and its time.

    Attributes:
      text: the word.
      start: start time in seconds.
      end: end time in seconds.
      confidence: from 0 to 1.
      has_space: whether a space separates it from the word before it; see ``decoding.ctc.frames.Word``.
    """

    text: str
    start: float
    end: float
    confidence: float
    has_space: bool = True


class Subtitle(NamedTuple):
    """What is shown at a time, from ``start`` to ``end`` in seconds."""

    start: float
    end: float
    text: str


def text_of(words: Sequence[SpokenWord]) -> str:
    """Returns the text that consists of these words."""
    return "".join(" " * word.has_space + word.text for word in words).lstrip(" ")


def joined_words(windows: Sequence[Sequence[SpokenWord]], starts: Sequence[float], seconds: float) -> list[SpokenWord]:
    """Returns the words of a recording from those of its overlapping windows.

    Where two windows overlap, words before a cut are those of the first, and words after it those of the second. The
    cut is the time nearest to the middle of the overlap that lies within no word of either.

    Args:
      windows: the words of each window, with times from the window's start.
      starts: where the windows start in the recording, in seconds.
      seconds: duration of a window.
    """
    words: list[SpokenWord] = []
    for place, (window, start) in enumerate(zip(windows, starts, strict=True)):
        later = [word._replace(start=word.start + start, end=word.end + start) for word in window]
        cut = _cut(words, later, start, starts[place - 1] + seconds) if place else 0.0
        while words and _middle(words[-1]) >= cut:
            words.pop()
        words += [word for word in later if not place or _middle(word) >= cut]
    return words


def _middle(word: SpokenWord) -> float:
    return (word.start + word.end) / 2


def _cut(before: Sequence[SpokenWord], after: Sequence[SpokenWord], begin: float, end: float) -> float:
    spoken = [word for words in (before, after) for word in words if word.end > begin and word.start < end]
    middle = (begin + end) / 2
    edges = sorted({time for word in spoken for time in (word.start, word.end)} | {begin, end})
    # The middle of each span between two edges; a span is spoken if a word covers its middle.
    times = [(one + other) / 2 for one, other in zip(edges, edges[1:], strict=False)]
    silent = [time for time in [middle, *times] if not any(word.start < time < word.end for word in spoken)]
    return min(silent, key=lambda time: abs(time - middle), default=middle)


def subtitles_of(words: Sequence[SpokenWord]) -> list[Subtitle]:
    """Divides words into subtitles, at pauses and ends of sentences, and where one would be too long or shown too long.

    A subtitle is at least one word.
    """
    groups: list[list[SpokenWord]] = []
    for word in words:
        if not groups or _is_complete(groups[-1], word):
            groups.append([])
        groups[-1].append(word)
    return [Subtitle(group[0].start, group[-1].end, text_of(group)) for group in groups]


def _is_complete(group: Sequence[SpokenWord], word: SpokenWord) -> bool:
    text = text_of((*group, word))
    return (word.start - group[-1].end > _PAUSE_SECONDS or word.end - group[0].start > _MOST_SECONDS
            or group[-1].text.endswith((".", "?", "!", "。", "？", "！")) or len(textwrap.wrap(text, _ROW)) > _ROWS)


def formatted(recognition: Any, format: str, name: str | None = None) -> str:
    """Returns a recognition as the content of a file.

    Args:
      recognition: what ``Speech2Text.infer`` returns for a recording, with ``text`` and ``words``.
      format: ``srt``, ``vtt``, or ``json``, an object in one line with ``text``, ``words`` and ``segments``.
      name: name of the recording, which JSON contains.

    Raises:
      UserError: the format is unknown, or needs times that the model does not give.
    """
    if format not in FORMATS[1:]:
        raise UserError(f"The format {format!r:.40} is unknown: use one of {', '.join(FORMATS[1:])}.")
    words = recognition.words
    if words is None and format in TIMED_FORMATS:
        raise UserError(f"The format {format} needs the times of words, which attention does not give: use json, or a "
                        "model with CTC.")
    lines = subtitles_of(words or ())
    if format == "json":
        return json.dumps(plain(name, recognition.text, words, lines), ensure_ascii=False) + "\n"
    if format == "srt":
        return "\n".join(f"{number}\n{clock(line.start, ',')} --> {clock(line.end, ',')}\n{_rows(line.text)}\n"
                         for number, line in enumerate(lines, 1))
    return "WEBVTT\n" + "".join(f"\n{clock(line.start)} --> {clock(line.end)}\n{html.escape(_rows(line.text), False)}\n"
                                for line in lines)


def plain(name: str | None, text: str, words: Sequence[SpokenWord] | None, lines: Sequence[Subtitle],
          ) -> dict[str, Any]:
    """Returns the object of the format ``json``; without times if the words are None."""
    timed = {} if words is None else {
        "words": [{"word": word.text, "start": round(word.start, 3), "end": round(word.end, 3),
                   "confidence": round(word.confidence, 4)} for word in words],
        "segments": [{"start": round(line.start, 3), "end": round(line.end, 3), "text": line.text} for line in lines]}
    return {**({} if name is None else {"recording": name}), "text": text, **timed}


def _rows(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _ROW, break_long_words=" " not in text))


def clock(seconds: float, point: str = ".") -> str:
    """Returns a time as ``01:02:03.456``."""
    thousandths = round(seconds * 1000)
    return (f"{thousandths // 3_600_000:02d}:{thousandths // 60_000 % 60:02d}:{thousandths // 1000 % 60:02d}{point}"
            f"{thousandths % 1000:03d}")
