"""Reads a user's own recordings and their transcripts, leaves out what cannot be used, and splits the others.

They are given as tables, or as folders of Kaldi, LibriSpeech or text files.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from open_seq2seq.data.audio.audio_files import AUDIO_SUFFIXES, AudioError, is_silent, read_audio, read_info
from open_seq2seq.data.folders import files_below, name_from
from open_seq2seq.data.own_tables import Kept, read_own_table
from open_seq2seq.data.speech2text.manifests import FILE_COLUMN, TEXT_COLUMN, Utterance, read_manifests
from open_seq2seq.data.speech2text.recordings import LATEST_END
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print, format_count, tracked
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.sound_files import encoded

SEGMENTS = "segments"
"""Name of the folder of recordings that are parts of files."""
_ROUNDING = 0.1  # seconds by which a declared duration may be too short


def clean(recordings: Iterable[Recording], normalize: Callable[[str], str]) -> Kept[Recording]:
    """Leaves out recordings without a transcript or a speaker, repeated ones, and those that cannot be decoded.

    Args:
      recordings: the rows of the table; the rows that are kept get their durations.
      normalize: the function that normalises a transcript; transcripts that it empties are left out.
    """
    kept, files, seen = Kept[Recording](), dict[str, list[tuple[int, Recording]]](), set()
    for number, recording in enumerate(recordings):
        path = os.path.realpath(recording.utterance.path) if "\0" not in recording.utterance.path else ""
        reason = _fault(recording, normalize(recording.utterance.text or ""))
        if not reason and (path, recording.span) in seen:
            reason = "repeated"
        if reason:
            kept.drop(recording, reason)
        else:
            seen.add((path, recording.span))
            files.setdefault(path, []).append((number, recording))
    with ThreadPoolExecutor(os.cpu_count() or 1, "decoding") as pool:
        decoded = tracked(pool.map(_decoded, files.values()), len(files), "Decoding recordings")
        results = sorted((result for some in decoded for result in some), key=lambda result: result[0])
    for _, kind, recording in results:
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


def _decoded(recordings: Sequence[tuple[int, Recording]]) -> list[tuple[int, str, Recording]]:
    """Decodes the recordings that are in one file.

    Returns:
      For each: its number, the kind of its problem (empty if there is none), and a copy of the recording that has
      ``seconds`` and ``rate`` set or, if there is a problem, ``problem``.
    """
    path = recordings[0][1].utterance.path
    try:
        rate = read_info(path).rate
        audio = read_audio(path, rate)
    except AudioError as error:
        return [(number, error.kind, replace(recording, problem=error.detail)) for number, recording in recordings]
    results, seconds = [], len(audio) / rate
    for number, recording in recordings:
        span = _shortened(recording.span, seconds)
        part = _part(audio, rate, span)
        is_late = recording.span is not None and (recording.span[1] or 0.0) > seconds + LATEST_END
        kind, problem = ("outside", f"is not within its file of {seconds:.2f} s") if is_late or not len(part) else (
            ("silent", "is silent") if is_silent(part) else ("", ""))
        results.append((number, kind, replace(recording, span=span, seconds=len(part) / rate, rate=rate,
                                              problem=problem)))
    return results


def _shortened(span: Span | None, seconds: float) -> Span | None:
    """Returns a part of a file; None if it is the whole file, whose duration may have been rounded."""
    if span is None or (span[0] == 0 and (span[1] is None or span[1] >= seconds - _ROUNDING)):
        return None
    return span


def _part(audio: np.ndarray, rate: int, span: Span | None) -> np.ndarray:
    if span is None:
        return audio
    return audio[round(span[0] * rate):None if span[1] is None else round(span[1] * rate)]


def write_segments(recordings: Sequence[Recording], folder: str, place: str) -> list[Recording]:
    """Writes each recording that is a part of a file to a file of its own, below ``segments``.

    Args:
      recordings: the recordings.
      folder: folder in which to write.
      place: path that the folder will get.

    Returns:
      The recordings, as files below ``place`` if they are written.
    """
    results, path, audio, rate = list(recordings), "", np.zeros(0, np.float32), 0
    parts = [(row.utterance.path, number) for number, row in enumerate(recordings) if row.span is not None]
    if parts:
        os.makedirs(os.path.join(folder, SEGMENTS))
    for number in (number for _, number in tracked(sorted(parts), len(parts), "Writing segments")):
        row = recordings[number]
        if row.utterance.path != path:
            path = row.utterance.path
            rate = read_info(path).rate
            audio = read_audio(path, rate)
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", row.utterance.name)[-80:]
        name = os.path.join(SEGMENTS, f"{number + 1:06d}-{plain}.flac")
        disk.write_new(os.path.join(folder, name), encoded(_part(audio, rate, row.span), rate, "FLAC"))
        results[number] = replace(row, utterance=replace(row.utterance, path=os.path.join(place, name)), span=None)
    return results


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
                        f"at least {len(wanted) + 1} {noun}s, or smaller --dev_share and --test_share"
                        f"{', or --speaker_column= to split without speakers' * (noun == 'speaker')}.")
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


def listed(recording: Recording, header: Sequence[str], folder: str) -> list[str]:
    """Returns the row of a recording for a list in a folder: all columns, with the path relative to the folder."""
    cells = list(recording.cells)
    cells[header.index(FILE_COLUMN)] = name_from(folder, recording.utterance.path)
    return cells


# Names of the columns with the files and the transcripts: ours, Common Voice's, NeMo's, and those of Hugging Face.
COLUMNS = ((FILE_COLUMN, TEXT_COLUMN), ("path", "sentence"), ("audio_filepath", "text"), ("file_name", "transcription"))
_SPEAKER, _SPEAKER_OF_COMMON_VOICE = "speaker", "client_id"
_PART = ("offset", "duration")  # columns of NeMo: the part of the file, in seconds

Span = tuple[float, float | None]
"""Beginning and end of a part of a file in seconds; None: the end of the file."""


@dataclass(frozen=True)
class Recording:
    """A row of the table.

    Attributes:
      utterance: the recording and its transcript.
      cells: the values of all columns.
      speaker: the speaker; None if the table is read without speakers.
      span: the part of the file that is the recording; None for the whole file.
      seconds: duration in seconds; 0 before the recording has been decoded.
      rate: sampling rate of the file in Hz; 0 before the recording has been decoded.
      problem: why the recording cannot be decoded, as the predicate of a sentence; empty if it can be.
    """

    utterance: Utterance
    cells: Sequence[str]
    speaker: str | None
    span: Span | None = None
    seconds: float = 0.0
    rate: int = 0
    problem: str = ""

    @property
    def line(self) -> int:
        """Number of the row's line in the table, counted from 1; 0 if the recording is not in a table."""
        return self.utterance.line

    @property
    def place(self) -> str:
        """The line and the name of the recording, for messages."""
        return f"line {self.line:,}, {self.utterance.name}" if self.line else self.utterance.name

    @property
    def group(self) -> str:
        """Name of the group that stays together in the split: the speaker, or the recording alone."""
        return self.utterance.name if self.speaker is None else self.speaker


