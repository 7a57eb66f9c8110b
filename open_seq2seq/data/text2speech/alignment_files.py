"""Reads alignments that other programs made: TextGrid files of Praat or the Montreal Forced Aligner, and CTM files."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from open_seq2seq.data.text2speech.alignment import AlignedWord
from open_seq2seq.data.text2speech.front_end import SILENCE
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

_SILENT = {"", "sil", "sp", "<eps>", "silence", "<sil>", "pau"}
_UNKNOWN = {"spn", "<unk>"}
_TIER = re.compile(r'class\s*=\s*"IntervalTier"\s*name\s*=\s*"([^"]*)"(.*?)(?=class\s*=\s*"|\Z)', re.DOTALL)
_INTERVAL = re.compile(r'xmin\s*=\s*([\d.eE+-]+)\s+xmax\s*=\s*([\d.eE+-]+)\s+text\s*=\s*"((?:[^"]|"")*)"')
_POSITION = re.compile(r"_[BIES]$")  # of a phoneme in its word, in the names of Kaldi
_SHORTEST = 1e-4  # seconds of a gap that is not rounding


class Interval(NamedTuple):
    """A part of a recording.

    Attributes:
      start, end: in seconds.
      label: the phoneme, or the word.
    """

    start: float
    end: float
    label: str


def read_text_grid(path: str) -> list[AlignedWord]:
    """Reads a TextGrid file in the long text form, with a tier ``phones`` and, if possible, a tier ``words``.

    Raises:
      DataError: the file is missing, not UTF-8, or has no such tier, or a word has no phonemes.
    """
    text = "\n".join(read_lines(path, "The TextGrid"))
    tiers = {name.rpartition(" - ")[2].strip().lower(): [
        Interval(float(start), float(end), label.replace('""', '"').strip())
        for start, end, label in _INTERVAL.findall(content)] for name, content in _TIER.findall(text)}
    if not tiers.get("phones"):
        raise DataError(f"{shown(path)} has no tier 'phones' with intervals: save the TextGrid as a text file in the long "
                        "form.")
    return _aligned(tiers["phones"], [word for word in tiers.get("words", []) if word.label.lower() not in _SILENT], path)


def read_ctm(path: str) -> dict[str, list[AlignedWord]]:
    """Reads a CTM file with a line ``recording channel start duration phoneme`` for each phoneme.

    Returns:
      Dict of recording → its phonemes, with pauses between them. As words are not known, all phonemes between pauses
      are those of one word.

    Raises:
      DataError: the file is missing, not UTF-8 or empty, or a line is not such a line.
    """
    intervals: dict[str, list[Interval]] = {}
    for number, line in enumerate(read_lines(path, "The CTM file"), 1):
        columns = line.split()
        if not columns or line.startswith(";;"):
            continue
        try:
            start, duration = float(columns[2]), float(columns[3])
            label = _POSITION.sub("", columns[4])
        except (IndexError, ValueError) as error:
            raise DataError(f"{shown(path)}:{number}: the line {shown(line[:60])!r} must be: recording channel start "
                            "duration phoneme.") from error
        intervals.setdefault(columns[0], []).append(Interval(start, start + duration, label))
    if not intervals:
        raise DataError(f"{shown(path)} has no alignments.")
    return {name: _aligned(sorted(some), [], f"{path} ({name})") for name, some in intervals.items()}


def alignments_of(path: str, names: Iterable[str]) -> Mapping[str, list[AlignedWord]]:
    """Reads the alignments of recordings from a CTM file, or from a folder with a file ``name.TextGrid`` of each.

    Returns:
      Dict of name → alignment; recordings without one are left out.
    """
    if not os.path.isdir(path):
        return read_ctm(path)
    files = {name: os.path.join(path, f"{name}.TextGrid") for name in names}
    return {name: read_text_grid(file) for name, file in files.items() if os.path.exists(file)}


def _aligned(phones: list[Interval], words: list[Interval], path: str) -> list[AlignedWord]:
    """Returns phonemes as words and pauses; gaps are pauses."""
    result: list[AlignedWord] = []
    for word, group in itertools.groupby(_without_gaps(phones), lambda phone: _word_of(phone, words)):
        inside = list(group)
        if any(phone.label.lower() in _UNKNOWN for phone in inside):
            raise DataError(f"{shown(path)} has a word without phonemes at {inside[0].start:.2f} seconds: add its "
                            "pronunciation to the dictionary of the aligner.")
        labels = tuple(phone.label for phone in inside) if word is not None else (SILENCE,)
        seconds = tuple(phone.end - phone.start for phone in inside)
        result.append(AlignedWord(word.label.lower() if word else "", labels, seconds if word else (sum(seconds),)))
    return result


def _without_gaps(phones: Iterable[Interval]) -> Iterator[Interval]:
    end = 0.0
    for phone in phones:
        if phone.start > end + _SHORTEST:
            yield Interval(end, phone.start, "")
        # An overlap, from rounding, is given to the first of both.
        yield Interval(min(max(phone.start, end), phone.end), phone.end, phone.label)
        end = max(end, phone.end)


def _word_of(phone: Interval, words: list[Interval]) -> Interval | None:
    """Returns the word of a phoneme, None for a pause; without words, one that stands for all of them."""
    if phone.label.lower() in _SILENT:
        return None
    centre = (phone.start + phone.end) / 2
    return next((word for word in words if word.start <= centre < word.end), Interval(0.0, 0.0, "*"))
