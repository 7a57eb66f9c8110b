"""Fingerprints of data files: checksums of the whole content of small files, and of samples of large files."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WHOLE_BELOW = 16 << 20
_SAMPLES, _SAMPLE_BYTES = 64, 64 << 10
_FILES = 32  # maximum number of files sampled by digest_of_beginnings
_ROWS_AT_ONCE = 1 << 20

Identity = tuple[int, ...]


@dataclass(frozen=True)
class Fingerprint:
    """A fingerprint of a file's content.

    Attributes:
      path: the file.
      identity: size, mtime, ctime, inode and device of the file, at least one of which changes with the content.
      sha256: checksum of the whole content, or of the size and samples spread over the file.
      whole: whether the checksum covers the whole content.
    """

    path: str
    identity: Identity
    sha256: str
    whole: bool

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.identity[0]

    @property
    def mtime_ns(self) -> int:
        """Time of the last change to the content (mtime), in nanoseconds."""
        return self.identity[1]

    @property
    def is_current(self) -> bool:
        """Whether the file still has this content; reads the file only if its identity has changed."""
        return identity_of(self.path) == self.identity or (now := fingerprint(self.path)) is not None and (
            now.sha256 == self.sha256)


def identity_of(path: str) -> Identity | None:
    """Returns size, mtime, ctime, inode and device of a file; None if it is not a regular file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev) \
        if stat.S_ISREG(status.st_mode) else None


def fingerprint(path: str) -> Fingerprint | None:
    """Returns the fingerprint of a file; None if it is not a readable regular file."""
    identity = identity_of(path)
    if identity is None:
        return None
    size = identity[0]
    try:
        with open(path, "rb") as file:
            if size < WHOLE_BELOW:
                return Fingerprint(path, identity, hashlib.file_digest(file, "sha256").hexdigest(), True)
            digest = hashlib.sha256(str(size).encode())
            for place in np.linspace(0, size - _SAMPLE_BYTES, _SAMPLES, dtype=np.int64).tolist():
                file.seek(place)
                digest.update(file.read(_SAMPLE_BYTES))
    except OSError:
        return None
    return Fingerprint(path, identity, digest.hexdigest(), False)


def digest_of_beginnings(paths: Sequence[str]) -> str:
    """Returns a checksum of the beginnings of at most 32 of the files; missing files and devices count as empty."""
    digest = hashlib.sha256()
    for number in np.unique(np.linspace(0, len(paths) - 1, _FILES, dtype=np.int64)) if paths else ():
        path = paths[number]
        content = b""
        if identity_of(path) is not None:
            with open(path, "rb") as file:
                content = file.read(_SAMPLE_BYTES)
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def digest_of_array(array: np.ndarray) -> str:
    """Returns a checksum of an integer array that does not depend on its dtype; works in chunks to save memory."""
    digest = hashlib.sha256(repr(array.shape).encode())
    for begin in range(0, len(array), _ROWS_AT_ONCE):
        digest.update(np.ascontiguousarray(array[begin:begin + _ROWS_AT_ONCE], np.int64).data)
    return digest.hexdigest()
