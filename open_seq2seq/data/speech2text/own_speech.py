"""Prepares a user's own recordings: leaves out what cannot be used, and splits the others."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from open_seq2seq.data.audio.audio_files import AudioError, is_silent, read_audio, read_info
from open_seq2seq.data.folders import name_from
from open_seq2seq.data.kept import Kept
from open_seq2seq.data.speech2text.manifests import FILE_COLUMN
from open_seq2seq.data.speech2text.own_recordings import Recording, Span
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.progress import format_count, tracked

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
    results = []
    for number, recording in recordings:
        span = _shortened(recording.span, len(audio) / rate)
        part = _part(audio, rate, span)
        kind, problem = ("outside", "is outside of its file") if not len(part) else (
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
    import soundfile

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
        content = io.BytesIO()  # in memory, because libsndfile prints a traceback if the disk is full
        soundfile.write(content, _part(audio, rate, row.span), rate, "PCM_16", format="FLAC")
        disk.write_new(os.path.join(folder, name), content.getvalue())
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
