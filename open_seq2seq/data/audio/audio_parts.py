"""Parts of audio files that libsndfile has to read one by one, or whose length it does not know or only estimates."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
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


_OGG_START = b"OggS\0\2"
"""The beginning of the first page of an Ogg stream."""
_OTHER_FORMATS = (b"RIFF", b"RF64", b"fLaC", b"FORM", b".snd", b"NIST", b"caff")
"""First bytes of common formats that are not MP3."""
_BLOCK = 1 << 20
_FIRST_FRAME = 1 << 12
"""Number of bytes in which the first frame of an MP3 is searched for."""
LAST_FRAME = 1500
"""Up to this many bytes after an MP3 stream are no other stream: a Xing header may leave out a frame of 1,441 bytes."""
_CLAIMED_SIZE = 1 << 50
"""The size that libsndfile sees if samples are counted, because it reads no more samples than it expects of a size."""
_ID3V1 = 128
"""Number of bytes at the end of a file in which libsndfile looks for a tag; it must be able to read them."""


@dataclass(frozen=True)
class Part:
    """A range of bytes of a file that libsndfile reads like a file of its own.

    Attributes:
      start: position of the first byte.
      end: position after the last byte.
      is_counted: whether the samples have to be counted, because no header gives their number.
      patch: position of bytes in the part that libsndfile would misunderstand, and bytes to read instead of them.
    """

    start: int
    end: int
    is_counted: bool = False
    patch: tuple[int, bytes] = (0, b"")

    @property
    def is_plain(self) -> bool:
        """Whether the bytes can be read as they are, without counting the samples."""
        return not self.is_counted and not self.patch[1]


class PartReader:
    """The bytes of a part, as the file object that ``soundfile`` reads.

    Args:
      file: the file.
      part: the part.
    """

    def __init__(self, file: BinaryIO, part: Part) -> None:
        self._file, self._part, self._place = file, part, 0
        self._size = _CLAIMED_SIZE if part.is_counted else part.end - part.start

    @property
    def bytes_left(self) -> int:
        """Number of bytes after those that were read."""
        return max(0, self._part.end - self._part.start - self._place)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Sets the position of the next byte to read, and returns it."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        """Returns the position of the next byte to read."""
        return self._place

    def read(self, count: int = -1) -> bytes:
        """Returns up to ``count`` of the next bytes."""
        if self._part.is_counted and self._place >= _CLAIMED_SIZE - _ID3V1:
            content = bytes(min(count, _CLAIMED_SIZE - self._place))
        else:
            self._file.seek(self._part.start + self._place)
            content = self._patched(self._file.read(self.bytes_left if count < 0 else min(count, self.bytes_left)))
        self._place += len(content)
        return content

    def _patched(self, content: bytes) -> bytes:
        place, new = self._part.patch
        first, last = max(place, self._place), min(place + len(new), self._place + len(content))
        if first >= last:
            return content
        return content[:first - self._place] + new[first - place:last - place] + content[last - self._place:]


def parts_of(file: BinaryIO, size: int, is_named_mp3: bool) -> list[Part]:
    """Returns the parts of a file, at least one.

    Files have several parts if Ogg or MP3 files were joined. The samples of MP3 streams without a Xing header are
    counted. Lengths of 0 in the header of a WAV file, which a program writes that does not know the length yet, are
    replaced.

    Args:
      file: the file.
      size: its size in bytes.
      is_named_mp3: whether it may be an MP3 that begins within a frame, because it was cut from another.
    """
    file.seek(0)
    head = file.read(48)
    if head[:4] == b"OggS":
        return _ogg_parts(file, size)
    if head[:3] == b"ID3" or _is_mp3_frame(head) or (is_named_mp3 and head[:4] not in _OTHER_FORMATS):
        return _mp3_parts(file, size)
    if head[:4] == b"RF64" and head[12:16] == b"ds64" and not any(head[28:36]):
        return [Part(0, size, patch=(0, b"RIFF"))]
    samples = data_chunk(file)
    if samples is not None and samples[1] == 0 and behind_chunks(file, samples[0], size) == samples[0] < size:
        return [Part(0, size, patch=(samples[0] - 4, b"\xff\xff\xff\xff"))]
    return [Part(0, size)]


def flac_to_count(file: BinaryIO, size: int) -> Part | None:
    """Returns a FLAC file as a part without a declared length, so that all of its samples are read; None for others."""
    file.seek(0)
    head = file.read(26)
    if head[:4] != b"fLaC" or len(head) < 26:
        return None
    return Part(0, size, True, (21, bytes([head[21] & 0xF0, 0, 0, 0, 0])))


def _ogg_parts(file: BinaryIO, size: int) -> list[Part]:
    starts, place, page_end = [0], 0, 0
    while place < size:
        file.seek(place)
        block = file.read(_BLOCK)
        if (offset := block.find(_OGG_START)) < 0:
            place += max(1, len(block) - len(_OGG_START) + 1)
            continue
        place += offset
        if place != page_end:  # otherwise, the page begins another stream of the same part
            starts.append(place)
        file.seek(place + 26)
        count, *lengths = file.read(256) or b"\0"
        page_end = place = place + 27 + count + sum(lengths[:count])
    return [Part(*ends) for ends in zip(starts, [*starts[1:], size], strict=True)]


def _mp3_parts(file: BinaryIO, size: int) -> list[Part]:
    parts: list[Part] = []
    start = 0
    while True:
        place = _behind_tags(file, start)
        file.seek(place)
        length = _xing_length(file.read(64))
        if length is None:
            file.seek(place)
            head = file.read(_FIRST_FRAME)
            if head[:4] == b"fLaC":  # may follow a tag of MP3 files
                return [Part(0, size)]
            first = next((place for place in range(len(head)) if _is_mp3_frame(head[place:place + 4])), 0)
            return [*parts, Part(place + first, size, is_counted=True)]
        after = _behind_tags(file, place + length)
        file.seek(after)
        if size - after <= LAST_FRAME or not _is_mp3_frame(file.read(4)):
            return [*parts, Part(start, size)]
        parts.append(Part(start, place + length))
        start = after


def _is_mp3_frame(head: bytes) -> bool:
    return len(head) > 3 and head[0] == 0xFF and head[1] >= 0xE0 and head[1] & 6 != 0 and head[2] < 0xF0


def _xing_length(frame: bytes) -> int | None:
    """Returns the number of bytes of an MP3 stream from its first frame on; None if no Xing header gives its length."""
    place = max(frame.find(b"Xing"), frame.find(b"Info"))
    if not _is_mp3_frame(frame) or place < 0 or len(frame) < place + 16 or frame[place + 7] & 3 != 3:
        return None
    frames, length = (int.from_bytes(frame[place + first:place + first + 4], "big") for first in (8, 12))
    return length if frames and length else None


def _behind_tags(file: BinaryIO, place: int) -> int:
    """Skips ID3 and APE tags from ``place`` on; returns the position after the last one."""
    while True:
        file.seek(place)
        head = file.read(16)
        if head[:3] == b"ID3" and len(head) >= 10:
            lengths = head[6:10]
            place += 10 + sum((byte & 0x7F) << shift for byte, shift in zip(lengths, (21, 14, 7, 0), strict=True))
            place += 10 if head[5] & 0x10 else 0
        elif head[:3] == b"TAG":
            place += _ID3V1
        elif head[:8] == b"APETAGEX" and len(head) == 16:
            place += 32 + int.from_bytes(head[12:16], "little")
        else:
            return place
