"""Chooses, before models are built, the kinds of operations that ``mixed`` computes in bfloat16 on a CPU.

For that, it measures how fast this machine computes in float32 and in bfloat16, in about half a second. A processor's
flags are not enough: some processors with bfloat16 instructions are slower in bfloat16 than in float32. Therefore each
kind of operation that models consist of is timed in both dtypes, forward and backward.

Other programs can make such short measurements meaningless. On a machine with two cores, the speed in bfloat16 divided
by that in float32 was between 0.5 and 0.9 while the machine was idle, and between 0.1 and 5 while both cores were busy.
Therefore, if the process had to wait for a core, its processor time is used instead of the elapsed time, and the result
is not cached, so that the next run measures again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.parts.conv_blocks.convolution import Window, convolve_over_time
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.parts.rnn.cells import product, transposed
from open_seq2seq.runners.runner import Runner
from open_seq2seq.runners.threads import intra_op_threads
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, ConfigError
from open_seq2seq.utils.machine import cpu_name, onednn_setting, speed_flags

# Smallest speedup over float32 for which a kind of operation is computed in bfloat16. A smaller one is not worthwhile:
# casts cost time, and the code between these operations becomes no faster.
LEAST_GAIN = 1.1
# Share of a recurrent layer's multiplications in training that are computed step by step, if its input is as large as
# its state. The forward and the backward pass need six matrix products per step. Two of them are within the loop over
# the steps: that of the state with its matrix, and the gradient with respect to the state. The other four are computed
# for all steps at once: the product of the input with its matrix, the gradient with respect to the input, and the
# gradients of both matrices.
_IN_LOOP = 1 / 3
Specs = dict[str, ModelSpec]
TYPES = ("float32", "bfloat16")
# GFLOP/s by kind of operation (from ``KINDS``) and dtype (from ``TYPES``).
Speeds = dict[str, dict[str, float]]
# The properties of a machine and its settings, by name; see ``machine_identity``.
Identity = Mapping[str, str | int]
# Version of the measured operations and sizes: increase it when they change.
_PROBE = 4
# Sizes of the product of a matrix [rows, width] with a matrix [width, columns]; of the recurrence, the steps of a
# recurrent layer whose weights are a matrix [hidden, gates]; and of the convolution.
_ROWS, _WIDTH, _COLUMNS = 256, 512, 2048
_BATCH, _HIDDEN, _GATES, _STEPS = 32, 512, 1536, 6
_EXAMPLES, _FRAMES, _CHANNELS, _TAPS = 2, 160, 256, 11
# Floating-point operations of each kind: a multiplication and an addition for each term of the forward pass, and as
# many for the gradient of each factor. The recurrence is timed without the gradient of its weights.
_FLOPS = {"product": 6.0 * _ROWS * _WIDTH * _COLUMNS, "recurrence": 4.0 * _STEPS * _BATCH * _HIDDEN * _GATES,
          "convolution": 6.0 * _EXAMPLES * _FRAMES * _TAPS * _CHANNELS * _CHANNELS}
_SECONDS, _MOST_ROUNDS = 0.12, 12  # for each kind: no new round starts after this time or this number of rounds
# If the elapsed time exceeds this multiple of the processor time, the process has waited for a core.
_WAITED = 1.25
# Kinds for which bfloat16 is this many times as fast as float32 are measured twice. In this range, other load on the
# machine could change which dtype is chosen.
_CLOSE = (0.8, 1.4)


def settle_precision(specs: Specs, runner: Runner, state: Mapping[str, Any] | None = None) -> Specs:
    """Decides which kinds of operations are computed in bfloat16, and prints the choice; a collective operation.

    ``mixed_choice`` in the config takes precedence. Without it, a resumed run keeps its choice, and a new run measures
    the speed of rank 0's processor.

    Args:
      specs: the specs of the run's models, by section.
      runner: the run's runner.
      state: the state of the checkpoint that training resumes from, the same on all ranks; None without one.

    Returns:
      The specs, with ``mixed_choice`` set in those that compute in ``mixed`` on a CPU.

    Raises:
      ConfigError: the sections give different values of ``mixed_choice``.
      CheckpointError: ``mixed_choice`` in the state is invalid.
    """
    policies = {name: precision_of(spec.params) for name, spec in specs.items()}
    first = next(iter(specs))
    concerned = [name for name, policy in policies.items() if policy.may_choose]
    if not concerned:
        deco_print(policies[first].note)
        return specs
    choices = _given([specs[name].params.get("mixed_choice") for name in concerned])
    stored = _kept(state)
    choice, reason = choices, "set by mixed_choice"
    if choices is None and stored is not None:
        choice, reason = stored, "as in the checkpoint"
    elif choices is None:
        choice, reason = runner.share(_measured("train" in specs) if runner.is_chief else None)
    elif stored is not None and set(stored) != set(choices):
        reason += f"; this run used {list(stored)} before"
    assert choice is not None
    specs = in_choice(specs, choice)
    deco_print(precision_of(specs[first].params).note)
    deco_print(reason, offset=1)
    return specs


def in_choice(specs: Specs, choice: list[str] | None) -> Specs:
    """Returns the specs, with ``mixed_choice`` set to ``choice`` in those that compute in ``mixed`` on a CPU."""
    return {name: dataclasses.replace(spec, params={**spec.params, "mixed_choice": choice})
            if precision_of(spec.params).may_choose else spec for name, spec in specs.items()}


def choice_of(params: Mapping[str, Any]) -> list[str] | None:
    """Returns the kinds of operations that a model computes in bfloat16; None if its dtype leaves no choice."""
    policy = precision_of(params)
    return list(policy.kinds) if policy.may_choose else None


def _given(values: list[Any]) -> list[str] | None:
    if any(value != values[0] for value in values):
        raise ConfigError(["'mixed_choice' differs between the sections of this run: set it once, in base_params."])
    return None if values[0] is None else [kind for kind in KINDS if kind in values[0]]


def _kept(state: Mapping[str, Any] | None) -> list[str] | None:
    stored = None if state is None else state.get("mixed_choice")  # runs in one type have none
    if stored is not None and not (isinstance(stored, list) and all(kind in KINDS for kind in stored)):
        raise CheckpointError(f"'mixed_choice' in the checkpoint's state.json must be a list with names from "
                              f"{', '.join(KINDS)}, got {stored!r}: set mixed_choice in the config, or resume from "
                              "another checkpoint.")
    return stored


def _measured(training: bool) -> tuple[list[str], str]:
    gains = layer_gains(machine_speeds(), training)
    shown = ", ".join(f"{kind}s {gain:.2f}×" for kind, gain in gains.items())
    return chosen(gains), f"bf16/fp32 speed: {shown}"


def layer_gains(speeds: Speeds, training: bool) -> dict[str, float]:
    """Returns the speedups of bfloat16 over float32 for layers, by kind.

    The time of a recurrent layer in training is the sum of two parts: the products within the loop over the steps, at
    the speed ``recurrence``, and the other products, at the speed ``product``. Outside of training, all products are
    assumed to be within the loop, as in a decoder's search.

    Args:
      speeds: speeds of single operations in GFLOP/s, by kind and dtype.
      training: whether the layers are trained.
    """
    within = _IN_LOOP if training else 1.0
    seconds = {name: within / speeds["recurrence"][name] + (1.0 - within) / speeds["product"][name] for name in TYPES}
    return {**ratios(speeds), "recurrence": seconds["float32"] / seconds["bfloat16"]}


def chosen(gains: Mapping[str, float]) -> list[str]:
    """Returns the kinds of operations that ``mixed`` computes in bfloat16.

    Args:
      gains: result of ``layer_gains``; kinds with a speedup of at least ``LEAST_GAIN`` are chosen.
    """
    return [kind for kind in KINDS if gains[kind] >= LEAST_GAIN]


class MeasuredSpeeds(NamedTuple):
    """Measured speeds.

    Attributes:
      speeds: GFLOP/s by kind of operation and dtype.
      waited: whether the process waited for a core while they were measured.
    """

    speeds: Speeds
    waited: bool


def machine_speeds() -> Speeds:
    """Returns the processor's speeds in GFLOP/s, by kind and dtype; measures them if the user's cache lacks them."""
    identity = machine_identity()
    speeds = read_speeds(identity)
    if speeds is None:
        speeds, waited = measure_speeds()
        close = [kind for kind, ratio in ratios(speeds).items() if _CLOSE[0] < ratio < _CLOSE[1]]
        second = measure_speeds(kinds=close)
        for kind, again in second.speeds.items():
            speeds[kind] = {name: max(value, again[name]) for name, value in speeds[kind].items()}
        if not (waited or second.waited):
            write_speeds(identity, speeds)
    return speeds


def cache_folder() -> Path | None:
    """Returns the cache's folder, in ``XDG_CACHE_HOME`` or ``~/.cache``; None if there is no home folder."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(folder):  # the XDG specification ignores relative paths
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        folder = os.path.join(home, ".cache")
    return Path(folder, "open_seq2seq")


