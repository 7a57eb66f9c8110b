"""Limits of the half-precision dtypes: which numbers become zero or infinite."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class HalfType:
    """Limits of the conversion from FP32 to a 16-bit floating-point dtype.

    Attributes:
      name: ``float16`` or ``bfloat16``.
      zero_up_to: the largest absolute value that becomes 0.
      infinite_from: the smallest absolute value that becomes infinite.
    """

    name: str
    zero_up_to: float
    infinite_from: float

    def lost(self, magnitudes: tf.Tensor) -> tf.Tensor:
        """Returns a mask of the nonzero numbers that become 0; ``magnitudes`` are FP32 and non-negative."""
        return (magnitudes > 0.0) & (magnitudes <= self.zero_up_to)

    def overflowing(self, magnitudes: tf.Tensor) -> tf.Tensor:
        """Returns a mask of the numbers that become infinite; ``magnitudes`` are FP32 and non-negative."""
        return magnitudes >= self.infinite_from


# IEEE 754 binary16: 10 fraction bits; the smallest positive number is 2^-24 (subnormal), the largest 65504. Conversion
# rounds to the nearest number, and ties to the even one. Therefore 2^-25 becomes 0, and 65520, which lies halfway
# between 65504 and the next power of two, becomes inf.
FLOAT16 = HalfType("float16", 2.0**-25, 65520.0)
# 7 fraction bits and the exponent range of FP32. TensorFlow sets subnormal numbers to 0, in bfloat16 as in FP32, so all
# numbers below the smallest normal one, 2^-126, are lost. The first limit is the FP32 number just below it. The second
# lies halfway between the largest bfloat16 number and 2^128.
BFLOAT16 = HalfType("bfloat16", 2.0**-126 * (1.0 - 2.0**-23), 2.0**128 - 2.0**119)
HALF_TYPES = {kind.name: kind for kind in (FLOAT16, BFLOAT16)}
