"""Augmentation of batches of images, one operation at a time or by RandAugment.

The functions are deterministic: random numbers are passed as arguments. RandAugment: Cubuk et al. 2019,
https://arxiv.org/abs/1909.13719.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

JITTER_DRAWS = 3
"""Number of random numbers that ``jittered`` needs for each image."""
_GREY = (0.299, 0.587, 0.114)  # luminance of red, green and blue (ITU-R BT.601)
_QUANTILES = 4096


def flipped(images: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Mirrors, left to right, the images ``[batch, height, width, channels]`` whose draw ``[batch]`` is below 0.5."""
    return tf.where(draws[:, tf.newaxis, tf.newaxis, tf.newaxis] < 0.5, tf.reverse(images, [2]), images)


def jittered(images: tf.Tensor, draws: tf.Tensor, strength: float) -> tf.Tensor:
    """Changes brightness, contrast and saturation by random factors from 1 - strength to 1 + strength.

    Args:
      images: FP32 ``[batch, height, width, 3]`` from 0 to 255.
      draws: random numbers from 0 to 1, FP32 ``[batch, JITTER_DRAWS]``.
      strength: largest difference between a factor and 1.
    """
    factors = 1.0 + strength * (2.0 * draws - 1.0)
    images = brightened(images, factors[:, 0])
    images = contrasted(images, factors[:, 1])
    return saturated(images, factors[:, 2])


def blended(images: tf.Tensor, others: tf.Tensor | float, factors: tf.Tensor) -> tf.Tensor:
    """Returns ``others + factors · (images - others)``, clipped to values from 0 to 255, with factors ``[batch]``."""
    factors = factors[:, tf.newaxis, tf.newaxis, tf.newaxis]
    return tf.clip_by_value(others + factors * (images - others), 0.0, 255.0)