def speeds_file(identity: Identity) -> Path | None:
    """Returns the path of the cache file for a machine and its settings; None if there is no cache folder.

    Each combination of machine and settings has its own file, so no lock is needed.
    """
    folder = cache_folder()
    name = hashlib.sha256(json.dumps(sorted(identity.items())).encode()).hexdigest()[:16]
    return None if folder is None else folder / f"speeds-{name}.json"


def read_speeds(identity: Identity) -> Speeds | None:
    """Returns the cached speeds, or None if there are none or the file is damaged.

    Args:
      identity: identity of the machine and its settings. Speeds from a file with another identity are not returned.
    """
    path = speeds_file(identity)
    if path is None or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        speeds = {kind: {name: float(content["gflops"][kind][name]) for name in TYPES} for kind in KINDS}
        is_of_machine = content["machine"] == dict(identity)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    values = [value for by_type in speeds.values() for value in by_type.values()]
    is_plausible = all(math.isfinite(value) and value > 0.0 for value in values)
    return speeds if is_of_machine and is_plausible else None


def write_speeds(identity: Identity, speeds: Speeds) -> bool:
    """Writes speeds to the cache atomically; returns whether this succeeded.

    Args:
      identity: identity of the machine and its settings.
      speeds: the machine's speeds.
    """
    path = speeds_file(identity)
    if path is None:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk.writing(path, disk.always) as file:
            file.write(json.dumps({"machine": dict(identity), "gflops": speeds}, indent=1).encode())
    except OSError:
        return False
    return True


