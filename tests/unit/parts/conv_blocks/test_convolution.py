"""Convolutions against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.conv_blocks.convolution import Window, make_convolution

WINDOWS = [Window(5), Window(4), Window(1), Window(5, 2), Window(4, 3), Window(1, 2), Window(2, 3), Window(5, 1, 2),
           Window(4, 1, 3), Window(5, 1, 1, "VALID"), Window(4, 2, 1, "VALID"), Window(3, 1, 2, "VALID"),
           Window(3, 1, 2, "CAUSAL"), Window(3, 2, 1, "CAUSAL")]


def name_of(window: Window) -> str:
    return f"{window.padding}-{window.size}-{window.stride}-{window.dilation}"


def summed(x: np.ndarray, kernel: np.ndarray, window: Window) -> np.ndarray:
    """Output i is made from the inputs i · stride − before + tap · dilation."""
    count = window.outputs(x.shape[1])
    y = np.zeros([x.shape[0], count, kernel.shape[2]])
    for place in range(count):
        for tap in range(window.size):
            at = place * window.stride - window.before + tap * window.dilation
            if 0 <= at < x.shape[1]:
                y[:, place] += x[:, at] @ kernel[tap]
    return y


@pytest.mark.parametrize("window", WINDOWS, ids=name_of)
@pytest.mark.parametrize("kind", ["conv1d", "sep_conv1d"])
@pytest.mark.parametrize("frames", [12, 13])
def test_convolution_is_the_sum(kind: str, window: Window, frames: int):
    x = np.random.default_rng(0).normal(size=(2, frames, 3)).astype(np.float32)
    with creating_variables(1):
        convolution = make_convolution(kind, 3, 4, [window])
    if kind == "conv1d":
        kernel = convolution.kernel.numpy()
    else:  # a matrix over the channels for each tap
        kernel = convolution.depthwise.numpy() * convolution.pointwise.numpy()[None]
    y = convolution(tf.constant(x))
    assert y.shape[-1] == 4
    np.testing.assert_allclose(y, summed(x, kernel, window), atol=1e-5)
    assert int(window.outputs(tf.constant(frames))) == window.outputs(frames) == y.shape[1]


def test_causal_layers_do_not_look_ahead_and_have_a_bias():
    convolution = make_convolution("tcn", 3, 4, [Window(3, 1, 2, "CAUSAL")])
    convolution.bias.assign([1.0, 2.0, 3.0, 4.0])
    x = np.random.default_rng(0).normal(size=(1, 10, 3)).astype(np.float32)
    other = x.copy()
    other[:, 6:] += 1.0
    one, two = convolution(tf.constant(x)).numpy(), convolution(tf.constant(other)).numpy()
    np.testing.assert_allclose(one[:, :6], two[:, :6], atol=1e-6)
    assert np.abs(one[:, 6:] - two[:, 6:]).min(axis=(0, 2)).min() > 0
    np.testing.assert_allclose(convolution(tf.zeros([1, 4, 3]))[0, 2], [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("windows", [(Window(3, 2), Window(5, 2)), (Window(2), Window(3, 1, 2)),
                                     (Window(3, 1, 1, "VALID"), Window(2, 2, 1, "VALID"))])
def test_time_and_frequency_are_one_after_the_other_for_a_kernel_that_is_a_product(windows):
    """Each axis by itself is checked above."""
    x = np.random.default_rng(0).normal(size=(2, 9, 8, 1)).astype(np.float32)
    convolution = make_convolution("conv2d", 1, 1, windows)
    over_time, over_frequency = np.random.default_rng(1).normal(size=(2, 5)).astype(np.float32)
    over_time, over_frequency = over_time[:windows[0].size], over_frequency[:windows[1].size]
    convolution.kernel.assign((over_time[:, None] * over_frequency)[:, :, None, None])
    columns = x[..., 0].transpose(0, 2, 1).reshape(16, 9, 1)
    by_time = summed(columns, over_time[:, None, None], windows[0])[..., 0].reshape(2, 8, -1).transpose(0, 2, 1)
    rows = by_time.reshape(-1, 8, 1)
    expected = summed(rows, over_frequency[:, None, None], windows[1]).reshape(2, by_time.shape[1], -1)
    np.testing.assert_allclose(convolution(tf.constant(x))[..., 0], expected, atol=1e-4)


TWO_WINDOWS = [(Window(3, 2), Window(5, 2)), (Window(3, 1, 2), Window(4, 1, 3)), (Window(2), Window(3, 1, 2))]


@pytest.mark.parametrize(("kind", "windows"), [
    *((kind, (window,)) for kind in ("conv1d", "sep_conv1d") for window in WINDOWS),
    *(("conv2d", pair) for pair in TWO_WINDOWS)], ids=lambda value: value if isinstance(value, str) else
    "+".join(map(name_of, value)))
def test_gradients_are_those_of_a_linear_map(kind: str, windows: tuple[Window, ...]):
    """Linear in each input and kernel: <u, f(d)> = <gradient of <u, f>, d> for any direction d."""
    convolution = make_convolution(kind, 3, 4, windows)
    shape = [2, 13, 3] if kind != "conv2d" else [2, 13, 9, 3]
    x, direction = (tf.random.stateless_normal(shape, [seed, 0]) for seed in (1, 2))
    upstream = tf.random.stateless_normal(convolution(x).shape, [3, 0])

    @tf.function(input_signature=[tf.TensorSpec([None, None, *shape[2:]])])
    def product(inputs: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = tf.reduce_sum(upstream * convolution(inputs))
        return value, tape.gradient(value, [inputs, *convolution.trainable_variables])

    _, (by_input, *by_kernels) = product(x)
    np.testing.assert_allclose(tf.reduce_sum(by_input * direction), product(direction)[0], rtol=1e-4, atol=1e-4)
    for variable, gradient in zip(convolution.trainable_variables, by_kernels, strict=True):
        kept, other = tf.identity(variable), tf.random.stateless_normal(variable.shape, [4, 0])
        variable.assign(other)
        np.testing.assert_allclose(tf.reduce_sum(gradient * other), product(x)[0], rtol=1e-4, atol=1e-4)
        variable.assign(kept)


@pytest.mark.parametrize("kind", ["conv1d", "sep_conv1d"])
def test_gradients_in_bfloat16_are_close(kind: str):
    convolution = make_convolution(kind, 16, 16, [Window(9, 1, 2)])
    x = tf.random.stateless_normal([4, 200, 16], [1, 2]) + 1.0
    upstream = tf.random.stateless_normal([4, 200, 16], [3, 4])
    gradients = []
    for dtype in (tf.float32, tf.bfloat16):
        with tf.GradientTape() as tape:
            y = convolution(tf.cast(x, dtype))
        gradients.append(tape.gradient(y, convolution.trainable_variables, tf.cast(upstream, dtype)))
    for exact, rounded in zip(*gradients, strict=True):
        assert rounded.dtype == tf.float32
        assert np.linalg.norm(exact - rounded) <= 0.02 * np.linalg.norm(exact)
