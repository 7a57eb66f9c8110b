"""Checksums at the end of cache files, so that damaged ones are not used but made again."""

from __future__ import annotations

import os
import stat
import zlib

from open_seq2seq.utils.own_files import without_links

_CHECK_BYTES = 4


def sealed(content: bytes) -> bytes:
    """Returns content followed by its CRC32, which readers of NumPy's and HDF5's files ignore."""
    return content + _check(content)


def unsealed(content: bytes) -> bytes | None:
    """Returns the sealed content, or None if it has changed."""
    inner, check = content[:-_CHECK_BYTES], content[-_CHECK_BYTES:]
    return inner if inner and check == _check(inner) else None


def read_sealed(path: str) -> bytes | None:
    """Returns the content of a sealed file, or None if it has changed, is a link, or is not a file.

    Raises:
      OSError: it is missing, or cannot be read.
    """
    with open(path, "rb", opener=without_links) as file:
        return unsealed(file.read()) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


def _check(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECK_BYTES, "little")
