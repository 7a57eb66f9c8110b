"""Several processes joined by Horovod, with one replica each."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.horovod.reduction import Reduction
from open_seq2seq.runners.preflight import NETWORK_HINTS
from open_seq2seq.runners.runner import Gradients, Runner
from open_seq2seq.utils.console import mute, unmute
from open_seq2seq.utils.errors import UserError

# Default settings for ranks that compute on CPUs: the length of Horovod's cycle in milliseconds. In each cycle,
# Horovod's thread communicates with the other ranks, which takes time from the core that computes. Horovod's own
# default of 1 ms suits steps of a few milliseconds.
CPU_SETTINGS = {"HOROVOD_CYCLE_TIME": "5"}
# Further defaults for ranks that communicate by MPI. Tensors above the fusion threshold, in bytes, are sent without
# copies to and from a buffer; Gloo, which is faster with few large messages, does not get this setting. Processes that
# wait in MPI yield the processor.
MPI_SETTINGS = {"HOROVOD_FUSION_THRESHOLD": str(4 * 2**20), "OMPI_MCA_mpi_yield_when_idle": "1"}
_MISSING = object()  # fills the lists of ranks that have fewer results than others


class HorovodRunner(Runner):
    """The processes that mpiexec or horovodrun started; see ``Runner``.

    The constructor starts Horovod and limits this process to its share of the machine (a GPU, or part of the cores). It
    must be called before TensorFlow uses a device. Only rank 0 prints, but every rank prints its own errors.

    Args:
      hvd: the module ``horovod.tensorflow``.
      compression: dtype in which gradients are sent: ``fp16``, or None for FP32.

    Raises:
      UserError: Horovod could not join the ranks.
    """

    def __init__(self, hvd: Any, compression: str | None = None) -> None:
        self._hvd = hvd
        try:
            self._start()
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"Horovod could not join the ranks ({reason}): {NETWORK_HINTS}.") from error
        self._reduction = Reduction(hvd, compression)
        self.process_rank = self.replica_rank = hvd.rank()
        self.world_size = self.num_processes = hvd.size()
        self.local_rank, self.local_size = hvd.local_rank(), hvd.local_size()
        self.overlaps = self.world_size > 1
        self._threads = take_share(self.local_rank, self.local_size)
        unmute()
        if not self.is_chief:
            mute()
        self._hosts = hvd.allgather_object(socket.gethostname(), name="hosts")

    def _start(self) -> None:
        set_defaults()
        self._hvd.init()

    def describe(self) -> list[str]:
        hosts = sorted(set(self._hosts))
        ranks = "1 rank" if self.world_size == 1 else f"{self.world_size} ranks"
        where = f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts)} hosts ({', '.join(hosts)})"
        threads = f"; threads per operation: {self._threads} on each rank" if self._threads else ""
        bits = f"; gradients are sent in {self._reduction.compression}" if self._reduction.compression else ""
        return [f"Horovod: {ranks} on {where}{threads}{bits}"]

    def reduce(self, tensors: Gradients, name: str = "gradients", exact: bool = False) -> Gradients:
        return self._reduction(tensors, name, exact)

    def agree(self, condition: tf.Tensor) -> tf.Tensor:
        objections = self._hvd.allreduce(1.0 - tf.cast(condition, tf.float32), op=self._hvd.Sum, name="agree")
        return objections < 0.5

    def gather(self, results: list[Any]) -> list[Any]:
        ranks = self._hvd.allgather_object(results, name="gather")
        return [result for row in zip_longest(*ranks, fillvalue=_MISSING) for result in row if result is not _MISSING]

    def share(self, value: Any) -> Any:
        return self._hvd.broadcast_object(value if self.is_chief else None, root_rank=0, name="share")

    def broadcast(self, variables: Mapping[str, tf.Variable], root: int = 0) -> None:
        for name, variable in variables.items():
            variable.assign(self._hvd.broadcast(variable.read_value(), root_rank=root, name=f"broadcast.{name}"))


def set_defaults() -> None:
    """Sets environment variables to defaults for ranks that compute on CPUs; does nothing if there is a GPU.

    Call this before Horovod starts.
    """
    if tf.config.list_physical_devices("GPU"):
        return
    by_gloo = os.environ.get("HOROVOD_CONTROLLER") == "gloo"  # set by horovodrun --gloo
    for name, value in (CPU_SETTINGS if by_gloo else {**CPU_SETTINGS, **MPI_SETTINGS}).items():
        os.environ.setdefault(name, value)


def take_share(local_rank: int, local_size: int) -> int | None:
    """Limits this process to one of this host's GPUs and to its share of the cores.

    If the number of threads is already set, by ``TF_NUM_INTRAOP_THREADS``, by ``OMP_NUM_THREADS`` or from Python, it is
    not changed.

    Args:
      local_rank: rank of this process among the processes on its host.
      local_size: number of processes on the host.

    Returns:
      The number of threads per operation, or None if it was not changed.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[local_rank % len(gpus)], "GPU")
    threading = tf.config.threading
    is_set = any(name in os.environ for name in ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"))
    if is_set or threading.get_intra_op_parallelism_threads():
        return None
    cores, cores_allowed = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    # If the launcher has bound this rank to its share of the cores, they need not be divided again.
    threads = cores_allowed if cores_allowed <= cores // local_size else max(1, cores_allowed // local_size)
    threading.set_intra_op_parallelism_threads(threads)
    return threads
