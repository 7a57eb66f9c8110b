"""Reads lists of recordings and transcripts: CSV, JSON lines, LibriSpeech folders, and plain audio files."""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from open_seq2seq.data.audio.audio_files import AUDIO_SUFFIXES, recordings_of
from open_seq2seq.data.folders import files_below
from open_seq2seq.utils.data_files import opened_text, read_lines, shown
from open_seq2seq.utils.errors import DataError

FILE_COLUMN, TEXT_COLUMN = "wav_filename", "transcript"
LIST_COLUMNS = (FILE_COLUMN, "wav_filesize", TEXT_COLUMN)  # of the lists that the scripts write
_JSON_SUFFIXES = (".json", ".jsonl", ".manifest")
_TRANSCRIPTS = ".trans.txt"
_MOST_SECONDS = 1e9


@dataclass(frozen=True)
class Utterance:
    """One row of a list.

    Attributes:
      name: name of the recording in the list, made printable by ``utils.data_files.shown``.
      path: path of the recording.
      text: the transcript, or None.
      source: path of the list, or of the recording if it is not in a list.
      line: line number in the list, from 1; 0 for a recording that is not in a list.
      begin: where the utterance begins in the recording, in seconds.
      duration: how long it is, in seconds; None if it ends where the recording ends.
      variants: number of recordings of this row, of which this is the first; 0 for the others, which follow it.
    """

    name: str
    path: str
    text: str | None
    source: str
    line: int
    begin: float = 0.0
    duration: float | None = None
    variants: int = 1

    @property
    def place(self) -> str:
        """Location of the row for messages: the list and the line number."""
        return f"{shown(self.source)}:{self.line}" if self.line else shown(self.source)


def read_manifests(entries: Sequence[str], audio_root: str | None, needs_text: bool,
                   subfolders: Sequence[str] = ()) -> list[Utterance]:
    """Reads lists of recordings, and returns the rows of all lists in order.

    Args:
      entries: CSV files, JSON-lines files or LibriSpeech folders; if no transcripts are needed, also audio files and
        folders of audio files.
      audio_root: folder to which relative names refer; by default the folder of the list, or the working directory for
        recordings that exist only there.
      needs_text: whether rows need a transcript.
      subfolders: names that replace ``{}`` in the names of recordings. Such a row becomes one for each of them; see
        ``Utterance.variants``.

    Raises:
      DataError: a list is missing, empty, not UTF-8, not valid CSV or JSON, or lacks a column.
    """
    utterances: list[Utterance] = []
    for entry in entries:
        rows = list(_read(entry, audio_root, needs_text, subfolders))
        if not rows:
            raise DataError(f"The folder {shown(entry)} contains no recordings ({', '.join(AUDIO_SUFFIXES)}, or "
                            "another format of libsndfile)."
                            if os.path.isdir(entry) else f"{shown(entry)} lists no recordings.")
        utterances += rows
    return utterances


class CsvList:
    """A table of recordings, with tabs between columns if the first line contains tabs, otherwise commas.

    With commas, values can be in double quotes; with tabs, quotes have no special meaning.

    Args:
      path: UTF-8 file whose first line names the columns.
      audio_root: see ``read_manifests``.
      needs_text: whether there must be transcripts.
      subfolders: see ``read_manifests``.

    Attributes:
      header: names of the columns.

    Raises:
      DataError: the file cannot be read, or a necessary column is missing or occurs twice.
    """

    def __init__(self, path: str, audio_root: str | None, needs_text: bool, subfolders: Sequence[str] = ()) -> None:
        self._path, self._audio_root, self._subfolders = path, audio_root, subfolders
        lines = read_lines(path, "The list")
        first = next(lines, "")
        self._has_tabs = "\t" in first and FILE_COLUMN in map(str.strip, first.split("\t"))
        form: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if self._has_tabs else {}
        self._reader = csv.reader((line + "\n" for line in itertools.chain([first], lines)), **form)
        self._cells = self._split()
        self.header = [name.strip() for name in next(self._cells, [])]
        self._check_header([FILE_COLUMN, TEXT_COLUMN] if needs_text else [FILE_COLUMN])

    def _split(self) -> Iterator[list[str]]:
        try:
            yield from self._reader
        except csv.Error as error:
            raise DataError(f"{self._path}:{self._reader.line_num}: the line is not valid CSV ({error}): look for an "
                            "unclosed double quote.") from error

    def _check_header(self, needed: Sequence[str]) -> None:
        if missing := [name for name in needed if name not in self.header]:
            raise DataError(f"{self._path}:1: the header {','.join(self.header)[:80]!r} lacks {' and '.join(missing)}: "
                            "name the columns in the first line, separated by commas or tabs.")
        if twice := [name for name in needed if self.header.count(name) > 1]:
            raise DataError(f"{self._path}:1: the header has the column {twice[0]} more than once: remove or rename "
                            "the others.")

    def rows(self) -> Iterator[Utterance]:
        """Yields each recording.

        Raises:
          DataError: a row has another number of columns than the header, or a line is not UTF-8 or not valid CSV.
        """
        file_column = self.header.index(FILE_COLUMN)
        text_column = self.header.index(TEXT_COLUMN) if TEXT_COLUMN in self.header else None
        remedy = "put exactly one tab between columns" if self._has_tabs else (
            "put text with commas into double quotes, and a comma between columns")
        for row in self._cells:
            if not row:
                continue
            line = self._reader.line_num
            if len(row) != len(self.header):
                raise DataError(f"{self._path}:{line}: the row has {len(row)} columns, but the header has "
                                f"{len(self.header)}: {remedy}.")
            name = row[file_column].strip()
            text = None if text_column is None else row[text_column]
            for one, variants in _variants(name, self._subfolders):
                yield Utterance(shown(one), _located(one, self._path, self._audio_root), text, self._path, line,
                                variants=variants)


