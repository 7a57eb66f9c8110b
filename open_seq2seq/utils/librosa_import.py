"""Imports librosa in one process at a time.

The import compiles functions and stores them for later processes. If several processes do so at once, as ranks on a new
machine, the stored files may not fit together, and later calls end with a segmentation fault
(https://github.com/numba/numba/issues/10128).
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from types import ModuleType

from open_seq2seq.utils import disk


@functools.cache
def import_librosa() -> ModuleType:
    """Returns librosa after importing the modules of it that compile functions."""
    path = os.path.join(tempfile.gettempdir(), f"open_seq2seq_librosa_{os.getuid()}.lock")
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # without a lock if the folder is read-only
            disk.lock(stack.enter_context(disk.open_lock(path, lambda content: not content)), wait=True)
        import librosa

        for name in ("effects", "pyin", "util"):  # whose modules are otherwise imported at their first use
            getattr(librosa, name)
    return librosa