def machine_identity() -> dict[str, str | int]:
    """Returns everything that the speeds depend on, by name: processor, versions, settings, threads."""
    return {"probe": _PROBE, "processor": cpu_name(), "instructions": " ".join(speed_flags()),
            "tensorflow": tf.__version__, "onednn": onednn_setting(), "threads": intra_op_threads()}


def measure_speeds(seconds: float = _SECONDS, most_rounds: int = _MOST_ROUNDS,
                   kinds: Sequence[str] = KINDS) -> MeasuredSpeeds:
    """Measures each kind of operation in both dtypes alternately, and uses the shortest times.

    No variable is created, and no TensorFlow random number is drawn. Products and recurrences run eagerly; the
    convolution is traced, because its gradient consists of many operations.

    Args:
      seconds: time for each kind, in seconds; at least one round is run, and the last round is completed.
      most_rounds: maximum number of rounds for each kind.
      kinds: the kinds to measure.

    Returns:
      The speeds. If the process waited for a core while a kind was measured, that kind's speeds are computed from the
      processor time divided by the number of threads, as if all threads had been busy all the time.
    """
    speeds: Speeds = {}
    waited = False
    with tf.device("/device:CPU:0"):
        for kind in kinds:
            elapsed, busy = _least_seconds(*_operation(kind), seconds, most_rounds)
            if any(elapsed[name] > _WAITED * busy[name] for name in TYPES):
                waited, elapsed = True, {name: value / intra_op_threads() for name, value in busy.items()}
            speeds[kind] = {name: _FLOPS[kind] / max(value, 1e-9) / 1e9 for name, value in elapsed.items()}
    return MeasuredSpeeds(speeds, waited)


