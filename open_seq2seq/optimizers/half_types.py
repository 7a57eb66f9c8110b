"""Where the half-precision types end: which numbers become zero, which infinite."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class HalfType:
    """A 16-bit floating-point type, as conversion to it sees real numbers.

    Attributes:
      name: ``float16`` or ``bfloat16``.
      zero_up_to: the largest absolute value that becomes 0.
      infinite_from: the least absolute value that becomes infinite.
    """

    name: str
    zero_up_to: float
    infinite_from: float

    def lost(self, magnitudes: tf.Tensor) -> tf.Tensor:
        """Returns where numbers that are not 0 become 0; ``magnitudes`` are FP32 and not negative."""
        return (magnitudes > 0.0) & (magnitudes <= self.zero_up_to)

    def overflowing(self, magnitudes: tf.Tensor) -> tf.Tensor:
        """Returns where numbers become infinite; ``magnitudes`` are FP32 and not negative."""
        return magnitudes >= self.infinite_from


# IEEE 754 binary16: 10 bits of fraction, least number 2^-24 (subnormal), largest 65504. Conversion
# rounds to the nearest, ties to even: half of the least number is 0, half a step beyond the largest is inf.
FLOAT16 = HalfType("float16", 2.0**-25, 65520.0)
# 7 bits of fraction and FP32's exponents. Units for bfloat16 flush subnormal numbers to 0, as TensorFlow
# does in FP32; the largest FP32 number below the least normal one ends what is lost.
BFLOAT16 = HalfType("bfloat16", 2.0**-126 * (1.0 - 2.0**-23), 2.0**128 - 2.0**119)
HALF_TYPES = {kind.name: kind for kind in (FLOAT16, BFLOAT16)}
