"""Measures how fast a GPU computes matrix products and convolutions in each dtype: upper limits of models' speeds."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.measuring.processes import call

TYPES = ("float32", "tf32", "float16", "bfloat16")
_PRODUCT = (4096, 1024, 4096)  # rows, inner dimension, columns, as in the feed-forward layer of a large Transformer
_LARGE = (8192, 8192, 8192)
_EXAMPLES, _FRAMES, _CHANNELS, _TAPS = 32, 800, 512, 17
_REPEATS, _ROUNDS = 16, 6
# FLOPs of each kind: the forward pass, and the same number for the gradient of each of the two factors.
_FLOPS = {"product": 6.0 * _PRODUCT[0] * _PRODUCT[1] * _PRODUCT[2], "large product": 6.0 * _LARGE[0] ** 3,
          "convolution": 6.0 * _EXAMPLES * _FRAMES * _TAPS * _CHANNELS * _CHANNELS}


def measure_gpu() -> dict[str, dict[str, float]]:
    """Measures each kind of operation in each dtype, forward and backward; the fastest of several rounds counts.

    Each dtype is measured in its own process: if TensorFloat-32 is switched on within a process, TensorFlow keeps using
    the algorithms that it has already chosen for float32 convolutions.

    Returns:
      Kind → dtype → GFLOP/s.

    Raises:
      Failure: a process failed.
    """
    by_type = {name: call(measure_type, name) for name in TYPES}
    return {kind: {name: speeds[kind] for name, speeds in by_type.items()} for kind in _FLOPS}


def measure_type(name: str) -> dict[str, float]:
    """Returns the GFLOP/s of each kind of operation in one dtype."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(name == "tf32")
    speeds = {}
    for kind, flops in _FLOPS.items():
        repeats = 2 if kind == "large product" else _REPEATS
        speeds[kind] = repeats * flops / _least_seconds(kind, "float32" if name == "tf32" else name, repeats) / 1e9
    return speeds


def _least_seconds(kind: str, dtype: str, repeats: int) -> float:
    """Returns the seconds of ``repeats`` operations, run in one graph to keep the launch overhead small."""
    import tensorflow as tf

    operation = _convolution if kind == "convolution" else _product
    rows, width, columns = _LARGE if kind == "large product" else _PRODUCT
    shapes = ([(_EXAMPLES, _FRAMES, _CHANNELS), (_TAPS, _CHANNELS, _CHANNELS)] if kind == "convolution" else
              [(rows, width), (width, columns)])
    # Each operation has its own input, because TensorFlow computes identical operations only once.
    inputs = [tf.cast(tf.random.normal(shapes[0]), dtype) for _ in range(repeats)]
    weight = tf.cast(0.01 * tf.random.normal(shapes[1]), dtype)

    def run(weight: tf.Tensor, *inputs: tf.Tensor) -> tf.Tensor:
        return tf.stack([operation(x, weight) for x in inputs])

    return _least(tf.function(run, autograph=False), weight, *inputs)


def _least(function: Callable, *arguments: object) -> float:
    function(*arguments).numpy()  # untimed: traces the function and selects kernels
    least = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        function(*arguments).numpy()
        least = min(least, time.perf_counter() - start)
    return least


def _product(x: object, weight: object) -> object:
    import tensorflow as tf

    y = tf.matmul(x, weight)
    return _corners(tf.matmul(y, weight, transpose_b=True), tf.matmul(x, y, transpose_a=True))


def _convolution(x: object, kernel: object) -> object:
    import tensorflow as tf

    from open_seq2seq.parts.conv_blocks.convolution import Window, convolve_over_time

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([x, kernel])
        y = convolve_over_time(x, kernel, Window(_TAPS))
    return _corners(*tape.gradient(y, [x, kernel], output_gradients=y))


def _corners(*tensors: object) -> object:
    """Returns one element of each result: reading it waits for the whole operation but copies little."""
    import tensorflow as tf

    return tf.stack([tf.cast(tf.reshape(tensor, [-1])[0], tf.float32) for tensor in tensors])
