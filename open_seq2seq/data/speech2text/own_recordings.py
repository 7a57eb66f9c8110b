"""Reads a user's own recordings and their transcripts: tables, and the folders of Kaldi, LibriSpeech and text files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from open_seq2seq.data.audio.audio_files import AUDIO_SUFFIXES
from open_seq2seq.data.folders import files_below
from open_seq2seq.data.own_tables import read_own_table
from open_seq2seq.data.speech2text.manifests import FILE_COLUMN, TEXT_COLUMN, Utterance, read_manifests
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

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
    deco_print(table.describe())
    names = table.names
    columns = tuple(columns or ()) or next((pair for pair in COLUMNS if set(pair) <= set(names)), None)
    if columns is None:
        raise DataError(f"{path}:1: the columns are {', '.join(names)[:200]}: name those with the files and the "
                        f"transcripts with --columns, or call them {FILE_COLUMN} and {TEXT_COLUMN}.")
    indices = [table.place(column, "--columns") for column in columns]
    if speaker_column is None and _SPEAKER_OF_COMMON_VOICE in names and columns == COLUMNS[1]:
        speaker_column = _SPEAKER_OF_COMMON_VOICE
    speaker = table.place(speaker_column, "--speaker_column") if speaker_column else None
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
    """Returns the part of a file that a row of NeMo declares."""
    if not any(part.values()):
        return None
    begin = _seconds(part.get("offset") or "0", place)
    return begin, begin + _seconds(part["duration"], place) if part.get("duration") else None


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
