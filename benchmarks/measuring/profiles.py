"""Breaks down the time of a training step by operation with TensorFlow's profiler."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring.plain_transformer import plain_step
from benchmarks.measuring.settings import make_trainer, sample_batches
from open_seq2seq.utils.errors import UserError

OTHER = "other"
# (category, pattern of the operation's name, pattern of its type); the first match determines the category.
_CATEGORIES = (
    ("optimizer", r"(^|/)optimizer(_\d+)?/", r""),
    ("normalisation", r"(^|/)norm(_\d+)?/", r""),
    ("normalisation", r"", r"BatchNorm|LayerNorm"),
    ("matrix products", r"", r"MatMul|Einsum|Conv\dD|DepthwiseConv|CudnnRNN|LSTM|GRU"),
    ("softmax", r"", r"Softmax"),
    ("random numbers", r"", r"Random|Bitcast"),
    ("casts", r"", r"^Cast$"),
    ("data movement", r"", r"Transpose|Gather|Scatter|Concat|Split|Pad|Slice|^Pack$|Unpack|Tile|Reshape|^Where$|Fill|"
     r"TensorList|TensorArray|Identity|ReadVariable|Broadcast|Reverse|ZerosLike|OnesLike|Copy|Memcpy|MemCpy|Memset"),
    ("element-wise", r"", r"^(Add|AddV2|AddN|Sub|Mul|Div|DivNoNan|RealDiv|Neg|Square|Sqrt|Rsqrt|Exp|Log|Pow|Abs|Select|"
     r"SelectV2|Relu|Relu6|ReluGrad|Gelu|Tanh|TanhGrad|Sigmoid|SigmoidGrad|Maximum|Minimum|Greater|GreaterEqual|Less|"
     r"LessEqual|Equal|NotEqual|LogicalAnd|LogicalOr|LogicalNot|BiasAdd|BiasAddGrad|SquaredDifference|FloorDiv|"
     r"FloorMod|Reciprocal|IsFinite|ClipByValue|Sign|Xdivy)$"),
    ("sums", r"", r"^(Sum|Mean|Max|Min|Prod|All|Any|EuclideanNorm|L2Loss|Cumsum|ArgMax)$"),
)
CATEGORIES = (*dict.fromkeys(category for category, _, _ in _CATEGORIES), OTHER)
# Types of operations that are not counted, because their time is that of the operations inside them.
_CONTAINERS = re.compile(r"While|If$|Case$|PartitionedCall|^Switch|^Merge|^Enter|^Exit|NextIteration|LoopCond|^NoOp$")


class Event(NamedTuple):
    """One execution of an operation.

    Attributes:
      name: name of the operation in the graph.
      type: type of the operation, such as ``MatMul``.
      seconds: duration of the execution.
    """

    name: str
    type: str
    seconds: float


class Profile(NamedTuple):
    """The result of profiling, averaged over steps.

    Attributes:
      by_category: seconds per step by category.
      by_type: seconds per step by type of operation, the longest first.
      seconds: duration of a step without the profiler.
      profiled_seconds: duration of a step with the profiler.
    """

    by_category: dict[str, float]
    by_type: dict[str, float]
    seconds: float
    profiled_seconds: float

    @property
    def operations(self) -> float:
        """Summed seconds of all operations; more than the duration of the step if operations run in parallel."""
        return sum(self.by_category.values())


def plain_type(kind: str) -> str:
    """Returns an operation's type without the prefix of oneDNN kernels: ``FusedMatMul`` for ``_MklFusedMatMul``."""
    return re.sub(r"^_*(MklNative|Mkl)?", "", kind)


def categorize(event: Event) -> str:
    """Returns the category that an operation's time is counted in."""
    kind = plain_type(event.type)
    for category, name_pattern, type_pattern in _CATEGORIES:
        if re.search(name_pattern, event.name) and re.search(type_pattern, kind):
            return category
    return OTHER


