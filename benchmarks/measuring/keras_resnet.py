"""A ResNet for CIFAR of Keras layers, trained by ``fit``, which pauses after each epoch until it is asked for another.

The network is that of ``ResNetEncoder``, version 1, with the same regularisation and optimizer. Batches are made by
``tf.data`` with the toolkit's own operations on whole batches, as many at a time as ``tf.data`` finds best.
"""

from __future__ import annotations

import contextlib
import time
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.measuring.processes import receive, start

_SIDE, _PADDING = 32, 4


def make_network(blocks: int, classes: int) -> Any:
    """Returns the network, from images ``[batch, 32, 32, 3]`` to logits ``[batch, classes]``.

    Args:
      blocks: number of residual blocks in each of the three groups.
      classes: number of classes.
    """
    from tensorflow.keras import Input, Model, layers, regularizers

    image = Input([_SIDE, _SIDE, 3])
    x = layers.ReLU()(_convolution(image, 16, 3, 1))
    for group in range(3):
        for place in range(blocks):
            filters, stride = 16 << group, 2 if group and not place else 1
            y = layers.ReLU()(_convolution(x, filters, 3, stride))
            connection = x if place else _convolution(x, filters, 1, stride)
            x = layers.ReLU()(layers.Add()([_convolution(y, filters, 3, 1), connection]))
    x = layers.GlobalAveragePooling2D()(x)
    return Model(image, layers.Dense(classes, kernel_regularizer=regularizers.L2(5e-4))(x))


def _convolution(x: Any, filters: int, size: int, stride: int) -> Any:
    """Returns the normalised result of a convolution with the padding of a stride of 1."""
    from tensorflow.keras import layers, regularizers

    if stride > 1 and size > 1:
        x = layers.ZeroPadding2D((size - 1) // 2)(x)
    x = layers.Conv2D(filters, size, stride, padding="valid" if stride > 1 else "same", use_bias=False,
                      kernel_initializer="he_normal", kernel_regularizer=regularizers.L2(5e-4))(x)
    return layers.BatchNormalization(momentum=0.97, epsilon=1e-5)(x)


def make_batches(count: int, batch: int, classes: int) -> Any:
    """Returns an endless data set of batches of ``count`` random images, cropped, mirrored and standardised."""
    import numpy as np
    import tensorflow as tf

    from open_seq2seq.data.image2label.augmentation import flipped, standardized
    from open_seq2seq.data.image2label.cropping import pad_and_crop

    random = np.random.default_rng(0)
    images = tf.constant(random.integers(256, size=[count, _SIDE, _SIDE, 3], dtype=np.uint8))
    labels = tf.constant(random.integers(classes, size=count), tf.int32)

    def make_batch(examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        draws = tf.random.uniform([batch, 3])
        cropped = pad_and_crop(tf.gather(images, examples), _PADDING, _SIDE, draws[:, :2])
        mirrored = flipped(tf.cast(cropped, tf.float32), draws[:, 2])
        return standardized(mirrored, "image"), tf.gather(labels, examples)

    examples = tf.data.Dataset.range(count).shuffle(count).repeat().batch(batch, drop_remainder=True)
    return examples.map(make_batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def fit_in_turns(pipe: Connection, blocks: int, batch: int, count: int, classes: int, steps: int, jit: bool) -> None:
    """Trains the network as the parent process asks for epochs; the body of a process."""
    import tensorflow as tf

    class Turns(tf.keras.callbacks.Callback):
        """Waits before each epoch, and sends its mean duration of a step in seconds."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            pipe.recv()
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            pipe.send((time.perf_counter() - self.start) / steps)

    network = make_network(blocks, classes)
    network.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), jit_compile=jit,
                    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(make_batches(count, batch, classes), steps_per_epoch=steps, epochs=10 ** 9, verbose=0,
                shuffle=False, callbacks=[Turns()])


class FitProcess:
    """Makes an epoch of ``steps`` steps in another process, and returns their mean duration, each time it is called.

    Args:
      arguments: those of ``fit_in_turns`` after the pipe.
    """

    def __init__(self, *arguments: Any) -> None:
        self._process, self._pipe = start(fit_in_turns, *arguments)

    def __call__(self) -> float:
        with contextlib.suppress(BrokenPipeError):  # receive reports why the process has ended
            self._pipe.send("epoch")
        return receive(self._pipe)

    def __enter__(self) -> FitProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._pipe.close()
        self._process.join(timeout=30)
        self._process.kill()
