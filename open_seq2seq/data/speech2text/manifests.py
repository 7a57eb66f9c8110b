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
from open_seq2seq.data.tables import csv_rows
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


def _read_csv(path: str, audio_root: str | None, needs_text: bool, subfolders: Sequence[str]) -> Iterator[Utterance]:
    """Yields the rows of a table, with tabs between columns if the first line contains tabs, otherwise commas.

    With commas, values can be in double quotes; with tabs, quotes have no special meaning.
    """
    lines = read_lines(path, "The list")
    first = next(lines, "")
    has_tabs = "\t" in first and FILE_COLUMN in map(str.strip, first.split("\t"))
    form: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if has_tabs else {}
    rows = csv_rows(path, itertools.chain([first], lines), **form)
    remedy = "put exactly one tab between columns" if has_tabs else (
        "put text with commas into double quotes, and a comma between columns")
    header = [name.strip() for name in next(rows)[2]]
    _check_header(path, header, [FILE_COLUMN, TEXT_COLUMN] if needs_text else [FILE_COLUMN])
    for number, row in ((last, row) for _, last, row in rows if row):
        if len(row) != len(header):
            raise DataError(f"{path}:{number}: the row has {len(row)} columns, but the header has {len(header)}: "
                            f"{remedy}.")
        text = row[header.index(TEXT_COLUMN)] if TEXT_COLUMN in header else None
        for one, variants in _variants(row[header.index(FILE_COLUMN)].strip(), subfolders):
            yield Utterance(shown(one), _located(one, path, audio_root), text, path, number, variants=variants)


def _check_header(path: str, header: Sequence[str], needed: Sequence[str]) -> None:
    if missing := [name for name in needed if name not in header]:
        raise DataError(f"{path}:1: the header {','.join(header)[:80]!r} lacks {' and '.join(missing)}: name the "
                        "columns in the first line, separated by commas or tabs.")
    if twice := [name for name in needed if header.count(name) > 1]:
        raise DataError(f"{path}:1: the header has the column {twice[0]} more than once: remove or rename the others.")


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
        yield from _read_csv(entry, audio_root, needs_text, subfolders)


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
        # Half of a surrogate pair, where a text was cut, becomes "?".
        text = text.encode("utf-8", "replace").decode() if isinstance(text, str) else None
        for one, variants in _variants(path_given, subfolders):
            yield Utterance(shown(one) + ending, _located(one, path, audio_root),
                            text, path, number, begin, duration or None, variants)


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
