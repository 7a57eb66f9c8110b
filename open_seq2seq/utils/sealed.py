"""Checksums at the end of cache files, so that damaged files are detected and written again."""

from __future__ import annotations

import os
import stat
import zlib

from open_seq2seq.utils.own_files import without_links

_CHECK_BYTES = 4


def sealed(content: bytes) -> bytes:
    """Returns the content followed by its CRC32, which readers of NumPy and HDF5 files ignore."""
    return content + zlib.crc32(content).to_bytes(_CHECK_BYTES, "little")


def read_sealed(path: str) -> bytes | None:
    """Returns the content of a sealed file, or None if its checksum does not match or it is not a regular file.

    Raises:
      OSError: the file is missing, is a symbolic link, or cannot be read.
    """
    with open(path, "rb", opener=without_links) as file:
        whole = file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    content = whole[:-_CHECK_BYTES]
    return content if content and sealed(content) == whole else None
