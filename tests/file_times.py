"""Changes of files that leave their times of modification."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def keeping_mtime(path: Path | str) -> Iterator[None]:
    """Sets the atime and mtime of a file that is changed within to those before; only its ctime is later.

    Many kernels take the ctime from a clock that advances every few milliseconds, so this may wait for it.
    """
    before = os.stat(path)
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    while os.stat(path).st_ctime_ns == before.st_ctime_ns:
        time.sleep(0.001)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
