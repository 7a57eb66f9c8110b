"""Breaks down the time of a training step by kind of operation, for each dtype, as a Markdown table.

    python benchmarks/profile_step.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --dtypes float32,mixed --steps 8 --batch_size_per_gpu=4096

TensorFlow's profiler measures every operation of some updates on batches spread over an epoch.
Each dtype has its own process. Unknown options override the config.
Limitations: operations that run in parallel share the cores, but each is charged its full duration;
sums computed as products with ones count as products; element-wise operations that are fused into a
product count as part of the product.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import describe_machine, make_parser, markdown_table, run_program
from benchmarks.measuring.settings import default_names, dtype_overrides, make_trainer, sample_batches
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
    """One execution of an operation: its name in the graph, its type, such as ``MatMul``, and its duration."""

    name: str
    type: str
    seconds: float


class Profile(NamedTuple):
    """The result of profiling, averaged over steps.

    Attributes:
      by_category: seconds per step by category.
      seconds: duration of a step without the profiler.
      profiled_seconds: duration of a step with the profiler.
    """

    by_category: dict[str, float]
    seconds: float
    profiled_seconds: float

    @property
    def operations(self) -> float:
        """Summed seconds of all operations; more than the duration of the step if operations run in parallel."""
        return sum(self.by_category.values())


def categorize(event: Event) -> str:
    """Returns the category that an operation's time is counted in."""
    kind = _plain_type(event.type)
    for category, name_pattern, type_pattern in _CATEGORIES:
        if re.search(name_pattern, event.name) and re.search(type_pattern, kind):
            return category
    return OTHER


def _plain_type(kind: str) -> str:
    """Returns an operation's type without the prefix of oneDNN kernels: ``FusedMatMul`` for ``_MklFusedMatMul``."""
    return re.sub(r"^_*(MklNative|Mkl)?", "", kind)


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
            if metadata.display_name == kind and name and not _CONTAINERS.search(_plain_type(kind)):
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
            owner = next((stat.str_value or plane.stat_metadata[stat.ref_value].name
                          for stat in (*event.stats, *metadata.stats)
                          if plane.stat_metadata[stat.metadata_id].name == "tf_op"), "")
            name, _, kind = owner.rpartition(":")
            yield Event(name, kind or metadata.name, event.duration_ps / 1e12)


def summarize(events: Iterable[Event], steps: int) -> dict[str, float]:
    """Returns the seconds per step by category."""
    by_category = dict.fromkeys(CATEGORIES, 0.0)
    for event in events:
        by_category[categorize(event)] += event.seconds / steps
    return by_category


def profile_training(config_file: str, overrides: Sequence[str], steps: int) -> Profile:
    """Profiles updates of a config on batches spread over an epoch.

    Args:
      config_file: path of a config with a training section.
      overrides: config values as on the command line.
      steps: number of updates.

    Raises:
      UserError: the config has a mistake, or the profiler reports no operations.
    """
    trainer = make_trainer(config_file, overrides)
    batches = sample_batches(trainer.model.data_layer, steps)

    def run() -> float:
        start = time.perf_counter()
        for examples in batches:
            trainer.try_batch(examples)
        trainer.optimizer.updates.numpy()  # waits for the device
        return (time.perf_counter() - start) / len(batches)

    run()  # traces, and creates the kernels for these shapes
    seconds = run()
    profiled_seconds, events = profiled(run)
    by_category = summarize(events, len(batches))
    if not any(by_category.values()):
        raise UserError("TensorFlow's profiler reported no operations here.")
    return Profile(by_category, seconds, profiled_seconds)


def profiled(run: Callable[[], float]) -> tuple[float, list[Event]]:
    """Calls a function with TensorFlow's profiler; returns (its result, the operations that have run meanwhile)."""
    import tensorflow as tf

    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0,
                                                       device_tracer_level=1)
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder, options):
            result = run()
        return result, list(operation_events(_read_space(folder)))


def profiled_updates(trainer: Any, steps: int) -> tuple[float, float]:
    """Makes updates on the batch with the longest example; returns (operations an update, milliseconds in them).

    On a GPU, its kernels and copies count; they are what the host launches.
    """
    _, examples = trainer.describe_epoch()

    def run() -> float:
        for _ in range(steps):
            trainer.try_batch(examples)
        return float(trainer.optimizer.updates.numpy())  # waits for the device

    run()  # may trace
    _, events = profiled(run)
    return len(events) / steps, 1e3 * sum(event.seconds for event in events) / steps


def _read_space(folder: str) -> Any:
    try:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError as error:
        raise UserError(f"This TensorFlow cannot read its profiles ({error}).") from None
    space = xplane_pb2.XSpace()
    for path in Path(folder).rglob("*.xplane.pb"):
        space.MergeFromString(path.read_bytes())
    return space


def format_table(profiles: dict[str, Profile]) -> str:
    """Returns the table of milliseconds and shares by category, with the speed-up of each profile over the first."""
    head = ["part of the step"]
    for number, name in enumerate(profiles):
        head += [f"{name} ms", "share", *(["quicker"] if number else [])]
    every = list(profiles.values())
    rows = [_row(category, [profile.by_category[category] for profile in every], every)
            for category in CATEGORIES if any(profile.by_category[category] for profile in every)]
    return markdown_table(head, [*rows, _row("all operations", [profile.operations for profile in every], every),
                                 _row("a step, without the profiler", [profile.seconds for profile in every])])


def _row(title: str, seconds: Sequence[float], profiles: Sequence[Profile] = ()) -> list[str]:
    """Returns a row of the table, with shares of all operations if ``profiles`` are given."""
    cells = [title]
    for number, value in enumerate(seconds):
        cells += [f"{1e3 * value:,.1f}", f"{value / profiles[number].operations:.1%}" if profiles else ""]
        cells += [f"{seconds[0] / value:.2f}×" if seconds[0] and value else "–"] if number else []
    return cells


def main(argv: list[str]) -> None:
    """Profiles and prints the report."""
    parser = make_parser(__doc__)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
    parser.add_argument("--dtypes", help="comma-separated dtypes; the first is the baseline")
    parser.add_argument("--steps", type=int, default=8, help="number of updates to profile")
    options, overrides = parser.parse_known_args(argv)
    machine, gpus = describe_machine()
    profiles = {}
    for name in options.dtypes.split(",") if options.dtypes else default_names(gpus > 0):
        profiles[name] = call(profile_training, options.config_file,
                              [*overrides, *dtype_overrides(name, gpus > 0)], options.steps)
    slowed = ", ".join(f"{profile.profiled_seconds / profile.seconds:.2f}×" for profile in profiles.values())
    print(f"* `{options.config_file}{''.join(' ' + override for override in overrides)}`\n* {machine}\n"
          f"* {options.steps} updates; with the profiler a step takes {slowed} as long\n\n{format_table(profiles)}")


if __name__ == "__main__":
    run_program(main)
