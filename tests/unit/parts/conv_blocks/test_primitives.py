"""TensorFlow's convolutions for any number of examples; ``make test`` runs this with oneDNN and without."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import open_seq2seq
from open_seq2seq.encoders.deep_speech2_encoder import RowConvolution
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.conv_blocks.convolution import Window, make_convolution
from open_seq2seq.parts.conv_blocks.primitives import convolve
from open_seq2seq.parts.rnn.attention import AdditiveAttention

WINDOWS = [Window(5), Window(4, 3), Window(5, 1, 2), Window(5, 2, 1, "VALID"), Window(3, 1, 2, "CAUSAL"), Window(1)]
TYPES = [tf.float32, tf.bfloat16]


def made(kind: str, window: Window) -> tuple[tf.Module, list[int]]:
    """Returns a layer and the shape of an example of its input, without the time."""
    with creating_variables(1):
        if kind == "row":
            return RowConvolution(3, 5, None, 0.9, 1e-3), [3]
        frequency = Window(3, 1 if window.dilation > 1 else 2)
        return make_convolution(kind, 3, 4, [window, frequency]), [6, 3] if kind == "conv2d" else [3]


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.padding}-{w.size}-{w.stride}-{w.dilation}")
@pytest.mark.parametrize("kind", ["conv1d", "sep_conv1d", "conv2d", "row"])
def test_no_examples_have_the_shapes_of_some(kind: str, window: Window, dtype: tf.DType, graph: bool):
    layer, sizes = made(kind, window)
    held = [tf.sequence_mask(tf.fill([count], 12), 12) for count in (0, 2)]

    def step(x: tf.Tensor, held: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, held) if kind == "row" else layer(x)
            loss = tf.reduce_sum(tf.sin(tf.cast(y, tf.float32)))
        return [y, *tape.gradient(loss, [x, *layer.trainable_variables])]

    if graph:
        step = tf.function(step, input_signature=[tf.TensorSpec([None, None, *sizes], dtype),
                                                  tf.TensorSpec([None, None], tf.bool)])
    none, some = (step(tf.zeros([len(mask), 12, *sizes], dtype), mask) for mask in held)
    for value, wanted, batch_first in zip(none, some, [True, True] + [False] * len(none), strict=False):
        assert value.shape == ([0, *wanted.shape[1:]] if batch_first else wanted.shape)
        assert value.dtype == wanted.dtype
        if not batch_first:
            np.testing.assert_array_equal(np.asarray(value, np.float32), 0.0)


def test_examples_of_no_frames_leave_the_gradient_zero():
    layer, _ = made("sep_conv1d", Window(5))
    with tf.GradientTape() as tape:
        y = layer(tf.ones([2, 0, 3]))
    assert y.shape == [2, 0, 4]
    np.testing.assert_array_equal(tape.gradient(y, layer.depthwise), tf.zeros([5, 3, 1]))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rows, side, stride", [(3, 8, 2), (1, 7, 2), (2, 8, 3)])
def test_kernels_of_one_tap_with_strides(rows: int, side: int, stride: int, padding: str):
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(rows, side, side, 4)), rng.normal(size=(1, 1, 4, 5))
    values = [tf.constant(value, tf.float32) for value in (x, kernel)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = convolve(*values, [stride, stride], padding, [1, 1])
    dy = rng.normal(size=y.shape)
    by_x, by_kernel = tape.gradient(y, values, tf.constant(dy, tf.float32))
    kept = x[:, ::stride, ::stride]
    np.testing.assert_allclose(y, kept @ kernel[0, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_kernel[0, 0], np.einsum("bhwi,bhwo->io", kept, dy), rtol=1e-4, atol=1e-4)
    expected = np.zeros_like(x)
    expected[:, ::stride, ::stride] = dy @ kernel[0, 0].T
    np.testing.assert_allclose(by_x, expected, rtol=1e-4, atol=1e-5)


def test_a_batch_of_no_hypotheses_attends():
    with creating_variables(1):
        attention = AdditiveAttention("chorowski", 4, 5, 6)
    memory = attention.memory(tf.zeros([0, 7, 5]), tf.zeros([0], tf.int32))
    context, weights, _ = attention(tf.zeros([0, 2, 4]), tf.zeros([0, 2, 7]), memory)
    assert context.shape == [0, 2, 5] and weights.shape == [0, 2, 7]


def test_all_convolutions_are_these():
    """TensorFlow's own are wrong for no examples where it uses oneDNN, which no test sees elsewhere."""
    package = Path(open_seq2seq.__file__).parent
    calls = re.compile(r"tf\.nn\.(conv|depthwise_conv|separable_conv|atrous)|raw_ops\.(Depthwise)?Conv\w+\(")
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py")
             for call in calls.finditer(path.read_text(encoding="utf-8")) if "Backprop" not in call.group()}
    assert found == {"parts/conv_blocks/primitives.py"}
