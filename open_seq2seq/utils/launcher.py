"""What mpiexec or horovodrun tells a process that it started, and how one of several processes ends."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.tf_config import cluster_task

# (rank, number of processes), as Open MPI, horovodrun --gloo, and MPICH and its kin name them.
_VARIABLES = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("HOROVOD_RANK", "HOROVOD_SIZE"),
              ("PMI_RANK", "PMI_SIZE"))
_GRACE_SECONDS = 3.0
_FLUSH_SECONDS = 1.0

# (what went wrong in a sentence, exit code): tells the other processes, before this one ends.
Announcer = Callable[[str, int], None]
_announcers: list[Announcer] = []


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def launched_as() -> tuple[int, int]:
    """Returns (rank, number of processes); (0, 1) for a process that no launcher started."""
    with contextlib.suppress(UserError):  # whoever uses TF_CONFIG says what is wrong with it
        if (task := cluster_task()) is not None:
            return task.rank, len(task.hosts)
    for rank_name, size_name in _VARIABLES:
        rank, size = _number(rank_name), _number(size_name)
        if rank is not None and size is not None:
            return rank, size
    return 0, 1


def is_alone() -> bool:
    """Whether no other process belongs to the run, nor can join it."""
    return launched_as()[1] == 1 and os.environ.get("HOROVOD_ELASTIC") != "1"


def who() -> str:
    """Returns `` (rank 1 on host a)`` where there are several processes, else nothing."""
    rank, size = launched_as()
    return f" (rank {rank} on host {socket.gethostname()})" if size > 1 else ""


def let_others_speak(after_collective: bool = False) -> None:
    """Waits for the end that the failure of another rank brings to this one.

    A mistake in the config is found by all ranks alike: the first says so and ends, upon which the
    others are ended before they repeat it. And when one rank is gone, collective operations fail on all
    others. Whoever is still there after some seconds has something of its own to say.

    Args:
      after_collective: this rank's error can be such a consequence, so that the first rank waits too.
    """
    rank, size = launched_as()
    if size > 1 and (rank > 0 or after_collective):
        time.sleep(_GRACE_SECONDS)


def announce_by(announcer: Announcer) -> Callable[[], None]:
    """Registers how the other processes are told of a failure of this one; returns what takes it back."""
    _announcers.append(announcer)

    def forget() -> None:
        if announcer in _announcers:
            _announcers.remove(announcer)

    return forget


def announce(problem: str, code: int) -> None:
    """Tells the other processes why this one ends, with a non-zero exit code."""
    for announcer in list(_announcers):
        announcer(problem, code)


def say(text: str) -> None:
    """Writes to stderr from any thread; gives up where nobody reads, so that a full pipe holds up no end."""
    def write() -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    _within_limit(write)


def end_all(code: int) -> NoReturn:
    """Ends this process at once, as one of several, with a non-zero status: the launcher then ends the others.

    An orderly end would wait for them, and they may be waiting for this one.
    """
    for stream in (sys.stdout, sys.stderr):
        _within_limit(stream.flush)
    os._exit(code)


def _within_limit(action: Callable[[], object]) -> None:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(_FLUSH_SECONDS)
