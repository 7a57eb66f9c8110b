"""Several processes joined by Horovod, with one replica each, and the sums of their gradients.

Gradients are summed in groups, in 32 or 16 bits, as rows or as whole tables.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.clipping import Gradients, UniqueRows, sum_duplicates
from open_seq2seq.runners.preflight import NETWORK_HINTS
from open_seq2seq.runners.runner import GROUP_BYTES, Runner
from open_seq2seq.runners.threads import share_cores
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
_FLAG_BYTES = 4  # size of the FP32 flag that is sent for each row of a table: whether the row was looked up


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
        if self.world_size == 1:
            return condition  # XLA, which one rank may use here, cannot compile Horovod's operations
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
    """Limits this process to one of this host's GPUs and to its share of the cores; see ``share_cores``.

    Args:
      local_rank: rank of this process among the processes on its host.
      local_size: number of processes on the host.

    Returns:
      The number of threads per operation, or None if it was not changed.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[local_rank % len(gpus)], "GPU")
    return share_cores(local_size)


def travel_as_rows(tensor: UniqueRows, rows: tf.Tensor, value_bytes: int) -> tf.Tensor:
    """Returns whether gathering rows sends fewer bytes than summing whole tables, as a bool scalar.

    In a ring of N ranks, each rank receives (N - 1) / N of all rows, or twice (N - 1) / N of a table.

    Args:
      tensor: this rank's gradient of a table.
      rows: number of rows in the gradients of all ranks together, an integer scalar.
      value_bytes: size of one value when sent, in bytes.
    """
    width = (tensor.values.shape[1:].num_elements() or 0) * value_bytes
    as_rows = tf.cast(rows, tf.int64) * (width + tensor.indices.dtype.size)
    return as_rows < 2 * tf.cast(tensor.dense_shape[0], tf.int64) * (width + _FLAG_BYTES)


def spread(tensor: UniqueRows) -> list[tf.Tensor]:
    """Returns the gradient as a dense table, and which of its rows were looked up.

    Returns:
      [table ``[rows, …]`` with zeros in the other rows, FP32 flags ``[rows]``: 1 for rows looked up, otherwise 0].
    """
    rows = tf.cast(tensor.dense_shape[0], tf.int32)
    return [tf.math.unsorted_segment_sum(values, tensor.indices, rows)
            for values in (tensor.values, tf.ones_like(tensor.indices, tf.float32))]


def add_rank_by_rank(values: tf.Tensor, indices: tf.Tensor, counts: tf.Tensor) -> list[tf.Tensor]:
    """Sums rows with equal indices in rank order, so that the sums are bitwise equal on all ranks.

    If all ranks' rows were summed at once, the sums would depend on the order in which a GPU adds them. One rank after
    another has a fixed order, because the indices of one rank are distinct.

    Args:
      values: ``[rows of all ranks, …]``, in rank order.
      indices: ``[rows of all ranks]``.
      counts: number of rows of each rank, integer ``[ranks]``.

    Returns:
      [sums ``[distinct rows, …]``, their indices].
    """
    different, row_of = tf.unique(indices)
    ends = tf.cumsum(counts)

    def add(rank: tf.Tensor, sums: tf.Tensor) -> list[tf.Tensor]:
        rows_of_rank = slice(ends[rank] - counts[rank], ends[rank])
        return [rank + 1, tf.tensor_scatter_nd_add(sums, row_of[rows_of_rank][:, tf.newaxis], values[rows_of_rank])]

    start = tf.zeros(tf.concat([tf.shape(different), tf.shape(values)[1:]], 0), values.dtype)
    start = tf.ensure_shape(start, [None, *values.shape[1:]])
    _, sums = tf.while_loop(lambda rank, _: rank < tf.size(counts), add, [tf.constant(0), start])
    return [sums, different]


# Number of fraction bits, and bias of the exponent, in FP32.
_FRACTION, _BIAS = 23, 127
# A bound times its scale is less than 2^_TOP. This is half of FP16's range, because each addition may round the sum up.
_TOP = 15


