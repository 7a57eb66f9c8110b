"""Toy images: circles, crosses, squares and triangles, in the files of CIFAR-10 or in folders of PNG files."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from open_seq2seq.data.image2label.image_files import on_host
from open_seq2seq.utils import disk

SHAPES = ("circle", "cross", "square", "triangle")
SIDE = 32


def draw_shape(kind: str, random: np.random.Generator, side: int = SIDE) -> np.ndarray:
    """Returns an image, uint8 ``[side, side, 3]``: a shape of random position, size and colour on noise.

    Args:
      kind: one of ``SHAPES``.
      random: generator of the random numbers.
      side: height and width in pixels.
    """
    radius = random.uniform(side / 6, side / 3)
    centre = random.uniform(radius, side - radius, 2)
    y, x = np.mgrid[:side, :side] - centre[:, np.newaxis, np.newaxis]
    thin = radius / 3
    inside = {
        "circle": x ** 2 + y ** 2 < radius ** 2,
        "cross": ((np.abs(x) < thin) & (np.abs(y) < radius)) | ((np.abs(y) < thin) & (np.abs(x) < radius)),
        "square": np.maximum(np.abs(x), np.abs(y)) < 0.85 * radius,
        "triangle": (y > -radius) & (y < 0.7 * radius) & (np.abs(x) < 0.6 * (y + radius)),
    }[kind]
    image = random.uniform(0, 110, (side, side, 3))
    image[inside] = random.uniform(130, 255, 3)
    return image.astype(np.uint8)


def draw_shapes(count: int, seed: int, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """Returns images, uint8 ``[count, side, side, 3]``, and the indices of their shapes, ``[count]``."""
    random = np.random.Generator(np.random.Philox(seed))
    labels = np.arange(count) % len(SHAPES)
    random.shuffle(labels)
    images = [draw_shape(SHAPES[label], random, side) for label in labels]
    return np.stack(images) if images else np.zeros([0, side, side, 3], np.uint8), labels


def write_toy_cifar(folder: str, train: int, test: int, seed: int = 0) -> None:
    """Writes images as the binary files of CIFAR-10: ``data_batch_1.bin`` to ``data_batch_5.bin``, ``test_batch.bin``.

    Args:
      folder: the output folder.
      train: number of training images, at least 5.
      test: number of test images.
      seed: seed of the random numbers.
    """
    os.makedirs(folder, exist_ok=True)
    images, labels = draw_shapes(train, 2 * seed)
    parts = [(f"data_batch_{number + 1}", images[number::5], labels[number::5]) for number in range(5)]
    parts.append(("test_batch", *draw_shapes(test, 2 * seed + 1)))
    for name, pixels, numbers in parts:
        planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
        records = np.concatenate([numbers[:, np.newaxis].astype(np.uint8), planes], axis=1)
        with disk.writing(os.path.join(folder, f"{name}.bin"), disk.always) as out:
            out.write(records.tobytes())


def write_toy_folders(folder: str, sizes: dict[str, int], seed: int = 0) -> None:
    """Writes images as ``<part>/<shape>/0000.png``.

    Args:
      folder: the output folder.
      sizes: dict of part (such as ``train``) → number of images.
      seed: seed of the random numbers.
    """
    for number, (part, count) in enumerate(sizes.items()):
        for place, (image, label) in enumerate(zip(*draw_shapes(count, len(sizes) * seed + number), strict=True)):
            path = os.path.join(folder, part, SHAPES[label], f"{place:04d}.png")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with disk.writing(path, disk.always) as out:
                out.write(tf.io.encode_png(on_host(image)).numpy())
