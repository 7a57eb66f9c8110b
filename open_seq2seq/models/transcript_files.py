"""Files with transcripts and the times of words."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class SpokenWord(NamedTuple):
    """A word and when it was spoken.

    Attributes:
      text: the word.
      start: in seconds.
      end: in seconds.
      confidence: from 0 to 1.
    """

    text: str
    start: float
    end: float
    confidence: float


def write_transcripts(path: str, rows: Iterable[tuple[str, str]]) -> None:
    """Writes (recording, transcript) as CSV: ``wav_filename,predicted_transcript``."""
    _write(path, ("wav_filename", "predicted_transcript"), rows)


def write_word_times(transcripts_path: str, rows: Iterable[tuple[str, Sequence[SpokenWord]]]) -> None:
    """Writes the words of recordings, times in seconds, beside the transcripts: ``<name>.words.csv``."""
    _write(os.path.splitext(transcripts_path)[0] + ".words.csv",
           ("wav_filename", "word", "start_time", "end_time", "confidence"),
           ((name, word.text, f"{word.start:.3f}", f"{word.end:.3f}", f"{word.confidence:.4f}")
            for name, words in rows for word in words))


def _write(path: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
