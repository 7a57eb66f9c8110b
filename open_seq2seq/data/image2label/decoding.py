"""Decoding of image files to RGB."""

from __future__ import annotations

import re

import tensorflow as tf


def decode_rgb(content: tf.Tensor) -> tf.Tensor:
    """Decodes a JPEG, PNG, GIF or BMP file to ``[height, width, 3]`` uint8.

    Grey images get three equal channels, CMYK is converted to RGB, 16 bits are reduced to 8, an alpha channel is left
    out, and only the first frame of an animation is read.

    Args:
      content: the bytes of the file, a string scalar.

    Raises:
      tf.errors.InvalidArgumentError: the file is damaged, or of another format.
    """
    image = tf.cond(tf.io.is_jpeg(content), lambda: tf.io.decode_jpeg(content, channels=3),
                    lambda: _rgb(tf.io.decode_image(content, channels=0, expand_animations=False)))
    return tf.ensure_shape(image, [None, None, 3])


def _rgb(image: tf.Tensor) -> tf.Tensor:
    """Converts 1 (grey), 2 (grey, alpha), 3 or 4 (RGB, alpha) channels to 3."""
    return tf.cond(tf.shape(image)[2] < 3, lambda: tf.repeat(image[..., :1], 3, axis=-1), lambda: image[..., :3])


def reason(error: tf.errors.OpError) -> str:
    """Returns why an operation failed, without TensorFlow's additions and the final full stop."""
    words = error.message.removeprefix("{{").partition(" [Op:")[0].split("\n")[0]
    return re.sub(r"^.*?\}\}\s*", "", words).rstrip(". ")
