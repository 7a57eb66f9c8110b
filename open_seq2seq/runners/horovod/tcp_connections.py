"""Finds the TCP connections that a library opens, so that they can be shut down if the library waits forever."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

# Where the kernel lists this process's open files.
_FILES = Path("/proc/self/fd")


class Connections:
    """The TCP connections that were opened within the context ``noted``.

    ``cut`` shuts connections down for both ends but leaves the file descriptors to their owner, which sees that the
    connections have ended and reports an error itself. ``cut`` may be called from any thread.
    """

    def __init__(self) -> None:
        self._sockets: dict[int, int] = {}  # descriptor → inode: descriptors are reused, inodes are not

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Context manager that records the sockets opened within it, and forgets those recorded earlier."""
        before = set(_open_sockets().values())
        self.forget()
        try:
            yield
        finally:
            self._sockets = {number: inode for number, inode in _open_sockets().items() if inode not in before}

    def cut(self) -> None:
        """Shuts down the recorded connections that are still open, for both ends."""
        now = _open_sockets()
        for number, inode in self._sockets.items():
            if now.get(number) == inode:
                with contextlib.suppress(OSError):
                    _end(number)
        self.forget()

    def forget(self) -> None:
        """Forgets the connections without closing them."""
        self._sockets.clear()


def _end(number: int) -> None:
    """Shuts down a TCP connection; listening sockets stay open, because their owner may reuse them."""
    with socket.socket(fileno=os.dup(number)) as connection:
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
        if is_tcp and not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            connection.shutdown(socket.SHUT_RDWR)


def _open_sockets() -> dict[int, int]:
    """Returns the inodes of this process's sockets by file descriptor."""
    inodes = {}
    for name in os.listdir(_FILES):
        with contextlib.suppress(OSError):  # closed in the meantime
            status = os.stat(_FILES / name)
            if stat.S_ISSOCK(status.st_mode):
                inodes[int(name)] = status.st_ino
    return inodes
