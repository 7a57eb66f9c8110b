"""The TCP connections that a library makes, so that they can be cut when it would wait on them in vain."""

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
    """TCP connections that were made within a context.

    Cutting one closes the connection for both ends, but leaves the file number to its owner, who sees an
    orderly end and fails in its own way: safe from any thread.
    """

    def __init__(self) -> None:
        self._sockets: dict[int, int] = {}  # file number → inode: numbers are given anew, inodes tell who it is

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Context whose new sockets are noted, instead of those of an earlier one."""
        before = set(_open_sockets().values())
        self.forget()
        try:
            yield
        finally:
            self._sockets = {number: inode for number, inode in _open_sockets().items() if inode not in before}

    def cut(self) -> None:
        """Ends the connections that still are; they end at the other side, too."""
        now = _open_sockets()
        for number, inode in self._sockets.items():
            if now.get(number) == inode:
                with contextlib.suppress(OSError):
                    _end(number)
        self.forget()

    def forget(self) -> None:
        """Leaves the connections to themselves."""
        self._sockets.clear()


def _end(number: int) -> None:
    """Ends a TCP connection; sockets that listen stay, as their owner may go on using them."""
    with socket.socket(fileno=os.dup(number)) as connection:
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
        if is_tcp and not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            connection.shutdown(socket.SHUT_RDWR)


def _open_sockets() -> dict[int, int]:
    """Returns the inodes of this process's sockets by file number."""
    found = {}
    for name in os.listdir(_FILES):
        with contextlib.suppress(OSError):  # closed by now
            status = os.stat(_FILES / name)
            if stat.S_ISSOCK(status.st_mode):
                found[int(name)] = status.st_ino
    return found