def brightened(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Multiplies the values of each image by the image's factor ``[batch]``."""
    return blended(images, 0.0, factors)


def contrasted(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Multiplies the differences between an image's values and its mean luminance by the image's factor ``[batch]``."""
    return blended(images, tf.reduce_mean(_luminance(images), [1, 2], keepdims=True), factors)


def saturated(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Multiplies the differences between a pixel's values and its luminance by the image's factor ``[batch]``."""
    return blended(images, _luminance(images), factors)


def _luminance(images: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(images * tf.constant(_GREY), axis=-1, keepdims=True)


def moved(images: tf.Tensor, matrices: tf.Tensor) -> tf.Tensor:
    """Applies an affine map to each image; pixels from outside of the image are grey (128).

    Args:
      images: FP32 ``[batch, height, width, 3]``.
      matrices: FP32 ``[batch, 2, 3]``, which map positions (x, y, 1) in the result to positions (x, y) in the image,
        both relative to the centre.
    """
    height, width = images.shape[1:3]
    centre = tf.constant([(width - 1) / 2.0, (height - 1) / 2.0])
    linear = matrices[:, :, :2]
    shift = matrices[:, :, 2] + centre - tf.linalg.matvec(linear, centre)
    rows = tf.concat([linear, shift[:, :, tf.newaxis]], axis=2)
    transforms = tf.pad(tf.reshape(rows, [-1, 6]), [[0, 0], [0, 2]])
    return tf.raw_ops.ImageProjectiveTransformV3(images=images, transforms=transforms, output_shape=[height, width],
                                                 fill_value=128.0, interpolation="BILINEAR", fill_mode="CONSTANT")


def beta_quantiles(alpha: float) -> np.ndarray:
    """Returns the quantiles of the distribution Beta(alpha, alpha) for the probabilities i / 4096, FP32 ``[4097]``."""
    # Values between 0 and 1, closer together near the ends, where the density can be infinite.
    points = np.sin(np.linspace(0.0, math.pi / 2, 1 << 14)) ** 2
    with tf.device("CPU:0"):
        probabilities = tf.math.betainc(tf.constant(alpha, tf.float64), tf.constant(alpha, tf.float64),
                                        tf.constant(points)).numpy()
    return np.interp(np.arange(_QUANTILES + 1) / _QUANTILES, probabilities, points).astype(np.float32)


def mixing_weights(draws: tf.Tensor, quantiles: np.ndarray) -> tf.Tensor:
    """Returns samples of a distribution, drawn by inverse transform sampling, FP32 ``[batch]``.

    Args:
      draws: random numbers, at least 0 and below 1, FP32 ``[batch]``.
      quantiles: the distribution's quantiles, in the form of ``beta_quantiles``.
    """
    place = draws * _QUANTILES
    low = tf.cast(place, tf.int32)
    table = tf.constant(quantiles)
    first, second = tf.gather(table, low), tf.gather(table, low + 1)
    return first + (place - tf.floor(place)) * (second - first)


def mixed(first: tf.Tensor, second: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns ``weights · first + (1 - weights) · second`` (mixup, https://arxiv.org/abs/1710.09412).

    Args:
      first: FP32 ``[batch, …]``.
      second: FP32 ``[batch, …]``.
      weights: FP32 ``[batch]``.
    """
    weights = tf.reshape(weights, [-1] + [1] * (len(first.shape) - 1))
    return weights * first + (1.0 - weights) * second


def standardized(images: tf.Tensor, kind: str) -> tf.Tensor:
    """Returns images with standardized values, FP32 in the shape of ``images``.

    Args:
      images: FP32 ``[batch, height, width, 3]`` from 0 to 255.
      kind: ``image`` gives each image the mean 0 and the standard deviation 1, or less if it is almost uniform.
        ``imagenet`` subtracts the mean of ImageNet and divides by 127.5. ``none`` divides by 255.
    """
    if kind == "image":
        return tf.image.per_image_standardization(images)
    if kind == "imagenet":
        return (images - tf.constant([123.68, 116.78, 103.94])) / 127.5
    return images / 255.0


OPERATION_DRAWS = 2
"""Number of random numbers for each operation: one chooses the operation, the other the sign of its strength."""
LARGEST_MAGNITUDE = 10.0
# Strengths at the largest magnitude: angle in degrees, shear, shift as a fraction of the side, change of a factor.
_DEGREES, _SHEAR, _SHIFT, _FACTOR = 30.0, 0.3, 0.33, 0.9
_GEOMETRIC = ("rotate", "shear_x", "shear_y", "shift_x", "shift_y")
_COLOURS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "brightness": brightened, "contrast": contrasted, "saturation": saturated}
_FIXED: dict[str, Callable[[tf.Tensor, float], tf.Tensor]] = {
    "posterize": lambda images, strength: images - tf.math.floormod(images, 2.0 ** round(4 * strength)),
    "solarize": lambda images, strength: tf.where(images >= 256.0 * (1.0 - strength), 255.0 - images, images),
    "stretch": lambda images, strength: _stretched(images),
}
OPERATIONS = ("identity", *_GEOMETRIC, *_COLOURS, *_FIXED)
"""Names of the operations, which are all equally probable."""


def rand_augmented(images: tf.Tensor, draws: tf.Tensor, magnitude: float) -> tf.Tensor:
    """Applies a sequence of random operations to each image.

    Args:
      images: FP32 ``[batch, height, width, 3]`` from 0 to 255.
      draws: random numbers, at least 0 and below 1, FP32 ``[batch, operations, OPERATION_DRAWS]``.
      magnitude: strength of all operations, from 0 to ``LARGEST_MAGNITUDE``.
    """
    for number in range(draws.shape[1]):
        images = _operated(images, draws[:, number], magnitude / LARGEST_MAGNITUDE)
    return images


def _operated(images: tf.Tensor, draws: tf.Tensor, strength: float) -> tf.Tensor:
    """Applies the operations that ``draws`` ``[batch, OPERATION_DRAWS]`` choose; ``strength`` is from 0 to 1."""
    chosen = tf.cast(draws[:, 0] * len(OPERATIONS), tf.int32)
    signed = tf.where(draws[:, 1] < 0.5, -strength, strength)

    def of(name: str, other: float = 0.0) -> tf.Tensor:
        """Returns the signed strength for images with this operation, and ``other`` for the rest, ``[batch]``."""
        return tf.where(tf.equal(chosen, OPERATIONS.index(name)), signed, other)

    # Each operation is computed for the whole batch, but changes only the images for which it was chosen.
    images = tf.cond(tf.reduce_any((chosen >= 1) & (chosen <= len(_GEOMETRIC))),
                     lambda: moved(images, _matrices(images, of)), lambda: images)
    for name, change in _COLOURS.items():
        is_chosen = tf.equal(chosen, OPERATIONS.index(name))[:, tf.newaxis, tf.newaxis, tf.newaxis]
        images = tf.where(is_chosen, change(images, 1.0 + _FACTOR * of(name)), images)
    for name, fixed in _FIXED.items():
        is_chosen = tf.equal(chosen, OPERATIONS.index(name))[:, tf.newaxis, tf.newaxis, tf.newaxis]
        images = tf.where(is_chosen, fixed(images, strength), images)
    return images


def _matrices(images: tf.Tensor, of: Callable[..., tf.Tensor]) -> tf.Tensor:
    """Returns the affine maps ``[batch, 2, 3]`` of the geometric operations."""
    angles = of("rotate") * (_DEGREES * math.pi / 180)
    cosine, sine = tf.cos(angles), tf.sin(angles)
    across, down = of("shift_x") * _SHIFT * images.shape[2], of("shift_y") * _SHIFT * images.shape[1]
    return tf.stack([tf.stack([cosine, of("shear_x") * _SHEAR - sine, across], axis=1),
                     tf.stack([of("shear_y") * _SHEAR + sine, cosine, down], axis=1)], axis=1)


def _stretched(images: tf.Tensor) -> tf.Tensor:
    """Stretches the values of each channel to the range from 0 to 255; uniform channels stay as they are."""
    low = tf.reduce_min(images, [1, 2], keepdims=True)
    span = tf.reduce_max(images, [1, 2], keepdims=True) - low
    return tf.where(span > 0.0, (images - low) * 255.0 / tf.maximum(span, 1e-6), images)
