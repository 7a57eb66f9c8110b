"""Gradients by convolutions and by products against TensorFlow's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.conv_blocks import convolution as module
from open_seq2seq.parts.conv_blocks.convolution import Window, make_convolution
from open_seq2seq.parts.image_blocks import ImageConvolution

WINDOWS = [Window(5), Window(4), Window(2, 3), Window(5, 2), Window(4, 3), Window(5, 1, 2), Window(4, 1, 3),
           Window(5, 1, 1, "VALID"), Window(4, 2, 1, "VALID"), Window(3, 1, 2, "VALID"), Window(3, 1, 2, "CAUSAL"),
           Window(3, 2, 1, "CAUSAL")]


def step_of(make: Callable[[], Any], rank: int) -> Callable[[tf.Tensor], list[tf.Tensor]]:
    """Returns a function that computes the output of a convolution, and the gradients of the input and the kernel."""
    with creating_variables(1):
        convolution = make()

    @tf.function(input_signature=[tf.TensorSpec([None] * (rank - 1) + [3])])
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = convolution(x)
            loss = tf.reduce_sum(tf.sin(y))
        return [y, *tape.gradient(loss, [x, convolution.kernel])]

    step.get_concrete_function()  # traced now, while the test has replaced what decides the form
    return step


def assert_equal(steps: list[Callable[[tf.Tensor], list[tf.Tensor]]], x: tf.Tensor) -> None:
    expected = [value.numpy() for value in steps[0](x)]
    for step in steps[1:]:
        for value, wanted in zip(step(x), expected, strict=True):
            assert value.shape == wanted.shape
            np.testing.assert_allclose(value, wanted, atol=1e-5)


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.padding}-{w.size}-{w.stride}-{w.dilation}")
def test_gradients_are_tensorflows(window: Window, monkeypatch):
    def make() -> Any:
        return make_convolution("conv1d", 3, 4, [window])

    monkeypatch.setattr(module, "has_onednn", lambda: True)
    steps = [step_of(make, 3)]
    monkeypatch.setattr(module, "_CHANNELS_FOR_PRODUCTS", {tf.float32: 1})
    for onednn in (False, True):
        monkeypatch.setattr(module, "has_onednn", lambda onednn=onednn: onednn)
        steps.append(step_of(make, 3))
    for batch in (0, 1, 3):
        for frames in (5, 12, 13):
            assert_equal(steps, tf.random.stateless_normal([batch, frames, 3], [1, 2]))


@pytest.mark.parametrize("size", [(3, 3), (5, 1), (1, 7), (2, 3), (1, 1)])
def test_gradients_of_images_are_tensorflows(size: tuple[int, int], monkeypatch):
    steps = []
    for onednn in (True, False):
        monkeypatch.setattr(module, "has_onednn", lambda onednn=onednn: onednn)
        steps.append(step_of(lambda: ImageConvolution(3, 4, size), 4))
    for batch in (0, 1, 3):
        assert_equal(steps, tf.random.stateless_normal([batch, 6, 9, 3], [1, 2]))