def ratios(speeds: Speeds) -> dict[str, float]:
    """Returns the speed of bfloat16 divided by that of float32, by kind."""
    return {kind: speeds[kind]["bfloat16"] / speeds[kind]["float32"] for kind in KINDS}


def _least_seconds(function: Callable[..., tf.Tensor], arrays: list[np.ndarray], seconds: float,
                   most_rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Returns (shortest elapsed time, least processor time of all threads together), both in seconds by dtype."""
    arguments = {name: [tf.cast(array, name) for array in arrays] for name in TYPES}
    for values in arguments.values():  # compiles kernels and traces functions
        function(*values).numpy()
    start = time.perf_counter()
    elapsed, busy = dict.fromkeys(TYPES, float("inf")), dict.fromkeys(TYPES, float("inf"))
    for number in range(most_rounds):
        if number and time.perf_counter() - start > seconds:
            break
        for name, values in arguments.items():
            begin, busy_before = time.perf_counter(), time.process_time()
            function(*values).numpy()
            elapsed[name] = min(elapsed[name], time.perf_counter() - begin)
            busy[name] = min(busy[name], time.process_time() - busy_before)
    return elapsed, busy


def _operation(kind: str) -> tuple[Callable[..., tf.Tensor], list[np.ndarray]]:
    """Returns the function that computes a kind of operation, and its arguments.

    The function's result depends on every operation that is timed, so that reading it waits for all of them.
    """
    shapes: dict[str, list[tuple[int, ...]]] = {
        "product": [(_ROWS, _WIDTH), (_WIDTH, _COLUMNS)], "recurrence": [(_BATCH, _HIDDEN), (_HIDDEN, _GATES)],
        "convolution": [(_EXAMPLES, _FRAMES, _CHANNELS), (_TAPS, _CHANNELS, _CHANNELS)]}
    generator = np.random.default_rng(0)
    # Scaled so that results are about 1: computing with denormal numbers may be slower.
    arrays = [generator.standard_normal(shape, np.float32) / float(np.sqrt(np.prod(shape[:-1]))) for shape in
              shapes[kind]]
    return {"product": _product, "recurrence": _recurrence, "convolution": _convolution}[kind], arrays


def _product(rows: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    # The product, and the gradients of both factors if y is the gradient of the product.
    y = tf.matmul(rows, matrix)
    return _corner(tf.matmul(y, matrix, transpose_b=True), tf.matmul(rows, y, transpose_a=True))


def _recurrence(states: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    states, (turned,) = tf.cast(states, tf.float32), transposed([matrix])
    for _ in range(_STEPS):
        states = product(product(states, matrix), turned)
    return _corner(states)


@tf.function(autograph=False)
def _convolution(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([x, kernel])
        y = convolve_over_time(x, kernel, Window(_TAPS))
    return _corner(*tape.gradient(y, [x, kernel], output_gradients=y))


def _corner(*tensors: Any) -> tf.Tensor:
    """Returns the first value of each tensor, FP32 ``[tensors]``, as a small result that depends on all of them."""
    return tf.stack([tf.cast(tf.reshape(tensor, [-1])[0], tf.float32) for tensor in tensors])
