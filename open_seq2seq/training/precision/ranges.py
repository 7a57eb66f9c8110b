"""The magnitudes of the numbers in a tensor, and which of them a conversion to half precision would lose.

Magnitudes are counted by octave, ``2^k < |x| <= 2^(k+1)``. Since every power of two ends an
octave, what float16 makes zeros after multiplication by a power of two follows from the counts
exactly; the shares at given scales are counted directly, for any scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.optimizers.half_types import FLOAT16, HalfType

_OCTAVES = 256  # FP32 exponents
_LOWEST = -127  # octave of the first bin
# float16 makes zeros of octave -26 and below; its numbers end before 65520.
_ZERO_OCTAVE = round(math.log2(FLOAT16.zero_up_to)) - 1


class Conversion(NamedTuple):
    """Numbers are multiplied by a loss scale, then converted."""

    half: HalfType
    scale: float = 1.0

    def __str__(self) -> str:
        return self.half.name if self.scale == 1.0 else f"{self.half.name} × {format_scale(self.scale)}"


def format_scale(scale: float) -> str:
    """Returns ``2^10`` for powers of two, else the number."""
    exponent = math.log2(scale)
    return f"2^{round(exponent)}" if exponent == round(exponent) else f"{scale:g}"


@dataclass
class NumberRange:
    """Counts over the numbers of one tensor or of many.

    Attributes:
      octaves: int64 ``[256]``: numbers with ``2^k < |x| <= 2^(k+1)``, k from -127.
      zeros: how many numbers are 0.
      not_finite: how many are infinite or NaN.
      largest: largest finite absolute value; 0 without any.
      smallest: smallest absolute value that is not 0; infinite without any.
      lost: conversion → how many numbers that are not 0 become 0.
      overflowing: conversion → how many finite numbers become infinite.
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
        """How many finite numbers are not 0."""
        return int(self.octaves.sum())

    @property
    def total(self) -> int:
        """How many numbers there are."""
        return self.nonzero + self.zeros + self.not_finite

    def share_lost(self, conversion: Conversion) -> float:
        """Returns the share of the finite numbers other than 0 that become 0."""
        return self.lost[conversion] / max(self.nonzero, 1)

    def share_overflowing(self, conversion: Conversion) -> float:
        """Returns the share of the finite numbers other than 0 that become infinite."""
        return self.overflowing[conversion] / max(self.nonzero, 1)

    def share_lost_at(self, exponent: int) -> float:
        """Returns the share that float16 loses after multiplication by ``2^exponent``."""
        end = min(max(_ZERO_OCTAVE - exponent - _LOWEST + 1, 0), _OCTAVES)
        return int(self.octaves[:end].sum()) / max(self.nonzero, 1)

    def least_exponent(self, tolerated: float) -> int:
        """Returns the least exponent ≥ 0 of a scale with which float16 loses at most this share."""
        exponent = 0
        while self.share_lost_at(exponent) > tolerated:
            exponent += 1
        return exponent

    def greatest_exponent(self) -> int:
        """Returns the greatest exponent of a scale with which nothing overflows in float16; it may be negative."""
        if not self.largest:
            return -_LOWEST
        exponent = math.floor(math.log2(FLOAT16.infinite_from / self.largest))
        return exponent if self.largest * 2.0**exponent < FLOAT16.infinite_from else exponent - 1


def _added(first: dict[Conversion, int], second: dict[Conversion, int]) -> dict[Conversion, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in (*first, *(k for k in second if k not in first))}


def sum_ranges(ranges: Iterable[NumberRange]) -> NumberRange:
    """Adds ranges up."""
    return sum(ranges, NumberRange())


class RangeTensors(NamedTuple):
    """A range as tensors, inside a traced function; ``to_range`` makes it a ``NumberRange``."""

    octaves: tf.Tensor
    zeros: tf.Tensor
    not_finite: tf.Tensor
    largest: tf.Tensor
    smallest: tf.Tensor
    lost: tf.Tensor
    overflowing: tf.Tensor

    def to_range(self, conversions: Sequence[Conversion]) -> NumberRange:
        """Reads the values.

        Args:
          conversions: those that were counted, in the same order.
        """
        lost, overflowing = (dict(zip(conversions, map(int, np.asarray(counts)), strict=True))
                             for counts in (self.lost, self.overflowing))
        return NumberRange(np.asarray(self.octaves), int(self.zeros), int(self.not_finite), float(self.largest),
                           float(self.smallest), lost, overflowing)


def measure(tensor: tf.Tensor, conversions: Sequence[Conversion]) -> RangeTensors:
    """Counts the numbers of a tensor.

    Args:
      tensor: any shape and floating-point type, or ``IndexedSlices``.
      conversions: what to count losses for.
    """
    magnitudes = tf.abs(tf.reshape(tf.cast(tf.convert_to_tensor(tensor), tf.float32), [-1]))
    finite = tf.math.is_finite(magnitudes)
    present = tf.boolean_mask(magnitudes, finite & (magnitudes > 0.0))
    # Less one, the bits of a power of two are those of the octave that it ends.
    octaves = tf.bitwise.right_shift(tf.bitcast(present, tf.int32) - 1, 23)
    return RangeTensors(
        tf.math.bincount(octaves, minlength=_OCTAVES, maxlength=_OCTAVES, dtype=tf.int64),
        tf.math.count_nonzero(magnitudes == 0.0),
        tf.math.count_nonzero(tf.logical_not(finite)),
        tf.reduce_max(tf.concat([present, [0.0]], 0)),
        tf.reduce_min(tf.concat([present, [math.inf]], 0)),
        tf.stack([tf.math.count_nonzero(half.lost(present * scale)) for half, scale in conversions]),
        tf.stack([tf.math.count_nonzero(half.overflowing(present * scale)) for half, scale in conversions]))