def read_recordings(path: str, columns: Sequence[str] | None = None, speaker_column: str | None = None,
                    ) -> tuple[list[str], list[Recording]]:
    """Returns the names of the columns of the lists to write, and the recordings.

    Args:
      path: a table (see ``read_own_table``), or a folder: Kaldi's ``wav.scp``, ``text`` and, if there are,
        ``segments`` and ``utt2spk``; LibriSpeech's ``*.trans.txt``; or recordings with text files of the same names.
      columns: names of the columns of the table with the files and the transcripts; None: one of ``COLUMNS``.
      speaker_column: name of the column with the speakers; None: that of Common Voice or Kaldi, if there is one; empty:
        no column.

    Raises:
      DataError: the table cannot be read, has no rows, or lacks a column; or the folder has no transcripts.
    """
    if not os.path.isdir(path):
        return _read_table(path, columns, speaker_column)
    kaldi = os.path.exists(os.path.join(path, "wav.scp"))
    header, rows = _read_kaldi(path) if kaldi else ([FILE_COLUMN, TEXT_COLUMN], _read_folder(path))
    column = _SPEAKER if speaker_column is None and _SPEAKER in header else speaker_column
    if not column:
        return header, rows
    if column not in header:
        raise DataError(f"The folder {path} has no column {column!r} for --speaker_column: only a folder of Kaldi with "
                        f"utt2spk has speakers, whose column is {_SPEAKER}.")
    return header, [Recording(row.utterance, row.cells, row.cells[header.index(column)], row.span) for row in rows]


def _read_table(path: str, columns: Sequence[str] | None, speaker_column: str | None,
                ) -> tuple[list[str], list[Recording]]:
    table = read_own_table(path)
    deco_print(table.describe(has_names=True))
    names = table.names
    columns = tuple(columns or ()) or next((pair for pair in COLUMNS if set(pair) <= set(names)), None)
    if columns is None:
        raise DataError(f"{path}:1: the columns are {', '.join(names)[:200]}: name those with the files and the "
                        f"transcripts with --columns, or call them {FILE_COLUMN} and {TEXT_COLUMN}.")
    indices = [table.place(column, "--columns") for column in columns]
    if speaker_column is None and _SPEAKER_OF_COMMON_VOICE in names and columns == COLUMNS[1]:
        speaker_column = _SPEAKER_OF_COMMON_VOICE
    speaker = table.place(speaker_column, "--speaker_column", columns) if speaker_column else None
    renamed = dict(zip(indices, (FILE_COLUMN, TEXT_COLUMN), strict=True))
    parts = {name: names.index(name) for name in _PART if name in names and columns == COLUMNS[2]}
    others = [place for place, name in enumerate(names) if place in renamed or (
        name not in (FILE_COLUMN, TEXT_COLUMN) and place not in parts.values())]
    folder = os.path.dirname(path)
    folders = [folder, os.path.join(folder, "clips"), ""]  # Common Voice has its recordings in clips
    recordings = []
    for line, values in table.rows(range(1, len(names) + 1), has_names=True):
        name, text = values[indices[0]].strip(), values[indices[1]]
        utterance = Utterance(shown(name), _located(name, folders), text, path, line)
        recordings.append(Recording(utterance, [values[place] for place in others],
                               None if speaker is None else values[speaker].strip(),
                               _span({name: values[place] for name, place in parts.items()}, utterance.place)))
    return [renamed.get(place, names[place]) for place in others], recordings


