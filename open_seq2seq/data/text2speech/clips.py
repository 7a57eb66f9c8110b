"""Reads the lists of clips, one per line, as in LJSpeech: ``name|text`` or ``name|text|normalised text``.

Aligned lists have four columns, ``name|text|symbols|seconds``: the symbols of the recording and their durations, both
separated by spaces. In lists of several speakers, the name of the speaker is the second column, before the text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from open_seq2seq.data.audio.audio_files import AUDIO_SUFFIXES
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

_SEPARATOR = "|"
FOLDER = "wavs"
UNUSED = "UNUSED"
"""In a list, the name of no recording and, in inference, of no speaker."""
_TOLERANCE = 4  # frames by which seconds and recordings may differ, since aligners round and leave out partial windows


@dataclass(frozen=True)
class Clip:
    """One line of a list.

    Attributes:
      name: name of the recording in the list, made printable by ``utils.data_files.shown``.
      path: path of the recording; "" if the line names none.
      text: the text, from the last column, or from the second one of an aligned list.
      source: path of the list.
      line: line number in the list, from 1.
      symbols: the third column of an aligned list, otherwise "".
      seconds: durations of these symbols.
      speaker: name of the speaker; "" in lists without speakers.
    """

    name: str
    path: str
    text: str
    source: str
    line: int
    symbols: str = ""
    seconds: tuple[float, ...] = ()
    speaker: str = ""

    @property
    def place(self) -> str:
        """Location of the clip for messages: the list and the line number."""
        return f"{shown(self.source)}:{self.line}"


def read_clips(lists: Sequence[str], location: str, plain_text: bool = False,
               has_speakers: bool = False) -> list[Clip]:
    """Reads lists of clips, and returns the clips of all lists in order.

    The columns are separated by ``|`` and not quoted. A recording ``name`` is ``<location>/wavs/<name>.wav``, or
    ``<location>/<name>.wav`` if the name contains ``wavs``; its suffix may be that of any other audio format. The name
    ``UNUSED`` stands for no recording.

    Args:
      lists: paths of the lists.
      location: folder of the recordings.
      plain_text: whether a line without ``|`` is a text to speak.
      has_speakers: whether the second column is the name of the speaker.

    Raises:
      DataError: a list is missing, empty or not UTF-8, or a line has too few or too many columns, or its symbols and
        seconds do not match.
    """
    clips = [clip for path in lists for clip in _read(path, location, plain_text, has_speakers)]
    if not clips:
        raise DataError(f"{', '.join(map(shown, lists))} has no lines: list one clip per line, as "
                        f"{'name|speaker|text' if has_speakers else 'name|text'}.")
    return clips


def _read(path: str, location: str, plain_text: bool, has_speakers: bool) -> Iterator[Clip]:
    for number, line in enumerate(read_lines(path, "The list of clips"), 1):
        columns = line.split(_SEPARATOR)
        if plain_text and len(columns) == 1:
            yield Clip("", "", line, path, number)
            continue
        if not 2 <= len(columns) - has_speakers <= 4:
            raise DataError(f"{shown(path)}:{number}: {_wrong_columns(len(columns), has_speakers)}")
        speaker = columns.pop(1).strip() if has_speakers else ""
        name = columns[0].strip()
        located_path = "" if name == UNUSED else located(name, location)
        if len(columns) == 4:
            seconds = _seconds(columns[2], columns[3], f"{shown(path)}:{number}")
            yield Clip(shown(name), located_path, columns[1].strip(), path, number, columns[2].strip(), seconds,
                       speaker)
        else:
            yield Clip(shown(name), located_path, columns[-1].strip(), path, number, speaker=speaker)


def _wrong_columns(count: int, has_speakers: bool) -> str:
    """Returns what is wrong with a line of this number of columns, and what it must be."""
    layouts = ["name|text", "name|text|normalised text", "name|text|symbols|seconds"]
    if has_speakers:
        layouts = [layout.replace("name|", "name|speaker|") for layout in layouts]
    other = ", or, of several speakers, name the speakers in the parameter speakers" if count == 5 else ""
    return (f"the line has {count} column{'s' * (count > 1)} separated by '{_SEPARATOR}', but it must be "
            f"{layouts[0]}, {layouts[1]} or {layouts[2]}{other}.")


def _seconds(symbols: str, column: str, place: str) -> tuple[float, ...]:
    """Returns the durations in the fourth column of an aligned list."""
    try:
        seconds = tuple(map(float, column.split()))
    except ValueError:
        seconds = (math.nan,)
    if not all(0.0 <= value < math.inf for value in seconds):
        raise DataError(f"{place}: the fourth column {shown(column.strip()[:40])!r} must be the durations of the "
                        "symbols in seconds, separated by spaces.")
    if len(seconds) != len(symbols.split()):
        raise DataError(f"{place}: the line has {len(symbols.split())} symbols in the third column, but {len(seconds)} "
                        "durations in the fourth.")
    return seconds


def located(name: str, location: str) -> str:
    """Returns the path of a recording; see ``read_clips``. If there is none, that of the missing ``.wav`` file."""
    stem = os.path.join(location, *([] if FOLDER in name else [FOLDER]), name)
    if stem.lower().endswith(AUDIO_SUFFIXES) and os.path.exists(stem):
        return stem
    paths = (stem + suffix for suffix in AUDIO_SUFFIXES)
    return next((path for path in paths if os.path.exists(path)), f"{stem}.wav")


def frames_of(seconds: Sequence[float], frames: int, frame_seconds: float, start: float = 0.0) -> np.ndarray:
    """Returns how many frames belong to each symbol: those whose centre is in it.

    The ends of symbols are rounded, not the durations, so errors do not accumulate. The last symbol ends with the last
    frame.

    Args:
      seconds: durations of the symbols ``[text]``, at least one.
      frames: number of frames; frame f is centred ``f * frame_seconds`` after ``start``.
      frame_seconds: seconds from one frame to the next.
      start: seconds that were cut off at the beginning of the recording.

    Returns:
      int32 ``[text]``, whose sum is ``frames``.
    """
    ends = (np.cumsum(np.asarray(seconds, np.float64)) - start) / frame_seconds
    # Without rounding, an end at the centre of a frame could come before or after it.
    bounds = np.clip(np.ceil(np.round(ends, 6)), 0, frames)
    bounds[-1] = frames
    return np.diff(bounds, prepend=0).astype(np.int32)


def mismatch(seconds: Sequence[float], recorded: float, frame_seconds: float) -> str | None:
    """Returns what is wrong, as the predicate of a sentence, if durations are not those of a recording.

    Args:
      seconds: durations of the symbols ``[text]``.
      recorded: seconds of the recording.
      frame_seconds: seconds from one frame to the next.
    """
    total = float(np.sum(seconds))
    if abs(total - recorded) <= _TOLERANCE * frame_seconds:
        return None
    return f"is {recorded:.3f} seconds long, but the durations of its symbols add up to {total:.3f} seconds"
