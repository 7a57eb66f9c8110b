"""Prepares a user's own recordings: reads their table, leaves out what cannot be used, and splits the others."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from open_seq2seq.data.audio.audio_files import AudioError, is_silent, read_audio, read_info
from open_seq2seq.data.kept import Kept
from open_seq2seq.data.speech2text.manifests import FILE_COLUMN, CsvList, Utterance
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError, did_you_mean
from open_seq2seq.utils.progress import format_count, tracked


@dataclass(frozen=True)
class Recording:
    """A row of the table.

    Attributes:
      utterance: the recording and its transcript.
      cells: the values of all columns.
      speaker: the speaker; None if the table is read without speakers.
      seconds: duration in seconds; 0 before the recording has been decoded.
      problem: why the recording cannot be decoded, as the predicate of a sentence; empty if it can be.
    """

    utterance: Utterance
    cells: Sequence[str]
    speaker: str | None
    seconds: float = 0.0
    problem: str = ""

    @property
    def line(self) -> int:
        """Number of the row's last line in the table, counted from 1."""
        return self.utterance.line

    @property
    def group(self) -> str:
        """Name of the group that stays together in the split: the speaker, or the recording alone."""
        return self.utterance.name if self.speaker is None else self.speaker


def read_recordings(path: str, speaker_column: str | None = None) -> tuple[list[str], list[Recording]]:
    """Returns the names of the columns of a table and its rows.

    Args:
      path: the table; see ``CsvList``.
      speaker_column: name of the column with the speakers, or None.

    Raises:
      DataError: the table cannot be read, has no rows, or lacks a column.
    """
    table = CsvList(path, None, True)
    place = None if speaker_column is None else _place(path, speaker_column, table.header)
    found = [Recording(utterance, cells, None if place is None else cells[place].strip())
             for utterance, cells in table.rows()]
    if not found:
        raise DataError(f"{path} lists no recordings: write one row for each below the header.")
    return table.header, found


def _place(path: str, column: str, header: Sequence[str]) -> int:
    if column not in header:
        raise DataError(f"{path}:1: there is no column named {column!r} for --speaker_column: the columns are "
                        f"{', '.join(header)[:200]}.{did_you_mean(column, header)}")
    if header.count(column) > 1:
        raise DataError(f"{path}:1: the header has the column {column} more than once: remove or rename the others.")
    return header.index(column)


def clean(recordings: Iterable[Recording], normalize: Callable[[str], str]) -> Kept[Recording]:
    """Leaves out recordings without a transcript or a speaker, repeated ones, and those that cannot be decoded.

    Args:
      recordings: the rows of the table; the rows that are kept get their durations.
      normalize: the function that normalises a transcript; transcripts that it empties are left out.
    """
    kept, candidates = Kept[Recording](), dict[str, Recording]()
    for recording in recordings:
        path = os.path.realpath(recording.utterance.path) if "\0" not in recording.utterance.path else ""
        reason = _fault(recording, normalize(recording.utterance.text or ""))
        if not reason and path in candidates:
            reason = "repeated"
        if reason:
            kept.drop(recording, reason)
        else:
            candidates[path] = recording
    with ThreadPoolExecutor(os.cpu_count() or 1, "decoding") as pool:
        decoded = pool.map(_decoded, candidates.values())
        for kind, recording in tracked(decoded, len(candidates), "Decoding recordings"):
            if kind:
                kept.drop(recording, kind)
            else:
                kept.rows.append(recording)
    return kept


def _fault(recording: Recording, text: str) -> str:
    if not text.strip():
        return "empty transcript"
    if "\n" in text or "\r" in text:
        return "transcript with a line break"
    return "no speaker" if recording.speaker == "" else ""


def _decoded(recording: Recording) -> tuple[str, Recording]:
    """Decodes a recording; returns the kind of its problem (empty if there is none) and a copy of the recording.

    The copy has ``seconds`` set or, if there is a problem, ``problem``.
    """
    path = recording.utterance.path
    try:
        info = read_info(path)
        if is_silent(read_audio(path, info.rate)):
            raise AudioError("silent", "is silent")
    except AudioError as error:
        return error.kind, replace(recording, problem=error.detail)
    return "", replace(recording, seconds=info.samples / info.rate)


def split(recordings: Sequence[Recording], dev_share: float, test_share: float) -> list[list[Recording]]:
    """Splits recordings by checksums of their names or speakers, so that every call gives the same parts.

    The recordings of a speaker stay together, so dev and test can be smaller than their shares. A part is larger than
    its share only if every speaker has too many recordings for it.

    Args:
      recordings: the recordings.
      dev_share: share of the recordings in dev.
      test_share: share of the recordings in test.

    Returns:
      train, dev and test; none is empty. Within a part, recordings are in the order of ``recordings``.

    Raises:
      DataError: there are too few recordings or speakers.
    """
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        groups.setdefault(recording.group, []).append(recording)
    sizes = {name: len(group) for name, group in groups.items()}
    wanted = [max(1, round(share * len(recordings))) for share in (dev_share, test_share)]
    part_of = _held_out(sizes, wanted) if len(sizes) > len(wanted) else {}
    if len(part_of) in (0, len(sizes)):
        noun = "speaker" if recordings and recordings[0].speaker is not None else "recording"
        raise DataError(f"{format_count(len(sizes), f'usable {noun}')} cannot be split into train, dev and test: give "
                        f"at least {len(wanted) + 1} {noun}s, or smaller --dev_share and --test_share.")
    return [[recording for recording in recordings if part_of.get(recording.group, 0) == number]
            for number in range(len(wanted) + 1)]


def _held_out(sizes: Mapping[str, int], wanted: Sequence[int]) -> dict[str, int]:
    """Chooses groups for dev and test: dev those with the lowest checksums, test those with the highest.

    If the table grows, most recordings therefore stay in their parts.

    Args:
      sizes: dict of group → number of recordings; at least two groups.
      wanted: number of recordings of dev and test.

    Returns:
      Dict of group → 1 for dev, 2 for test; all other groups are for train.
    """
    upwards = sorted(sizes, key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest())
    orders = [upwards, upwards[::-1]]
    chosen: dict[str, int] = {}
    room = list(wanted)
    for part, order in enumerate(orders):  # one group for each part, before either gets a second one
        left = [name for name in order if name not in chosen]
        first = next((name for name in left if sizes[name] <= room[part]), min(left, key=sizes.__getitem__))
        chosen[first] = part + 1
        room[part] -= sizes[first]
    for part, order in enumerate(orders):
        for name in order:
            if name not in chosen and sizes[name] <= room[part]:
                chosen[name] = part + 1
                room[part] -= sizes[name]
    return chosen


def name_from(folder: str, path: str) -> str:
    """Returns the path of a file relative to a folder, or its absolute path if only the root folder contains both.

    Raises:
      DataError: the name is not UTF-8.
    """
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    start = os.path.realpath(folder)
    name = real if os.path.commonpath([real, start]) == os.sep else os.path.relpath(real, start)
    if name != shown(name):
        raise DataError(f"{shown(name)} cannot be in a list, because its path is not UTF-8: rename its folder.")
    return name


def listed(recording: Recording, header: Sequence[str], folder: str) -> list[str]:
    """Returns the row of a recording for a list in a folder: all columns, with the path relative to the folder."""
    cells = list(recording.cells)
    cells[header.index(FILE_COLUMN)] = name_from(folder, recording.utterance.path)
    return cells