def peaks(tensors: list[tf.Tensor]) -> tf.Tensor:
    """Returns the largest absolute value of each tensor, or 0 if it is empty: FP32 ``[tensors]``."""
    return tf.stack([tf.maximum(tf.reduce_max(tf.abs(tensor)), 0.0) for tensor in tensors])


def wire_scales(bounds: tf.Tensor) -> tf.Tensor:
    """Returns, for each bound, the largest normal power of two whose product with the bound is below 2¹⁵.

    The scales are computed from the bits of the bounds' exponents. They are therefore exact powers of two, and
    divisions by them do not round.

    Args:
      bounds: FP32 of any shape, not negative.

    Returns:
      FP32 of the same shape; 1 where a bound is inf or NaN.
    """
    exponent = tf.bitwise.right_shift(tf.bitcast(bounds, tf.int32), _FRACTION)  # bound < 2^(exponent - _BIAS + 1)
    wanted = tf.clip_by_value(_TOP - 1 + 2 * _BIAS - exponent, 1, 2 * _BIAS)
    wanted = tf.where(tf.math.is_finite(bounds), wanted, _BIAS)
    return tf.bitcast(tf.bitwise.left_shift(wanted, _FRACTION), tf.float32)


# Tensors of up to this many bytes (biases, weights of normalisation layers) form groups of their own, which Horovod can
# fuse because no large tensors lie between them.
SMALL_BYTES = 64 * 2**10


