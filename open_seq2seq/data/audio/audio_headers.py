"""Detects audio files with fewer or more samples than their headers declare, which libsndfile does not report."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

Mismatch = tuple[str, str]
"""The arguments of ``AudioError``: the problem in a few words, and as the predicate of a sentence about the file."""

# Declared lengths of at least this many bytes are treated as unknown: programs that write the header before they know
# the length declare a length near 2 GiB or 4 GiB.
_UNKNOWN_BYTES = 0x7FFF0000
# Up to this many unexpected bytes after the samples are accepted: they may be tags, or the padding of a disk sector.
_UNNOTICED_BYTES = 1024
_LOOKED_AT = 1 << 20
# Lines in libsndfile's log about lengths that exceed the size of an AIFF, AU, W64 or RF64 file.
_SHOULD_BE = re.compile(r"^\s*(?:SSND|Data Size|riff|Riff size)\s*:\s*(\d+) \(should be (\d+)\)", re.MULTILINE)
_FLAC_TAIL = 1 << 16


def header_mismatch(file: BinaryIO, size: int) -> Mismatch | None:
    """Returns the mismatch between the header and the size of a RIFF WAV file, or None.

    None means that they match, that the header declares no length, or that the file has another format.

    Args:
      file: the file, at position 0.
      size: size of the file in bytes.
    """
    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    while len(chunk := file.read(8)) == 8:
        length = int.from_bytes(chunk[4:], "little")
        end = file.tell() + length
        if chunk[:4] == b"data":
            if not 0 < length < _UNKNOWN_BYTES:
                return None
            if end > size:
                return "truncated", f"is truncated: {end - size:,} bytes of its samples are missing"
            return _more_than_said(file, end, size)
        file.seek(end + length % 2)
    return None


def _more_than_said(file: BinaryIO, end: int, size: int) -> Mismatch | None:
    # Chunks of odd length should be padded by one byte, but some programs do not pad them: try both positions.
    place = max(_behind_chunks(file, first, size) for first in {end, end + end % 2})
    file.seek(place)
    if size - place <= _UNNOTICED_BYTES or not any(file.read(_LOOKED_AT)):
        return None
    return "more than its header says", (f"has {size - place:,} unexpected bytes after the samples that its header "
                                         "declares: the header is wrong, or the file is damaged")


def _behind_chunks(file: BinaryIO, place: int, size: int) -> int:
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


def flac_mismatch(file: BinaryIO, samples: int) -> Mismatch | None:
    """Returns the mismatch of a FLAC file with more samples than its header declares; None for all other files.

    Args:
      file: the file, at any position.
      samples: number of samples per channel that the header declares.
    """
    file.seek(0)
    head = file.read(26)
    if head[:4] != b"fLaC":
        return None
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _FLAC_TAIL))
    tail = file.read()
    tail = tail[:-128] if tail[-128:-125] == b"TAG" else tail
    place = len(tail)
    while (place := tail.rfind(b"\xff", 0, place)) >= 0:
        end = _end_of_frame(tail[place:place + 16], int.from_bytes(head[10:12], "big"))
        if end is not None and end <= samples:
            return None
        if end is not None and _crc(tail[place:], 16, 0x8005) == 0:
            return "more than its header says", f"has {end:,} samples, but its header declares {samples:,}"
    return None


def _end_of_frame(head: bytes, block: int) -> int | None:
    """Returns the number of samples from the start of a FLAC file to the end of one of its frames.

    Args:
      head: the first 16 bytes of the supposed frame.
      block: number of samples in each frame, for files with frames of equal size.

    Returns:
      The number of samples per channel, or None if the bytes are not the header of a frame.
    """
    if len(head) < 16 or head[1] & 0xFE != 0xF8 or head[3] & 1:
        return None
    size_code, more = head[2] >> 4, {12: 1, 13: 2, 14: 2}.get(head[2] & 15, 0)
    # The frame or sample number is coded as in UTF-8: the leading ones of its first byte give its length in bytes
    # (none: one byte).
    ones = 8 - (head[4] ^ 0xFF).bit_length()
    if not size_code or head[2] & 15 == 15 or ones in (1, 8):
        return None
    number, place = head[4] & (0x7F >> ones), 5
    for byte in head[5:4 + max(1, ones)]:
        number, place = number << 6 | byte & 0x3F, place + 1
    extra = {6: 1, 7: 2}.get(size_code, 0)
    count = int.from_bytes(head[place:place + extra], "big") + 1
    if not extra:
        count = 192 if size_code == 1 else 576 << size_code - 2 if size_code < 6 else 256 << size_code - 8
    if _crc(head[:place + extra + more + 1], 8, 0x07):
        return None
    return (number if head[1] & 1 else number * block) + count


def _crc(content: bytes, bits: int, polynomial: int) -> int:
    """Returns the CRC of the content, as FLAC computes it: 0 if the content ends with its correct CRC."""
    top, mask, value = 1 << bits - 1, (1 << bits) - 1, 0
    for byte in content:
        value ^= byte << bits - 8
        for _ in range(8):
            value = (value << 1 ^ polynomial if value & top else value << 1) & mask
    return value
