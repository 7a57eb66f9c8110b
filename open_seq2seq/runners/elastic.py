"""Processes that are lost and that join while a job goes on: horovodrun's elastic mode."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.build import check_params, load_horovod
from open_seq2seq.runners.connections import Connections
from open_seq2seq.runners.failure import FAILED, Failure
from open_seq2seq.runners.horovod import HorovodRunner
from open_seq2seq.runners.runner import Runner
from open_seq2seq.runners.watchdog import end_here
from open_seq2seq.utils.errors import ConfigError, UserError

EXAMPLE = ("horovodrun --gloo -np 2 --min-np 1 --max-np 3 --host-discovery-script ./hosts.sh python run.py … "
           "--use_horovod=True --elastic")
# Horovod 0.28.1 crashes when it starts for the third time with one of them (ParameterManager fixes a value twice),
# and they have to be the same on newcomers.
UNUSABLE_SETTINGS = ("HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD")
# How long an error waits for the watchdog's word on whether another process is its cause.
_VERDICT_SECONDS = 10.0
_DOUBTFUL_SECONDS = 3.0
# How long processes that meet wait for one another where nothing else is said.
_START_SECONDS = 600
# What Horovod and Gloo say in errors that come from another process, whatever operation raises them.
_FROM_OTHERS = re.compile(r"Horovod has been shut down|gloo/(?:transport|rendezvous|common)|HorovodInternalError")
_DOUBTFUL = (tf.errors.UnknownError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError,
             tf.errors.UnavailableError, tf.errors.FailedPreconditionError)


class Regroup(Exception):
    """The processes that are there have to meet anew; the text says why."""


class RanksLost(Regroup):
    """A process has been lost: the state has to be put back to what was kept."""


class HostsChanged(Regroup):
    """Hosts were added or removed; raised by all processes after the same update, with their state kept."""


class Membership:
    """This process's part in an elastic job: who else is in it changes from one ``meet`` to the next.

    Args:
      hvd: the module ``horovod.tensorflow``.
      notifications: Horovod's notification manager, which hears of hosts from horovodrun.
      compression: how gradients travel.

    Attributes:
      changed: hosts were added or removed since the last meeting; known to the first process only.
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
        """Called by Horovod, in a thread of its own."""
        self.changed = True

    def on_failure(self, failure: Failure) -> None:
        """What the watchdog calls: an error of another process ends this one, a loss is gone on from.

        The main thread may be waiting for the lost process. Once Horovod's connections are cut, its
        operations fail instead, here and in the processes that wait for this one.
        """
        if failure.kind == FAILED:
            end_here(failure)
        self._failure = failure
        self._verdict.set()
        self._connections.cut()

    def meet(self) -> ElasticRunner:
        """Joins the processes that are there; waits until horovodrun has as many as it needs.

        Raises:
          RanksLost: one was lost meanwhile.
        """
        self.changed, self._failure = False, None
        self._verdict.clear()
        try:
            runner = ElasticRunner(self._hvd, self._compression, self, self._connections)
        except UserError as error:
            raise RanksLost(str(error)) from error
        # Horovod changes the C library's environment, which Python does not see.
        os.environ.update(HOROVOD_RANK=str(runner.process_rank), HOROVOD_SIZE=str(runner.world_size),
                          HOROVOD_LOCAL_SIZE=str(runner.local_size))
        return runner

    def part(self, lost: bool) -> None:
        """Leaves the processes met, so that all can meet anew.

        Args:
          lost: one of them was lost, so that another may wait for what this one was to send.
        """
        if lost:
            self._connections.cut()
        # After an orderly end nothing is to be cut: what is left then is Horovod's to use again.
        self._connections.forget()
        self._hvd.shutdown()

    def raise_if_lost(self) -> None:
        """Raises RanksLost where the watchdog has said so."""
        if self._failure is not None:
            raise RanksLost(self._words())

    def judge(self, error: Exception) -> Regroup | None:
        """Returns what an error means for the group; None for an error of this process's own.

        Errors are told by what is known of the others and by what the libraries say of connections, not by the
        name of the operation. Whatever has neither for a cause is this process's own: bad data, a bug, no memory.
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
            return "connections broke, though no process is known to be lost"
        return f"rank {self._failure.rank} on host {self._failure.host} was lost"


class ElasticRunner(HorovodRunner):
    """The processes of one meeting; a new one is made for the next.

    Args:
      hvd: the module ``horovod.tensorflow``, started.
      compression: how gradients travel.
      membership: knows whether one has been lost.
      connections: notes those that Horovod makes.
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


class _Several(Runner):
    """What the parameters have to be fit for, however many processes there are now."""

    num_processes = world_size = 2


def join(params: Mapping[str, Any], what: str) -> Membership:
    """Takes part in an elastic job; to be called before TensorFlow uses a device.

    Args:
      params: the model's.
      what: the run is to do: ``the mode train``, ``--check``.

    Raises:
      UserError: it was not started as one, or the run cannot be elastic.
    """
    if what not in ("the mode train", "the mode train_eval"):
        raise UserError(f"--elastic is for the modes train and train_eval, not for {what}: leave it out.")
    if not params.get("use_horovod"):
        raise UserError("--elastic joins processes by Horovod, but 'use_horovod' is False: add --use_horovod=True.")
    if os.environ.get("HOROVOD_ELASTIC") != "1":
        by = "mpiexec, which ends a job with any of its processes" if "OMPI_COMM_WORLD_SIZE" in os.environ else (
            "no elastic launcher")
        raise UserError(f"--elastic was given, but the process was started by {by}; start it like this: {EXAMPLE}.")
    if params.get("watchdog_seconds") is None:
        raise ConfigError(["'watchdog_seconds' is None, but --elastic needs the watchdog to learn who has been lost: "
                           "leave it out, or give a number of seconds."])
    check_params(params, _Several())
    hvd = load_horovod()
    if not hvd.gloo_built():
        raise UserError("--elastic needs Horovod with Gloo, which this one was built without: run make horovod.")
    # Newcomers that start slowly are waited for; whoever is lost is noticed by the watchdog, long before.
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(int(params.get("connect_seconds") or _START_SECONDS)))
    from horovod.common.elastic import notification_manager

    return Membership(hvd, notification_manager, params.get("hvd_compression"))