def _located(name: str, folders: Sequence[str]) -> str:
    r"""Returns the path of a file that is in one of some folders; ``\`` may separate the folders in its name."""
    paths = [os.path.join(folder, spelled) for spelled in dict.fromkeys((name, name.replace("\\", "/")))
             for folder in folders]
    return next((path for path in paths if os.path.isfile(path)), paths[0])


def _span(part: Mapping[str, str], place: str) -> Span | None:
    """Returns the part of a file that a row of NeMo declares; with a duration of 0, it ends where the file ends."""
    begin, duration = (_seconds(part.get(name) or "0", place) for name in _PART)
    return (begin, begin + duration if duration else None) if begin or duration else None


def _seconds(text: str, place: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < 1e9:
        raise DataError(f"{place}: {text[:40]!r} is not a time in seconds: correct the line.")
    return seconds


def _read_kaldi(folder: str) -> tuple[list[str], list[Recording]]:
    """Reads a data folder of Kaldi; each utterance is a file of ``wav.scp``, or a part of it listed in ``segments``."""
    scp, text, segments, speakers = (os.path.join(folder, name) for name in ("wav.scp", "text", "segments", "utt2spk"))
    files: dict[str, str] = {}
    for number, name, path in _entries(scp):
        if path.endswith("|"):
            raise DataError(f"{scp}:{number}: the recording is the output of the command {path[:60]!r}: run it, and "
                            "write the name of the file that it makes.")
        # Names are relative to the folder in which the recipe runs, which is often the second one above.
        files[name] = _located(path, [folder, "", os.path.join(folder, "..", ".."), os.path.join(folder, "..")])
    spans: dict[str, tuple[str, Span | None]] = {name: (name, None) for name in files}
    if os.path.exists(segments):
        spans = {name: _segment(rest, f"{segments}:{number}") for number, name, rest in _entries(segments)}
    speaker_of = {name: speaker for _, name, speaker in _entries(speakers)} if os.path.exists(speakers) else None
    texts = {name: (number, words) for number, name, words in _entries(text)}
    recordings = []
    for name in {**texts, **spans}:
        number, words = texts.get(name, (0, ""))
        recording, span = spans.get(name, (name, None))
        utterance = Utterance(shown(name), files.get(recording, os.path.join(folder, recording)), words, text, number)
        cells = ["", words, name] if speaker_of is None else ["", words, name, speaker_of.get(name, "")]
        recordings.append(Recording(utterance, cells, None, span))
    return [FILE_COLUMN, TEXT_COLUMN, "utterance", _SPEAKER][:3 if speaker_of is None else 4], recordings


def _entries(path: str) -> Iterator[tuple[int, str, str]]:
    """Yields (number of the line from 1, first word, the rest) for each line that is not empty."""
    for number, line in enumerate(read_lines(path), 1):
        name, *rest = line.split(None, 1)[:2] or [""]
        if name:
            yield number, name, rest[0].strip() if rest else ""


def _segment(text: str, place: str) -> tuple[str, Span]:
    """Returns the recording of a segment, and its part."""
    parts = text.split()
    if len(parts) < 3:
        raise DataError(f"{place}: the line must be a name, a recording, a beginning and an end, separated by spaces.")
    return parts[0], (_seconds(parts[1], place), None if parts[2] == "-1" else _seconds(parts[2], place))


def _read_folder(folder: str) -> list[Recording]:
    """Reads a folder of LibriSpeech, or of recordings with text files of the same names."""
    files = list(files_below(folder))
    if any(path.endswith(".trans.txt") for path in files):
        return [Recording(utterance, ["", utterance.text or ""], None) for utterance in read_manifests(
            [folder], None, True)]
    audio = [path for path in files if path.lower().endswith(AUDIO_SUFFIXES)]
    texts = {path for path in files if path.endswith(".txt")}
    if not any(f"{os.path.splitext(path)[0]}.txt" in texts for path in audio):
        tables = [path for path in files if path.endswith((".tsv", ".csv"))]
        raise DataError(f"The folder {shown(folder)} has no wav.scp (Kaldi), no *.trans.txt (LibriSpeech), and no "
                        "recordings with text files of the same names: give a table"
                        + (f", such as {shown(tables[-1])}." if tables else "."))
    recordings = []
    for path in audio:
        beside = f"{os.path.splitext(path)[0]}.txt"
        text = " ".join(" ".join(read_lines(beside)).split()) if beside in texts else ""
        utterance = Utterance(shown(os.path.relpath(path, folder)), path, text, path, 0)
        recordings.append(Recording(utterance, ["", text], None))
    return recordings