class Reduction:
    """Sums named tensors over all ranks; the sums are bitwise equal on all ranks.

    Dense tensors are sent in groups that depend only on the tensors' shapes. Gradients of lookups are sent as rows or
    as the whole table, whichever takes fewer bytes. The result has rows either way, so an optimizer that updates only
    these rows does the same as in one process.

    With ``fp16``, a tensor is sent in FP16, multiplied by its own power of two. This scale is computed from the sum
    over ranks of the tensor's largest absolute values: no sum of the tensor's values over ranks exceeds this bound.
    With up to 1,400 ranks, finite gradients therefore never overflow, even if every addition rounds up. Rounding a
    value to FP16 changes it by at most 2⁻¹¹ of itself or 2⁻³⁹ of the bound, whichever is larger. If a value is inf or
    NaN, the sum is not finite either. Scalars, such as the loss, are sent in FP32.

    Args:
      hvd: the module ``horovod.tensorflow``.
      compression: ``fp16``, or None.
    """

    def __init__(self, hvd: Any, compression: str | None = None) -> None:
        self._hvd, self.compression = hvd, compression

    def __call__(self, tensors: Gradients, name: str, exact: bool = False) -> Gradients:
        """Returns the sums over all ranks.

        Args:
          tensors: FP32 tensors by name, dense or ``IndexedSlices``; the same names and shapes on all ranks, except that
            the number of rows of ``IndexedSlices`` may differ.
          name: name of this reduction, a prefix of the names of Horovod's operations.
          exact: whether to send FP32 even if gradients are compressed.
        """
        rows = {key: sum_duplicates(t) for key, t in tensors.items() if isinstance(t, tf.IndexedSlices)}
        dense = {key: tf.convert_to_tensor(t) for key, t in tensors.items() if key not in rows}
        half = self.compression == "fp16" and not exact
        # Gradients with rows come first: the ranks exchange the numbers of their rows, which are known before the
        # backward pass ends.
        reduced: Gradients = self._reduce_rows(rows, name, half) if rows else {}
        whole = {key: t for key, t in dense.items() if not half or t.shape.rank == 0}
        reduced.update(self._reduce_groups(whole, f"{name}.exact" if half else name, half=False))
        reduced.update(self._reduce_groups({k: t for k, t in dense.items() if k not in whole}, name, half=True))
        return {key: reduced[key] for key in tensors}

    def _reduce_groups(self, tensors: Mapping[str, tf.Tensor], name: str, half: bool) -> Gradients:
        reduced: Gradients = {}
        for number, keys in enumerate(groups(tensors)):
            values = self._add([tensors[key] for key in keys], f"{name}.{number}", half)
            reduced.update(zip(keys, values, strict=True))
        return reduced

    def _add(self, tensors: list[tf.Tensor], name: str, half: bool) -> list[tf.Tensor]:
        if not half:
            return self._hvd.grouped_allreduce(tensors, op=self._hvd.Sum, name=name)
        scales = self._scales(tensors, name)
        halves = [tf.cast(tensor * scale, tf.float16) for tensor, scale in zip(tensors, scales, strict=True)]
        sums = self._hvd.grouped_allreduce(halves, op=self._hvd.Sum, name=name)
        return [tf.cast(total, tf.float32) / scale for total, scale in zip(sums, scales, strict=True)]

    def _scales(self, tensors: list[tf.Tensor], name: str) -> list[tf.Tensor]:
        """Returns each tensor's scale, an FP32 scalar that is the same on all ranks."""
        bounds = self._hvd.allreduce(peaks(tensors), op=self._hvd.Sum, name=f"{name}.peaks")
        return tf.unstack(wire_scales(bounds), num=len(tensors))

    def _reduce_rows(self, tensors: Mapping[str, UniqueRows], name: str, half: bool) -> Gradients:
        counts = self._hvd.allgather(tf.stack([tf.size(t.indices) for t in tensors.values()])[tf.newaxis],
                                     name=f"{name}.counts")  # [ranks, tensors]
        reduced: Gradients = {}
        for number, (key, tensor) in enumerate(tensors.items()):
            name_of_rows, of_tensor = f"{name}.rows.{number}", counts[:, number]
            # All ranks have the same counts, so all take the same branch.
            values, indices = tf.cond(
                travel_as_rows(tensor, tf.reduce_sum(of_tensor), 2 if half else 4),
                lambda t=tensor, n=name_of_rows, c=of_tensor: self._gather_rows(t, c, n, half),
                lambda t=tensor, n=name_of_rows: self._add_tables(t, n, half))
            reduced[key] = UniqueRows(values, indices, tensor.dense_shape)
        return reduced

    def _gather_rows(self, tensor: UniqueRows, counts: tf.Tensor, name: str, half: bool) -> list[tf.Tensor]:
        values = tensor.values
        if half:
            (scale,) = self._scales([values], name)
            values = tf.cast(values * scale, tf.float16)
        gathered = self._hvd.allgather(values, name=f"{name}.values")
        indices = self._hvd.allgather(tensor.indices, name=f"{name}.indices")
        gathered = tf.cast(gathered, tf.float32) / scale if half else gathered
        return add_rank_by_rank(gathered, indices, counts)

    def _add_tables(self, tensor: UniqueRows, name: str, half: bool) -> list[tf.Tensor]:
        table, touched = spread(tensor)
        (table,) = self._add([table], f"{name}.table", half)
        (touched,) = self._add([touched], f"{name}.touched", half=False)
        indices = tf.where(touched > 0.0)[:, 0]
        return [tf.gather(table, indices), tf.cast(indices, tensor.indices.dtype)]


def groups(tensors: Mapping[str, tf.Tensor], most: int = GROUP_BYTES, small: int = SMALL_BYTES) -> Iterator[list[str]]:
    """Yields the names of tensors that are sent together: first groups of large tensors, then groups of small ones.

    Tensors stay in the given order, and the groups depend only on the tensors' sizes, so all ranks form the same
    groups. A group is sent when all its tensors are computed; those of neighbouring layers are computed at about the
    same time.

    Args:
      tensors: tensors with static shapes, by name.
      most: maximum size of a group in bytes; a single tensor may be larger.
      small: maximum size of a small tensor in bytes.
    """
    sizes = {name: (tensor.shape.num_elements() or 0) * tensor.dtype.size for name, tensor in tensors.items()}
    yield from _cut({name: size for name, size in sizes.items() if size > small}, most)
    yield from _cut({name: size for name, size in sizes.items() if size <= small}, most)


def _cut(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for name, held in sizes.items():
        if names and size + held > most:
            yield names
            names, size = [], 0
        names.append(name)
        size += held
    if names:
        yield names
