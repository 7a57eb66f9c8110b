"""Imports librosa in one process at a time.

The import compiles functions and caches them on disk. If several processes do this at the same time, such as ranks on a
new machine, the cached files may not match, and later calls end with a segmentation fault
(https://github.com/numba/numba/issues/10128).
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import tempfile
from types import ModuleType

from open_seq2seq.utils import disk


@functools.cache
def import_librosa() -> ModuleType:
    """Returns librosa after importing the modules of it that compile functions."""
    user = getattr(os, "getuid", getpass.getuser)()  # Windows has no numbers of users
    path = os.path.join(tempfile.gettempdir(), f"open_seq2seq_librosa_{user}.lock")
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # without a lock if the folder is read-only
            disk.lock(stack.enter_context(disk.open_lock(path, lambda file: not file.read(1))), wait=True)
        import librosa

        for name in ("effects", "pyin", "util"):  # whose modules are otherwise imported at their first use
            getattr(librosa, name)
    return librosa
