"""Random sequences of image operations, as in RandAugment (Cubuk et al. 2019, https://arxiv.org/abs/1909.13719)."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from open_seq2seq.data.image2label.augmentation import brightened, contrasted, moved, saturated

DRAWS = 2
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
      draws: random numbers, at least 0 and below 1, FP32 ``[batch, operations, DRAWS]``.
      magnitude: strength of all operations, from 0 to ``LARGEST_MAGNITUDE``.
    """
    for number in range(draws.shape[1]):
        images = _operated(images, draws[:, number], magnitude / LARGEST_MAGNITUDE)
    return images


def _operated(images: tf.Tensor, draws: tf.Tensor, strength: float) -> tf.Tensor:
    """Applies one operation to each image, chosen by ``draws`` ``[batch, DRAWS]``; ``strength`` is from 0 to 1."""
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
