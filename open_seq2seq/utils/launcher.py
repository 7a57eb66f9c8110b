"""Processes started by a launcher such as ``mpirun``, or with ``TF_CONFIG``: their ranks, and how one of them ends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from open_seq2seq.utils.data_files import is_count
from open_seq2seq.utils.errors import UserError

# Environment variables for rank and number of processes: Open MPI, horovodrun --gloo, MPICH and its derivatives.
_VARIABLES = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("HOROVOD_RANK", "HOROVOD_SIZE"),
              ("PMI_RANK", "PMI_SIZE"))
_LOCAL_VARIABLES = (("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
                    ("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"), ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"))
_GRACE_SECONDS = 3.0  # time for the launcher or the watchdog to end this process after another one has failed
_FLUSH_SECONDS = 1.0  # maximum duration of writing to a stream before this process ends

# Function of (problem in words, exit code) that reports them to the other processes before this one ends.
Announcer = Callable[[str, int], None]
_announcer: Announcer | None = None

_EXAMPLE = '{"cluster": {"worker": ["host-a:12345", "host-b:12345"]}, "task": {"type": "worker", "index": 0}}'


def launched_as() -> tuple[int, int]:
    """Returns (rank, number of processes); (0, 1) for a process that no launcher started."""
    with contextlib.suppress(UserError):  # ``runners.build`` reports what is wrong with TF_CONFIG
        if (task := cluster_task()) is not None:
            return task.rank, len(task.hosts)
    return _first_pair(_VARIABLES)


def launched_here_as() -> tuple[int, int]:
    """Returns (rank among the processes on this host, their number); (0, 1) if no launcher has told them."""
    return _first_pair(_LOCAL_VARIABLES)


def _first_pair(variables: Sequence[tuple[str, str]]) -> tuple[int, int]:
    for names in variables:
        rank, size = (os.environ.get(name, "") for name in names)
        if is_count(rank) and is_count(size):
            return int(rank), int(size)
    return 0, 1


def is_alone() -> bool:
    """Returns whether no other process belongs to the run or can join it."""
    return launched_as()[1] == 1 and os.environ.get("HOROVOD_ELASTIC") != "1"


def who() -> str:
    """Returns `` (rank 1 on host a)`` if there are several processes, otherwise an empty string."""
    rank, size = launched_as()
    return f" (rank {rank} on host {socket.gethostname()})" if size > 1 else ""


def let_others_speak(after_collective: bool = False) -> None:
    """On ranks other than 0, waits a few seconds, during which the launcher or the watchdog may end this process.

    The watchdog (``runners.watchdog``) ends a process after the failure of another one. All ranks find the same
    mistake in a config: rank 0 reports it and exits, and the launcher ends the others before they report it again. When
    a rank has ended, collective operations fail on all other ranks; these failures need not be reported either. If this
    process still runs after the wait, its error has another cause and is reported.

    Args:
      after_collective: whether this rank's error may result from the end of another rank; if so, rank 0 waits too.
    """
    rank, size = launched_as()
    if size > 1 and (rank > 0 or after_collective):
        time.sleep(_GRACE_SECONDS)


def announce_by(announcer: Announcer | None) -> None:
    """Sets the function that reports a failure to the other processes; None if there is none."""
    global _announcer
    _announcer = announcer


def announce(problem: str, code: int) -> None:
    """Reports to the other processes that this one ends because of a problem, with a non-zero exit code."""
    if _announcer is not None:
        _announcer(problem, code)


def say(text: str) -> None:
    """Writes to stderr from any thread; gives up after a second, so that a full pipe cannot delay the process's end."""
    def write() -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    _within_limit(write)


def end_all(code: int) -> NoReturn:
    """Ends this process immediately, so that the launcher ends the others.

    A normal exit would wait for the other processes, which may be waiting for this one.
    """
    for stream in (sys.stdout, sys.stderr):
        _within_limit(stream.flush)
    os._exit(code)


def _within_limit(action: Callable[[], object]) -> None:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(_FLUSH_SECONDS)


class ClusterTask(NamedTuple):
    """One process of a cluster.

    Attributes:
      rank: rank of the process, from 0.
      hosts: addresses of all processes, in rank order.
      chiefs: number of tasks of the job ``chief``; their ranks are lower than those of the job ``worker``.
    """

    rank: int
    hosts: list[str]
    chiefs: int = 0

    def rank_of(self, job: str, index: int) -> int:
        """Returns the rank of the task with this index in the job, ``chief`` or ``worker``."""
        return index if job == "chief" else index + self.chiefs


def cluster_task() -> ClusterTask | None:
    """Returns this process's task in the cluster; None if ``TF_CONFIG`` names at most one process.

    Raises:
      UserError: ``TF_CONFIG`` is invalid, or gives this process a role that does not train.
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster = {str(job): [str(host) for host in hosts] for job, hosts in config.get("cluster", {}).items()}
        own = config.get("task", {})
        job, index = str(own.get("type", "worker")), int(own.get("index", 0))
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"TF_CONFIG in the environment is not valid. It must look like {_EXAMPLE}.") from error
    hosts = [*cluster.get("chief", []), *cluster.get("worker", [])]
    if len(hosts) < 2:
        return None
    if job not in ("chief", "worker") or not 0 <= index < len(cluster.get(job, [])):
        raise UserError(f"TF_CONFIG gives this process the task {job} {index}, but the chief and worker tasks of its "
                        f"cluster are only {', '.join(hosts)}. Parameter servers and evaluators are not supported.")
    task = ClusterTask(0, hosts, len(cluster.get("chief", [])))
    return task._replace(rank=task.rank_of(job, index))
