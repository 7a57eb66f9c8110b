"""What mpiexec or horovodrun tells a process that it started, before any library is asked."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import NoReturn

# (rank, number of processes), as Open MPI, horovodrun --gloo, and MPICH and its kin name them.
_VARIABLES = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("HOROVOD_RANK", "HOROVOD_SIZE"),
              ("PMI_RANK", "PMI_SIZE"))
_GRACE_SECONDS = 3.0


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def launched_as() -> tuple[int, int]:
    """Returns (rank, number of processes); (0, 1) for a process that no launcher started."""
    for rank_name, size_name in _VARIABLES:
        rank, size = _number(rank_name), _number(size_name)
        if rank is not None and size is not None:
            return rank, size
    return 0, 1


def who() -> str:
    """Returns `` (rank 1 on host a)`` where there are several processes, else nothing."""
    rank, size = launched_as()
    return f" (rank {rank} on host {socket.gethostname()})" if size > 1 else ""


def let_first_rank_speak() -> None:
    """Waits, on all ranks but the first, for the end of the job that the first one's failure brings.

    A mistake in the config is found by all ranks alike: the first says so and ends, upon which the launcher
    ends the others, before they repeat it. Whoever is still there afterwards has something of its own to say.
    """
    if launched_as()[0] > 0:
        time.sleep(_GRACE_SECONDS)


def end_all(code: int) -> NoReturn:
    """Ends this process at once, as one of several, with a non-zero status: the launcher then ends the others.

    An orderly end would wait for them, and they may be waiting for this one.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
