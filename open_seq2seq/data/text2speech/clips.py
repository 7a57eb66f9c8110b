"""Reads the lists of clips: ``name|text`` or ``name|text|normalised text``, one clip per line, as in LJSpeech."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from open_seq2seq.data.audio.audio_files import AUDIO_SUFFIXES
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

_SEPARATOR = "|"
_FOLDER = "wavs"
_UNUSED = "UNUSED"


@dataclass(frozen=True)
class Clip:
    """One line of a list.

    Attributes:
      name: name of the recording in the list, made printable by ``utils.data_files.shown``.
      path: path of the recording; "" if the line names none.
      text: the text, from the last column.
      source: path of the list.
      line: line number in the list, from 1.
    """

    name: str
    path: str
    text: str
    source: str
    line: int

    @property
    def place(self) -> str:
        """Location of the clip for messages: the list and the line number."""
        return f"{shown(self.source)}:{self.line}"


def read_clips(lists: Sequence[str], location: str, plain_text: bool = False) -> list[Clip]:
    """Reads lists of clips, and returns the clips of all lists in order.

    The columns are separated by ``|`` and not quoted. A recording ``name`` is ``<location>/wavs/<name>.wav``, or
    ``<location>/<name>.wav`` if the name contains ``wavs``; its suffix may be that of any other audio format. The name
    ``UNUSED`` stands for no recording.

    Args:
      lists: paths of the lists.
      location: folder of the recordings.
      plain_text: whether a line without ``|`` is a text to speak.

    Raises:
      DataError: a list is missing, empty or not UTF-8, or a line has one column or more than three.
    """
    clips = [clip for path in lists for clip in _read(path, location, plain_text)]
    if not clips:
        raise DataError(f"{', '.join(map(shown, lists))} has no lines: list one clip per line, as name|text.")
    return clips


def _read(path: str, location: str, plain_text: bool) -> Iterator[Clip]:
    for number, line in enumerate(read_lines(path, "The list of clips"), 1):
        columns = line.split(_SEPARATOR)
        if plain_text and len(columns) == 1:
            yield Clip("", "", line, path, number)
        elif not 2 <= len(columns) <= 3:
            raise DataError(f"{shown(path)}:{number}: the line has {len(columns)} column{'s' * (len(columns) > 1)} "
                            f"separated by '{_SEPARATOR}', but it must be name|text or name|text|normalised text.")
        else:
            name = columns[0].strip()
            found = "" if name == _UNUSED else located(name, location)
            yield Clip(shown(name), found, columns[-1].strip(), path, number)


def located(name: str, location: str) -> str:
    """Returns the path of a recording; see ``read_clips``. If there is none, that of the missing ``.wav`` file."""
    stem = os.path.join(location, *([] if _FOLDER in name else [_FOLDER]), name)
    if stem.lower().endswith(AUDIO_SUFFIXES) and os.path.exists(stem):
        return stem
    paths = (stem + suffix for suffix in AUDIO_SUFFIXES)
    return next((path for path in paths if os.path.exists(path)), f"{stem}.wav")
