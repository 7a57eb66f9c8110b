"""Decoding of image files to RGB."""

from __future__ import annotations

import tensorflow as tf

# Places of 32-bit numbers in the header of a BMP file, in bytes: where the pixels begin, the size of the part of the
# header that begins at 14, and the compression; and of a 16-bit number, the bits per pixel.
_PIXELS, _SIZE, _BITS, _COMPRESSION = 10, 14, 28, 30
_SMALLEST_BMP = 54


def decode_rgb(content: tf.Tensor) -> tf.Tensor:
    """Decodes a JPEG, PNG, GIF or BMP file to ``[height, width, 3]`` uint8.

    Grey images get three equal channels, CMYK is converted to RGB, the colours of a palette are looked up, 16 bits are
    reduced to 8, an alpha channel is left out, and only the first frame of an animation is read.

    Args:
      content: the bytes of the file, a string scalar.

    Raises:
      tf.errors.InvalidArgumentError: the file is damaged, or of another format.
    """
    image = tf.case([(tf.io.is_jpeg(content), lambda: tf.io.decode_jpeg(content, channels=3)),
                     (_has_palette(content), lambda: _decode_palette(content))],
                    lambda: _rgb(tf.io.decode_image(content, channels=0, expand_animations=False)))
    return tf.ensure_shape(image, [None, None, 3])


def _number(content: tf.Tensor, place: int, kind: tf.DType = tf.int32) -> tf.Tensor:
    return tf.io.decode_raw(tf.strings.substr(content, place, kind.size), kind)[0]


def _has_palette(content: tf.Tensor) -> tf.Tensor:
    """Returns whether a file is a BMP file with 8 bits per pixel."""
    is_bmp = (tf.strings.length(content) >= _SMALLEST_BMP) & (tf.strings.substr(content, 0, 2) == b"BM")
    return tf.cond(is_bmp, lambda: _number(content, _BITS, tf.uint16) == 8, lambda: tf.constant(False))


def _decode_palette(content: tf.Tensor) -> tf.Tensor:
    """Decodes a BMP file with a palette, whose indices ``decode_bmp`` returns as if they were grey values."""
    begin, end = _SIZE + _number(content, _SIZE), _number(content, _PIXELS)
    usable = tf.debugging.assert_equal((_number(content, _COMPRESSION) == 0) & (end > begin), True,
                                       "it is a compressed BMP file, or a BMP file without palette: convert it to PNG")
    with tf.control_dependencies([] if usable is None else [usable]):
        indices = tf.io.decode_bmp(content)[..., 0]
    colours = tf.reshape(tf.io.decode_raw(tf.strings.substr(content, begin, (end - begin) // 4 * 4), tf.uint8), [-1, 4])
    with tf.device("CPU:0"):  # on other devices, indices beyond the palette would not be errors
        return tf.gather(colours[:, 2::-1], tf.cast(indices, tf.int32))  # from blue, green, red, zero


def _rgb(image: tf.Tensor) -> tf.Tensor:
    """Converts 1 (grey), 2 (grey, alpha), 3 or 4 (RGB, alpha) channels to 3."""
    return tf.cond(tf.shape(image)[2] < 3, lambda: tf.repeat(image[..., :1], 3, axis=-1), lambda: image[..., :3])
