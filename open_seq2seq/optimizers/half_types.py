"""The limits of half-precision types: which numbers become zero or infinite."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class HalfType:
    """The limits of conversion to a 16-bit floating-point type.

    Attributes:
      name: ``float16`` or ``bfloat16``.
      zero_up_to: the largest absolute value that becomes 0.
      infinite_from: the least absolute value that becomes infinite.
    """

    name: str
    zero_up_to: float
    infinite_from: float

    def lost(self, magnitudes: tf.Tensor) -> tf.Tensor:
        """Returns where nonzero numbers become 0; ``magnitudes`` are FP32 and not negative."""
        return (magnitudes > 0.0) & (magnitudes <= self.zero_up_to)

    def overflowing(self, magnitudes: tf.Tensor) -> tf.Tensor:
        """Returns where numbers become infinite; ``magnitudes`` are FP32 and not negative."""
        return magnitudes >= self.infinite_from


# IEEE 754 binary16: 10 bits of fraction, least number 2^-24 (subnormal), largest 65504. Conversion
# rounds to the nearest, ties to even: half of the least number is 0, half a step beyond the largest is inf.
FLOAT16 = HalfType("float16", 2.0**-25, 65520.0)
# 7 bits of fraction and the exponents of FP32. Subnormal bfloat16 numbers are flushed to 0, as TensorFlow does in FP32,
# so numbers up to the largest FP32 number below the least normal one are lost.
BFLOAT16 = HalfType("bfloat16", 2.0**-126 * (1.0 - 2.0**-23), 2.0**128 - 2.0**119)
HALF_TYPES = {kind.name: kind for kind in (FLOAT16, BFLOAT16)}
