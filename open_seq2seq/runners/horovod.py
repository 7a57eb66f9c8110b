"""Several processes, joined by Horovod: one replica each."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.preflight import NETWORK_HINTS
from open_seq2seq.runners.reduction import Reduction
from open_seq2seq.runners.runner import Gradients, Runner
from open_seq2seq.utils.console import mute, unmute
from open_seq2seq.utils.errors import UserError

# Horovod's and Open MPI's settings for ranks that compute on CPUs, where nobody has set them. Horovod's thread wakes
# at each cycle and meets those of the other ranks, which takes time from the core that computes; a cycle of 1 ms is
# made for steps of some ms.
CPU_SETTINGS = {"HOROVOD_CYCLE_TIME": "5"}
# Tensors above the threshold go without being copied to a buffer and back; Gloo is quicker with few large ones. Who
# waits in MPI lets others compute.
MPI_SETTINGS = {"HOROVOD_FUSION_THRESHOLD": str(4 * 2**20), "OMPI_MCA_mpi_yield_when_idle": "1"}
_MISSING = object()


class HorovodRunner(Runner):
    """The processes that mpiexec or horovodrun started; see ``Runner``.

    Making one starts Horovod, takes this process's share of the machine (its GPU, or its part of the
    cores), and silences all processes but the first; errors still appear. It has to be made
    before TensorFlow uses a device.

    Args:
      hvd: the module ``horovod.tensorflow``.
      compression: how gradients travel: ``fp16``, or None for FP32.

    Raises:
      UserError: the ranks cannot be joined.
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
        threads = f"; threads for an operation: {self._threads} a rank" if self._threads else ""
        bits = f"; gradients travel in {self._reduction.compression}" if self._reduction.compression else ""
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
    """Sets what suits ranks that compute on CPUs, unless the environment has it; to be called before Horovod starts."""
    if tf.config.list_physical_devices("GPU"):
        return
    by_gloo = os.environ.get("HOROVOD_CONTROLLER") == "gloo"  # which horovodrun --gloo says
    for name, value in (CPU_SETTINGS if by_gloo else {**CPU_SETTINGS, **MPI_SETTINGS}).items():
        os.environ.setdefault(name, value)


def take_share(local_rank: int, local_size: int) -> int | None:
    """Takes one of this host's GPUs, and its part of the cores, for this process.

    The number of threads stays as it is where it has been set (``TF_NUM_INTRAOP_THREADS``,
    ``OMP_NUM_THREADS``, or from Python).

    Returns:
      How many threads compute one operation; None where that was not set here.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[local_rank % len(gpus)], "GPU")
    threading = tf.config.threading
    given = any(name in os.environ for name in ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"))
    if given or threading.get_intra_op_parallelism_threads():
        return None
    cores, own = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    # A launcher that binds ranks to cores has dealt them out already.
    threads = own if own <= cores // local_size else max(1, own // local_size)
    threading.set_intra_op_parallelism_threads(threads)
    return threads