def _variants(name: str, subfolders: Sequence[str]) -> list[tuple[str, int]]:
    """Returns the names of a row's recordings, and ``Utterance.variants`` of each."""
    if "{}" not in name or not subfolders:
        return [(name, 1)]
    return [(name.replace("{}", folder), 0 if number else len(subfolders)) for number, folder in enumerate(subfolders)]


def _read(entry: str, audio_root: str | None, needs_text: bool, subfolders: Sequence[str]) -> Iterator[Utterance]:
    if os.path.isdir(entry):
        yield from _read_folder(entry, needs_text)
    elif entry.lower().removesuffix(".gz").endswith(_JSON_SUFFIXES):
        yield from _read_json(entry, audio_root, needs_text, subfolders)
    elif not needs_text and (entry.lower().endswith(AUDIO_SUFFIXES) or not _is_csv(entry)):
        yield Utterance(shown(entry), entry, None, entry, 0)
    else:
        yield from CsvList(entry, audio_root, needs_text, subfolders).rows()


def _is_csv(path: str) -> bool:
    """Returns whether a path is a CSV list, judged by its suffix or first line; True if there is no such file.

    The suffix alone does not suffice, because recordings can have any suffix.
    """
    if path.lower().removesuffix(".gz").endswith(".csv") or not os.path.isfile(path):
        return True
    with opened_text(path) as file:
        return FILE_COLUMN.encode() in file.readline(1000)


def _read_json(path: str, audio_root: str | None, needs_text: bool, subfolders: Sequence[str]) -> Iterator[Utterance]:
    for number, line in enumerate(read_lines(path, "The list"), 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError) as error:  # also raised for huge numbers and deep nesting
            raise DataError(f"{path}:{number}: the line is not valid JSON: {getattr(error, 'msg', error)}.") from error
        if not isinstance(row, dict) or not isinstance(row.get("audio_filepath"), str):
            raise DataError(f"{path}:{number}: the line must be a JSON object with the keys 'audio_filepath' and "
                            "'text'.")
        path_given, text = row["audio_filepath"], row.get("text")
        name = shown(path_given)
        begin, duration = (_seconds(row, key, f"{path}:{number}", name) for key in ("offset", "duration"))
        ending = f"@{begin:.10g}" if begin else ""
        if needs_text and not isinstance(text, (str, type(None))):
            raise DataError(f"{path}:{number}: 'text' of {name}{ending} must be a string, got {json.dumps(text)[:40]}.")
        for one, variants in _variants(path_given, subfolders):
            yield Utterance(shown(one) + ending, _located(one, path, audio_root),
                            text if isinstance(text, str) else None, path, number, begin, duration or None, variants)


def _seconds(row: dict[str, Any], key: str, place: str, name: str) -> float:
    """Returns a time of a row in seconds; 0 if it is missing.

    Raises:
      DataError: it is not a number, or negative.
    """
    value = row.get(key) or 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MOST_SECONDS:
        raise DataError(f"{place}: {key!r} of {name} must be a number of seconds of at least 0, got "
                        f"{json.dumps(value)[:40]}.")
    return float(value)


def _read_folder(folder: str, needs_text: bool) -> Iterator[Utterance]:
    """Yields the rows of a folder.

    A LibriSpeech folder has files ``*.trans.txt`` with lines ``id text`` beside the recordings ``id.flac``. In a folder
    without such files, all audio files are rows without a transcript, and the number of other files is printed.
    """
    files = sorted(files_below(folder))
    lists = [path for path in files if path.endswith(_TRANSCRIPTS)]
    if not lists and needs_text:
        raise DataError(f"The folder {shown(folder)} has no *{_TRANSCRIPTS} files: name a CSV file, or a folder in "
                        "the layout of LibriSpeech.")
    for path in lists:
        beside = {stem: suffix for stem, suffix in map(os.path.splitext, os.listdir(os.path.dirname(path)))
                  if suffix.lower() in AUDIO_SUFFIXES}
        for number, line in enumerate(read_lines(path, "The list"), 1):
            name, _, text = line.strip().partition(" ")
            if name:
                audio = os.path.join(os.path.dirname(path), name + beside.get(name, ".flac"))
                yield Utterance(shown(os.path.relpath(audio, folder)), audio, text.strip(), path, number)
    if not lists:
        for audio in recordings_of(folder, files):
            # The whole path, because several folders can have files of the same name.
            yield Utterance(shown(audio), audio, None, audio, 0)


def _located(name: str, manifest: str, audio_root: str | None) -> str:
    if os.path.isabs(name):
        return name
    path = os.path.join(audio_root if audio_root is not None else os.path.dirname(manifest), name)
    if audio_root is None and not os.path.exists(path) and os.path.exists(name):
        return name
    return path