def operation_events(space: Any) -> Iterator[Event]:
    """Yields the operations in an ``XSpace``: those of the GPUs if there are any, else those of the CPU."""
    devices = [plane for plane in space.planes if plane.name.startswith("/device:GPU")]
    for plane in devices or [plane for plane in space.planes if plane.name.startswith("/host:CPU")]:
        yield from _kernels(plane) if devices else _host_operations(plane)


def _host_operations(plane: Any) -> Iterator[Event]:
    for line in plane.lines:
        for event in line.events:
            metadata = plane.event_metadata[event.metadata_id]
            name, _, kind = metadata.name.rpartition(":")
            if metadata.display_name == kind and name and not _CONTAINERS.search(plain_type(kind)):
                yield Event(name, kind, event.duration_ps / 1e12)


def _kernels(plane: Any) -> Iterator[Event]:
    """Yields a GPU's kernels and memory copies.

    The statistic ``tf_op`` of a kernel names the operation that launched it; memory copies have no such statistic.
    """
    for line in plane.lines:
        if not line.name.startswith("Stream"):  # the other lines repeat the same events
            continue
        for event in line.events:
            metadata = plane.event_metadata[event.metadata_id]
            owner = next((_text(plane, stat) for stat in (*event.stats, *metadata.stats)
                          if plane.stat_metadata[stat.metadata_id].name == "tf_op"), "")
            name, _, kind = owner.rpartition(":")
            yield Event(name, kind or metadata.name, event.duration_ps / 1e12)


def _text(plane: Any, stat: Any) -> str:
    return stat.str_value or plane.stat_metadata[stat.ref_value].name


def summarize(events: Iterable[Event], steps: int) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the seconds per step by category, and by type with the longest first."""
    by_category = dict.fromkeys(CATEGORIES, 0.0)
    by_type: dict[str, float] = {}
    for event in events:
        by_category[categorize(event)] += event.seconds / steps
        kind = plain_type(event.type)
        by_type[kind] = by_type.get(kind, 0.0) + event.seconds / steps
    return by_category, dict(sorted(by_type.items(), key=lambda item: -item[1]))


def profile_training(config_file: str, overrides: Sequence[str], steps: int, plain: bool = False) -> Profile:
    """Profiles updates of a config on batches spread over an epoch.

    Args:
      config_file: path of a config with a training section.
      overrides: config values as on the command line.
      steps: number of updates.
      plain: whether to profile the same network built from standard Keras layers instead.

    Raises:
      UserError: the config has a mistake, or the profiler reports no operations.
    """
    trainer = make_trainer(config_file, overrides)
    layer = trainer.model.data_layer
    batches = sample_batches(layer, steps)
    if not plain:
        return _profile(trainer.try_batch, batches, trainer.optimizer.updates.numpy)
    update = plain_step(trainer)
    return _profile(lambda examples: update(layer.make_batch(examples)), batches, lambda: None)


def _profile(try_batch: Callable[[Any], None], batches: Sequence[Any], wait: Callable[[], Any]) -> Profile:
    def run() -> float:
        start = time.perf_counter()
        for examples in batches:
            try_batch(examples)
        wait()
        return (time.perf_counter() - start) / len(batches)

    run()  # traces, and creates the kernels for these shapes
    seconds = run()
    with tempfile.TemporaryDirectory() as folder:
        profiled_seconds = _profiled(run, folder)
        by_category, by_type = summarize(operation_events(_read_space(folder)), len(batches))
    if not by_type:
        raise UserError("TensorFlow's profiler reported no operations here.")
    return Profile(by_category, by_type, seconds, profiled_seconds)


def _profiled(run: Any, folder: str) -> float:
    import tensorflow as tf

    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0,
                                                       device_tracer_level=1)
    tf.profiler.experimental.start(folder, options=options)
    try:
        return run()
    finally:
        tf.profiler.experimental.stop()


def _read_space(folder: str) -> Any:
    try:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError as error:
        raise UserError(f"This TensorFlow cannot read its profiles ({error}).") from None
    space = xplane_pb2.XSpace()
    for path in Path(folder).rglob("*.xplane.pb"):
        space.MergeFromString(path.read_bytes())
    return space
