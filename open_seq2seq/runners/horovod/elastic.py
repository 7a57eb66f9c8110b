"""Elastic jobs of horovodrun, which continue when processes are lost or join."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.build import check_params, load_horovod
from open_seq2seq.runners.horovod.runner import HorovodRunner
from open_seq2seq.runners.runner import Runner
from open_seq2seq.runners.watchdog import FAILED, Failure, end_here
from open_seq2seq.utils.errors import ConfigError, UserError

EXAMPLE = ("horovodrun --gloo -np 2 --min-np 1 --max-np 3 --host-discovery-script ./hosts.sh python run.py … "
           "--use_horovod=True --elastic")
# If one of these environment variables is set, Horovod 0.28.1 crashes when it starts for the third time, because its
# ParameterManager fixes a value that is already fixed. Processes that join later would also need the same values.
UNUSABLE_SETTINGS = ("HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD")
# How long to wait for the watchdog to report a lost process, in seconds: after an error that another process has
# caused (see _FROM_OTHERS), and after one that it may have caused (see _DOUBTFUL).
_VERDICT_SECONDS = 10.0
_DOUBTFUL_SECONDS = 3.0
# How long processes wait for one another by default when they join, in seconds.
_START_SECONDS = 600
# Found in the messages of errors that another process has caused, whichever operation of Horovod or Gloo failed.
_FROM_OTHERS = re.compile(r"Horovod has been shut down|gloo/(?:transport|rendezvous|common)|HorovodInternalError")
# Errors that either another process or this one may have caused.
_DOUBTFUL = (tf.errors.UnknownError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError,
             tf.errors.UnavailableError, tf.errors.FailedPreconditionError)
# Where the kernel lists this process's open files.
_FILES = Path("/proc/self/fd")


class Regroup(Exception):
    """Raised when the remaining processes have to form a new group; the message says why."""


class RanksLost(Regroup):
    """Raised when a process was lost; the state has to be restored from the last copy in memory."""


class HostsChanged(Regroup):
    """Raised when hosts were added or removed: by all processes after the same update, whose state is in memory."""


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


class Membership:
    """This process's membership in an elastic job; the group of processes may change with each ``meet``.

    Args:
      hvd: the module ``horovod.tensorflow``.
      notifications: Horovod's notification manager, to which horovodrun reports changed hosts.
      compression: dtype in which gradients are sent; see ``HorovodRunner``.

    Attributes:
      changed: whether hosts were added or removed since the last ``meet``; always False on ranks other than 0, which
        are not notified.
    """

    def __init__(self, hvd: Any, notifications: Any, compression: str | None = None) -> None:
        self._hvd, self._compression = hvd, compression
        self._connections = Connections()
        self._failure: Failure | None = None
        self._verdict = threading.Event()
        self.changed = False
        notifications.init()
        notifications.register_listener(self)

    def on_hosts_updated(self, timestamp: float, result: Any) -> None:
        """Records that hosts changed; called by Horovod in its own thread."""
        self.changed = True

    def on_failure(self, failure: Failure) -> None:
        """Handles the failure of another process; called by the watchdog.

        If the other process reported an error, this process ends. If the other process was lost, the job continues: the
        main thread may be waiting for the lost process, so Horovod's connections are shut down. Horovod's operations
        then fail in this process and in the processes that wait for it.
        """
        if failure.kind == FAILED:
            end_here(failure)
        self._failure = failure
        self._verdict.set()
        self._connections.cut()

    def meet(self) -> ElasticRunner:
        """Waits until horovodrun has enough processes, joins them, and returns the runner of this group.

        Raises:
          RanksLost: a process was lost in the meantime.
        """
        self.changed, self._failure = False, None
        self._verdict.clear()
        try:
            runner = ElasticRunner(self._hvd, self._compression, self, self._connections)
        except UserError as error:
            raise RanksLost(str(error)) from error
        # Horovod changes the environment of the C library, but not os.environ.
        os.environ.update(HOROVOD_RANK=str(runner.process_rank), HOROVOD_SIZE=str(runner.world_size),
                          HOROVOD_LOCAL_SIZE=str(runner.local_size))
        return runner

    def part(self, lost: bool) -> None:
        """Leaves the group, so that a new one can be formed.

        Args:
          lost: whether a process was lost; others may then be waiting for data from this process.
        """
        if lost:
            self._connections.cut()
        # Without a loss, the connections stay open, because Horovod may reuse them. They are only forgotten here.
        self._connections.forget()
        self._hvd.shutdown()

    def raise_if_lost(self) -> None:
        """Raises RanksLost if the watchdog has reported a lost process."""
        if self._failure is not None:
            raise RanksLost(self._words())

    def judge(self, error: Exception) -> Regroup | None:
        """Returns the reason for which an error requires a new group, as an exception.

        Returns None if this process caused the error itself (bad data, a bug, too little memory).

        After an error that another process may have caused, waits some seconds for the watchdog's report. The decision
        is based on this report and on the libraries' messages about connections, not on the name of the operation that
        failed.
        """
        if isinstance(error, Regroup):
            return error
        internal = type(error).__name__ == "HorovodInternalError"
        if internal or _FROM_OTHERS.search(str(error)):
            self._verdict.wait(_VERDICT_SECONDS)
            return RanksLost(self._words())
        if isinstance(error, _DOUBTFUL) and self._verdict.wait(_DOUBTFUL_SECONDS):
            return RanksLost(self._words())
        return None

    def _words(self) -> str:
        if self._failure is None:
            return "connections broke, but no process is known to be lost"
        return f"rank {self._failure.rank} on host {self._failure.host} was lost"


class ElasticRunner(HorovodRunner):
    """The runner of one group of processes; each ``meet`` makes a new runner.

    Args:
      hvd: the module ``horovod.tensorflow``, which the constructor initialises.
      compression: dtype in which gradients are sent.
      membership: this process's membership in the job, which ``check_ranks`` asks whether a process was lost.
      connections: records the connections that Horovod opens.

    Raises:
      UserError: Horovod could not join the ranks.
    """

    def __init__(self, hvd: Any, compression: str | None, membership: Membership, connections: Connections) -> None:
        self._membership, self._connections = membership, connections
        super().__init__(hvd, compression)

    def _start(self) -> None:
        for name in UNUSABLE_SETTINGS:
            os.environ.pop(name, None)
        with self._connections.noted():
            self._hvd.init()

    def check_ranks(self) -> None:
        self._membership.raise_if_lost()


class _SeveralProcesses(Runner):
    """Stands for a runner with several processes when the parameters are checked, before Horovod starts."""

    num_processes = world_size = 2


def join(params: Mapping[str, Any], what: str) -> Membership:
    """Makes this process a member of an elastic job; ``Membership.meet`` then connects it to the other processes.

    Call this before TensorFlow uses a device.

    Args:
      params: the model's parameters.
      what: what the run does, for messages, such as ``the mode train`` or ``--check``.

    Raises:
      UserError: the process was not started by an elastic launcher, the run cannot be elastic, or Horovod is missing or
        was built without Gloo.
      ConfigError: a parameter does not work with an elastic job.
    """
    if what not in ("the mode train", "the mode train_eval"):
        raise UserError(f"--elastic works only with the modes train and train_eval, not with {what}: leave --elastic "
                        "out.")
    if not params.get("use_horovod"):
        raise UserError("--elastic needs Horovod, but 'use_horovod' is False: add --use_horovod=True.")
    if os.environ.get("HOROVOD_ELASTIC") != "1":
        by = "by mpiexec, which ends a job when any process ends" if "OMPI_COMM_WORLD_SIZE" in os.environ else (
            "without an elastic launcher")
        raise UserError(f"--elastic was given, but the process was started {by}. Start it like this: {EXAMPLE}.")
    if params.get("watchdog_seconds") is None:
        raise ConfigError(["'watchdog_seconds' is None, but --elastic needs the watchdog to detect lost processes: "
                           "leave watchdog_seconds out, or set it to a number of seconds."])
    check_params(params, _SeveralProcesses())
    hvd = load_horovod()
    if not hvd.gloo_built():
        raise UserError("--elastic needs Horovod with Gloo, but this Horovod was built without it: run make horovod.")
    # Long enough for processes that start slowly; the watchdog detects lost processes much earlier.
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(int(params.get("connect_seconds") or _START_SECONDS)))
    from horovod.common.elastic import notification_manager

    return Membership(hvd, notification_manager, params.get("hvd_compression"))


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
