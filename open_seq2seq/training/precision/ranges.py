"""Ranges of the magnitudes in tensors, and the shares of values that a conversion to half precision would lose.

Magnitudes are counted by octave, ``2^k < |x| <= 2^(k+1)``. The largest magnitude that float16 rounds to 0 is a power of
two, and so the last one of an octave. The counts therefore give exactly how many values become 0 in float16 after
multiplication by any power of two. Conversions to bfloat16 or with other scales are given to ``measure``, which counts
their lost and overflowing values directly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.optimizers.half_types import FLOAT16, HalfType

_OCTAVES = 256  # number of FP32 exponents
_LOWEST = -127  # octave of the first bin
# The highest octave whose values become 0 in float16: -26.
_ZERO_OCTAVE = round(math.log2(FLOAT16.zero_up_to)) - 1


class Conversion(NamedTuple):
    """A conversion to a half type after multiplication by a loss scale."""

    half: HalfType
    scale: float = 1.0

    def __str__(self) -> str:
        return self.half.name if self.scale == 1.0 else f"{self.half.name} × {format_scale(self.scale)}"


def format_scale(scale: float) -> str:
    """Formats a scale: powers of two as ``2^10``, others as a number."""
    exponent = math.log2(scale)
    return f"2^{round(exponent)}" if exponent == round(exponent) else f"{scale:g}"


@dataclass
class NumberRange:
    """Statistics of the values in one or more tensors.

    Attributes:
      octaves: int64 ``[256]``, the number of values with ``2^k < |x| <= 2^(k+1)`` for each k from -127; values smaller
        than 2^-127 are counted with k = -127.
      zeros: the number of values that are 0.
      not_finite: the number of infinite and NaN values.
      largest: the largest finite absolute value; 0 if there is none.
      smallest: the smallest nonzero absolute value; infinite if there is none.
      lost: the number of nonzero values that become 0, by conversion.
      overflowing: the number of finite values that become infinite, by conversion.
    """

    octaves: np.ndarray = field(default_factory=lambda: np.zeros(_OCTAVES, np.int64))
    zeros: int = 0
    not_finite: int = 0
    largest: float = 0.0
    smallest: float = math.inf
    lost: dict[Conversion, int] = field(default_factory=dict)
    overflowing: dict[Conversion, int] = field(default_factory=dict)

    def __add__(self, other: NumberRange) -> NumberRange:
        return NumberRange(
            self.octaves + other.octaves, self.zeros + other.zeros, self.not_finite + other.not_finite,
            max(self.largest, other.largest), min(self.smallest, other.smallest),
            _added(self.lost, other.lost), _added(self.overflowing, other.overflowing))

    @property
    def nonzero(self) -> int:
        """Number of finite nonzero values."""
        return int(self.octaves.sum())

    @property
    def total(self) -> int:
        """Number of values."""
        return self.nonzero + self.zeros + self.not_finite

    def share_lost(self, conversion: Conversion) -> float:
        """Returns the share of the finite nonzero values that become 0."""
        return self.lost[conversion] / max(self.nonzero, 1)

    def share_overflowing(self, conversion: Conversion) -> float:
        """Returns the share of the finite nonzero values that become infinite."""
        return self.overflowing[conversion] / max(self.nonzero, 1)

    def share_lost_at(self, exponent: int) -> float:
        """Returns the share of the finite nonzero values that become 0 in float16 at the scale ``2^exponent``."""
        end = min(max(_ZERO_OCTAVE - exponent - _LOWEST + 1, 0), _OCTAVES)
        return int(self.octaves[:end].sum()) / max(self.nonzero, 1)

    def least_exponent(self, tolerated: float) -> int:
        """Returns the smallest exponent ≥ 0 of a scale at which float16 loses at most the share ``tolerated``."""
        exponent = 0
        while self.share_lost_at(exponent) > tolerated:
            exponent += 1
        return exponent

    def greatest_exponent(self) -> int:
        """Returns the largest exponent, possibly negative, of a scale at which nothing overflows in float16.

        The result is 127 if there are no finite nonzero values.
        """
        if not self.largest:
            return -_LOWEST
        exponent = math.floor(math.log2(FLOAT16.infinite_from / self.largest))
        return exponent if self.largest * 2.0**exponent < FLOAT16.infinite_from else exponent - 1


def _added(first: dict[Conversion, int], second: dict[Conversion, int]) -> dict[Conversion, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in (*first, *(k for k in second if k not in first))}


def sum_ranges(ranges: Iterable[NumberRange]) -> NumberRange:
    """Returns the sum of the ranges."""
    return sum(ranges, NumberRange())


class RangeTensors(NamedTuple):
    """The fields of a ``NumberRange`` as tensors.

    ``octaves`` is int64 ``[256]``, ``lost`` and ``overflowing`` are int64 ``[conversions]``, and the others are ``[]``.
    """

    octaves: tf.Tensor
    zeros: tf.Tensor
    not_finite: tf.Tensor
    largest: tf.Tensor
    smallest: tf.Tensor
    lost: tf.Tensor
    overflowing: tf.Tensor

    def to_range(self, conversions: Sequence[Conversion]) -> NumberRange:
        """Converts the tensors to a ``NumberRange``.

        Args:
          conversions: the conversions given to ``measure``, in the same order.
        """
        lost, overflowing = (dict(zip(conversions, map(int, np.asarray(counts)), strict=True))
                             for counts in (self.lost, self.overflowing))
        return NumberRange(np.asarray(self.octaves), int(self.zeros), int(self.not_finite), float(self.largest),
                           float(self.smallest), lost, overflowing)


def measure(tensor: tf.Tensor, conversions: Sequence[Conversion]) -> RangeTensors:
    """Measures the values of a tensor.

    Args:
      tensor: a tensor of any shape and floating-point dtype, or ``IndexedSlices``.
      conversions: conversions for which lost and overflowing values are counted.
    """
    magnitudes = tf.abs(tf.reshape(tf.cast(tf.convert_to_tensor(tensor), tf.float32), [-1]))
    finite = tf.math.is_finite(magnitudes)
    present = tf.boolean_mask(magnitudes, finite & (magnitudes > 0.0))
    # Subtracting 1 from the bits moves each power of two into the octave that it ends.
    octaves = tf.bitwise.right_shift(tf.bitcast(present, tf.int32) - 1, 23)
    return RangeTensors(
        tf.math.bincount(octaves, minlength=_OCTAVES, maxlength=_OCTAVES, dtype=tf.int64),
        tf.math.count_nonzero(magnitudes == 0.0),
        tf.math.count_nonzero(tf.logical_not(finite)),
        tf.reduce_max(tf.concat([present, [0.0]], 0)),
        tf.reduce_min(tf.concat([present, [math.inf]], 0)),
        tf.stack([tf.math.count_nonzero(half.lost(present * scale)) for half, scale in conversions]),
        tf.stack([tf.math.count_nonzero(half.overflowing(present * scale)) for half, scale in conversions]))
