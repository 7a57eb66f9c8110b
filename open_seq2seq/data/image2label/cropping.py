"""Cropping of images ``[batch, height, width, channels]``, at random or in the centre."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

BOX_DRAWS = 22
"""Number of random numbers for ``random_box``: two for each of ten candidate boxes, and two for the position."""


def pad_and_crop(images: tf.Tensor, padding: int, size: int, draws: tf.Tensor | None) -> tf.Tensor:
    """Crops squares, at random positions of the images padded with zeros, or in the centre of the unpadded images.

    Args:
      images: ``[batch, height, width, channels]`` with a static height and width.
      padding: number of zeros on each side.
      size: height and width of the squares in pixels, at most those of the images before cropping.
      draws: random numbers, at least 0 and below 1, FP32 ``[batch, 2]``; None for the centre, without padding.

    Returns:
      ``[batch, size, size, channels]`` in the dtype of ``images``.
    """
    height, width = images.shape[1:3]
    if draws is None:
        top, left = (height - size) // 2, (width - size) // 2
        return images[:, top:top + size, left:left + size]
    images = tf.pad(images, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
    room = tf.constant([height + 2 * padding - size + 1, width + 2 * padding - size + 1], tf.float32)
    starts = tf.cast(draws * room, tf.int32)
    rows, columns = (starts[:, axis, tf.newaxis] + tf.range(size) for axis in (0, 1))
    images = tf.gather(images, rows, axis=1, batch_dims=1)
    return tf.gather(images, columns, axis=2, batch_dims=1)


def random_box(draws: tf.Tensor, height: tf.Tensor, width: tf.Tensor, areas: Sequence[float],
               ratios: Sequence[float]) -> tf.Tensor:
    """Draws a box of random area and shape in an image (Szegedy et al. 2014, https://arxiv.org/abs/1409.4842).

    Returns the first of ten random boxes that fits into the image or, if none fits, the largest square in the centre.

    Args:
      draws: random numbers, at least 0 and below 1, FP32 ``[BOX_DRAWS]``.
      height: height of the image in pixels, int32 scalar.
      width: width of the image in pixels, int32 scalar.
      areas: smallest and largest area of the box, as a fraction of the image.
      ratios: smallest and largest ratio of width to height.

    Returns:
      int32 ``[4]``: top, left, height and width in pixels.
    """
    size = tf.cast(tf.stack([height, width]), tf.float32)
    area = (areas[0] + draws[:10] * (areas[1] - areas[0])) * size[0] * size[1]
    logs = tf.math.log(tf.constant(ratios, tf.float32))
    ratio = tf.exp(logs[0] + draws[10:20] * (logs[1] - logs[0]))
    boxes = tf.maximum(tf.round(tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)], axis=1)), 1.0)
    fits = tf.reduce_all(boxes <= size, axis=1)
    square = tf.fill([2], tf.reduce_min(size))
    box = tf.where(tf.reduce_any(fits), boxes[tf.argmax(tf.cast(fits, tf.int32))], square)
    place = tf.where(tf.reduce_any(fits), draws[20:22], 0.5)
    start = tf.floor(place * (size - box + 1.0))
    return tf.cast(tf.concat([start, box], axis=0), tf.int32)


def resized_short_side(image: tf.Tensor, size: int) -> tf.Tensor:
    """Resizes an image so that its shorter side has ``size`` pixels, and crops the square in the centre.

    Args:
      image: ``[height, width, channels]`` uint8.
      size: height and width of the result in pixels.

    Returns:
      FP32 ``[size, size, channels]``, from 0 to 255.
    """
    sides = tf.shape(image)[:2]
    # Cut off the ends of a long image: they are outside of the square, and resizing them could exceed the memory.
    sides = tf.minimum(sides, 3 * tf.reduce_min(sides))
    image = _middle(image, sides)
    scaled = tf.cast(tf.round(tf.cast(sides, tf.float64) * (size / tf.cast(tf.reduce_min(sides), tf.float64))),
                     tf.int32)
    image = tf.image.resize(image, tf.maximum(scaled, size), antialias=True)
    image = _middle(image, tf.constant([size, size]))
    return tf.clip_by_value(tf.ensure_shape(image, [size, size, 3]), 0.0, 255.0)


def _middle(image: tf.Tensor, sides: tf.Tensor) -> tf.Tensor:
    """Crops the middle of an image; ``sides`` are the height and width of the result, int32 ``[2]``."""
    start = (tf.shape(image)[:2] - sides) // 2
    end = start + sides
    return image[start[0]:end[0], start[1]:end[1]]


def resized_box(image: tf.Tensor, box: tf.Tensor, size: int) -> tf.Tensor:
    """Returns a box of an image ``[height, width, channels]``, resized to ``size`` × ``size``; see ``random_box``."""
    part = image[box[0]:box[0] + box[2], box[1]:box[1] + box[3]]
    part = tf.image.resize(part, [size, size], antialias=True)
    return tf.clip_by_value(tf.ensure_shape(part, [size, size, 3]), 0.0, 255.0)
