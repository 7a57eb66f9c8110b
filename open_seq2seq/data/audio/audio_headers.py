"""Detects audio files with fewer or more samples than their headers declare.

libsndfile reads what is there: it mentions missing bytes only in its log, which is too short for files with long texts
before their samples, and skips what follows the declared samples of a WAV file. A count of the samples cannot replace
this, because chunks of metadata may follow them.
"""

from __future__ import annotations

import os
import re
from typing import BinaryIO

Mismatch = tuple[str, str]
"""The arguments of ``AudioError``: the problem in a few words, and as the predicate of a sentence about the file."""

# Declared lengths of at least this many bytes are treated as unknown: programs that write the header before they know
# the length declare a length near 2 GiB or 4 GiB.
_UNKNOWN_BYTES = 0x7F000000
# Up to this many unexpected bytes after the samples are accepted: they may be tags, or the padding of a disk sector.
_UNNOTICED_BYTES = 1024
_LOOKED_AT = 1 << 20
# Lines in libsndfile's log about lengths that exceed the size of an AIFF, AU, W64 or RF64 file.
_SHOULD_BE = re.compile(r"^\s*(?:SSND|Data Size|riff|Riff size)\s*:\s*(\d+) \(should be (\d+)\)", re.MULTILINE)


def header_mismatch(file: BinaryIO, size: int) -> Mismatch | None:
    """Returns the mismatch between the header and the size of a RIFF WAV file, or None.

    None means that they match, that the header declares no length, or that the file has another format.

    Args:
      file: the file.
      size: size of the file in bytes.
    """
    if (chunk := data_chunk(file)) is None or not 0 < chunk[1] < _UNKNOWN_BYTES:
        return None
    end = sum(chunk)
    if end > size:
        return "truncated", f"is truncated: {end - size:,} bytes of its samples are missing"
    # Chunks of odd length should be padded by one byte, but some programs do not pad them: try both positions.
    place = max(behind_chunks(file, first, size) for first in {end, end + end % 2})
    file.seek(place)
    if size - place <= _UNNOTICED_BYTES or not any(file.read(_LOOKED_AT)):
        return None
    return "more than its header says", (f"has {size - place:,} unexpected bytes after the samples that its header "
                                         "declares: the header is wrong, or the file is damaged")


def data_chunk(file: BinaryIO) -> tuple[int, int] | None:
    """Returns the position of a RIFF WAV file's samples and their declared length in bytes; None for other files."""
    file.seek(0)
    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    while len(chunk := file.read(8)) == 8:
        length = int.from_bytes(chunk[4:], "little")
        if chunk[:4] == b"data":
            return file.tell(), length
        file.seek(length + length % 2, os.SEEK_CUR)
    return None


def behind_chunks(file: BinaryIO, place: int, size: int) -> int:
    """Skips the RIFF chunks from ``place`` on; returns the position after the last one, at most ``size``."""
    while place + 8 <= size:
        file.seek(place)
        chunk = file.read(8)
        length = int.from_bytes(chunk[4:], "little")
        if not all(32 <= byte < 127 for byte in chunk[:4]) or place + 8 + length > size:
            break
        place += 8 + length + length % 2
    return min(place, size)


def log_mismatch(log: str) -> Mismatch | None:
    """Returns the mismatch if libsndfile's log says that the file is shorter than its header declares, or None."""
    for promised, there in _SHOULD_BE.findall(log):
        if int(there) < int(promised) < _UNKNOWN_BYTES:
            return "truncated", f"is truncated: it has {int(there):,} of {int(promised):,} bytes"
    return None
