"""How fast a device computes matrix products and convolutions in each dtype: upper limits of models' speeds."""

from __future__ import annotations

import math
import sys
from typing import Any

from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import timed_pass

Speeds = dict[str, dict[str, float]]
"""GFLOP/s by kind of operation and dtype."""

_TYPES = ("float32", "tf32", "float16", "bfloat16")
_CONVOLUTION = "convolution"
# Shapes of the two factors: products as in the feed-forward layer of a large Transformer, and large ones.
_SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "product": ((4096, 1024), (1024, 4096)), "large product": ((8192, 8192), (8192, 8192)),
    _CONVOLUTION: ((32, 800, 512), (17, 512, 512))}
_REPEATS = {"product": 16, "large product": 2, _CONVOLUTION: 16}  # in one graph, to keep the launch overhead small
_ROUNDS = 6


def processor_speeds(seconds: float = 2.0, most_rounds: int = 100) -> Speeds:
    """Returns the CPU's speeds in GFLOP/s by kind and dtype; warns on standard error if it was used by other programs.

    The arguments are those of ``measure_speeds``, with more time for each kind of operation than a run takes.
    """
    from open_seq2seq.runners.processor_speed import measure_speeds  # imports TensorFlow

    speeds, waited = call(measure_speeds, seconds, most_rounds)
    if waited:
        print("WARNING: other programs kept the cores busy, so that these speeds are estimates from processor time.",
              file=sys.stderr)
    return speeds


def gpu_speeds() -> Speeds:
    """Returns a GPU's speeds in GFLOP/s by kind and dtype, forward and backward; the fastest of several rounds counts.

    Each dtype is measured in its own process: if TensorFloat-32 is switched on within a process, TensorFlow keeps using
    the algorithms that it has already chosen for float32 convolutions.

    Raises:
      Failure: a process failed.
    """
    by_type = {name: call(_type_speeds, name) for name in _TYPES}
    return {kind: {name: speeds[kind] for name, speeds in by_type.items()} for kind in _SHAPES}


def _type_speeds(name: str) -> dict[str, float]:
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(name == "tf32")
    return {kind: _speed(kind, "float32" if name == "tf32" else name) for kind in _SHAPES}


def _speed(kind: str, dtype: str) -> float:
    import tensorflow as tf

    (rows, weights), repeats = _SHAPES[kind], _REPEATS[kind]
    # Each operation has its own input, because TensorFlow computes identical operations only once.
    inputs = [tf.cast(tf.random.normal(rows), dtype) for _ in range(repeats)]
    weight = tf.cast(0.01 * tf.random.normal(weights), dtype)
    operation = _convolution if kind == _CONVOLUTION else _product
    compiled = tf.function(lambda weight, *inputs: tf.stack([operation(x, weight) for x in inputs]), autograph=False)
    one_pass = timed_pass(lambda: compiled(weight, *inputs))
    one_pass()  # untimed: traces the function and selects kernels
    # The forward pass, and as many FLOPs for the gradient of each of the two factors.
    return 6e-9 * repeats * math.prod((*rows[:-1], *weights)) / min(one_pass() for _ in range(_ROUNDS))


def _product(x: Any, weight: Any) -> Any:
    import tensorflow as tf

    y = tf.matmul(x, weight)
    return _corners(tf.matmul(y, weight, transpose_b=True), tf.matmul(x, y, transpose_a=True))


def _convolution(x: Any, kernel: Any) -> Any:
    import tensorflow as tf

    from open_seq2seq.parts.conv_blocks.convolution import Window, convolve_over_time

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([x, kernel])
        y = convolve_over_time(x, kernel, Window(kernel.shape[0]))
    return _corners(*tape.gradient(y, [x, kernel], output_gradients=y))


def _corners(*tensors: Any) -> Any:
    """Returns one element of each result: reading it waits for the whole operation but copies little."""
    import tensorflow as tf

    return tf.stack([tf.cast(tf.reshape(tensor, [-1])[0], tf.float32) for tensor in tensors])
