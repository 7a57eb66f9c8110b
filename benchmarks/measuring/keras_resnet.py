"""A ResNet for CIFAR of Keras layers, trained by ``fit``: an epoch for each line on stdin.

It prints the mean duration of a step in seconds after each epoch. The argument is JSON: ``blocks`` in each group,
``images`` to choose from, images of a ``batch``, ``steps`` of an epoch, and ``keras_jit``, whether to compile with XLA.

The network is that of ``ResNetEncoder``, version 1, with the same regularisation and optimizer. Batches are made by
``tf.data`` with the toolkit's own operations on whole batches, as many at a time as ``tf.data`` finds best.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

_SIDE, _PADDING, _CLASSES = 32, 4, 10


def make_network(blocks: int) -> Any:
    """Returns the network, from images ``[batch, 32, 32, 3]`` to logits ``[batch, classes]``.

    Args:
      blocks: number of residual blocks in each of the three groups.
    """
    from tensorflow.keras import Input, Model, layers, regularizers

    image = Input([_SIDE, _SIDE, 3])
    x = layers.ReLU()(_convolution(image, 16, 3, 1))
    for group in range(3):
        for number in range(blocks):
            filters, stride = 16 << group, 2 if group and not number else 1
            y = layers.ReLU()(_convolution(x, filters, 3, stride))
            connection = x if number else _convolution(x, filters, 1, stride)
            x = layers.ReLU()(layers.Add()([_convolution(y, filters, 3, 1), connection]))
    x = layers.GlobalAveragePooling2D()(x)
    return Model(image, layers.Dense(_CLASSES, kernel_regularizer=regularizers.L2(5e-4))(x))


def _convolution(x: Any, filters: int, size: int, stride: int) -> Any:
    """Returns the normalised result of a convolution with the padding of a stride of 1."""
    from tensorflow.keras import layers, regularizers

    if stride > 1 and size > 1:
        x = layers.ZeroPadding2D((size - 1) // 2)(x)
    x = layers.Conv2D(filters, size, stride, padding="valid" if stride > 1 else "same", use_bias=False,
                      kernel_initializer="he_normal", kernel_regularizer=regularizers.L2(5e-4))(x)
    return layers.BatchNormalization(momentum=0.97, epsilon=1e-5)(x)


def make_batches(count: int, batch: int) -> Any:
    """Returns an endless data set of batches of ``count`` random images, cropped, mirrored and standardised."""
    import numpy as np
    import tensorflow as tf

    from open_seq2seq.data.image2label.pipeline import flipped, pad_and_crop, standardized

    random = np.random.default_rng(0)
    images = tf.constant(random.integers(256, size=[count, _SIDE, _SIDE, 3], dtype=np.uint8))
    labels = tf.constant(random.integers(_CLASSES, size=count), tf.int32)

    def make_batch(examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        draws = tf.random.uniform([batch, 3])
        cropped = pad_and_crop(tf.gather(images, examples), _PADDING, _SIDE, draws[:, :2])
        mirrored = flipped(tf.cast(cropped, tf.float32), draws[:, 2])
        return standardized(mirrored, "image"), tf.gather(labels, examples)

    examples = tf.data.Dataset.range(count).shuffle(count).repeat().batch(batch, drop_remainder=True)
    return examples.map(make_batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def main() -> None:
    """Trains until stdin is closed."""
    import tensorflow as tf

    options = argparse.Namespace(**json.loads(sys.argv[1]))

    class Turns(tf.keras.callbacks.Callback):
        """Waits before each epoch, and prints its mean duration of a step in seconds."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if not sys.stdin.readline():
                raise SystemExit(0)
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            print((time.perf_counter() - self.start) / options.steps, flush=True)

    network = make_network(options.blocks)
    network.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), jit_compile=options.keras_jit,
                    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(make_batches(options.images, options.batch), steps_per_epoch=options.steps, epochs=10 ** 9, verbose=0,
                shuffle=False, callbacks=[Turns()])


if __name__ == "__main__":
    main()
