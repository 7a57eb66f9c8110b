"""Resolves ``dtype`` in a config to the arithmetic used on this machine, and says what half precision loses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.resolve import DTYPES
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.utils.errors import ConfigError, did_you_mean
from open_seq2seq.utils.machine import has_bfloat16

_TENSOR_CORES = (7, 0)  # compute capability of the first GPUs with tensor cores


class PrecisionPolicy(NamedTuple):
    """The arithmetic of a model, whose variables are always FP32.

    Attributes:
      compute: the dtype of the operations in ``kinds``: float32, float16 or bfloat16.
      label: the dtype that the config requests: ``float32``, ``mixed``, ``mixed_float16`` or ``mixed_bfloat16``.
      note: a line for the log that explains the choice.
      kinds: the kinds of operations, from ``KINDS``, that are computed in ``compute``; the others use float32.
      may_choose: whether ``kinds`` may depend on the machine's speed, as with ``mixed`` on a CPU.
    """

    compute: tf.DType
    label: str
    note: str
    kinds: tuple[str, ...] = KINDS
    may_choose: bool = False

    def type_of(self, kind: str) -> tf.DType:
        """Returns the dtype for operations of this kind, one of ``KINDS``; raises ValueError for any other kind."""
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not one of the kinds {', '.join(KINDS)}")
        return self.compute if kind in self.kinds else tf.float32


def resolve_dtype(dtype: str | tf.DType | None, choice: Collection[str] | None = None) -> PrecisionPolicy:
    """Resolves the config's ``dtype`` for this machine.

    ``mixed`` is float16 if a GPU is visible. On CPUs, where float16 is slower than float32, it is bfloat16 for the
    kinds of operations in ``choice`` and float32 for the others.

    Args:
      dtype: the dtype in the config; None means float32.
      choice: the kinds of operations, from ``KINDS``, that ``mixed`` computes in bfloat16 on a CPU; all by default.

    Raises:
      ConfigError: the dtype is not supported.
    """
    label = _label(dtype)
    gpus = tf.config.get_visible_devices("GPU")
    if label == "float32":
        return PrecisionPolicy(tf.float32, label, "dtype: float32")
    if label == "mixed" and not gpus:
        return _mixed_on_cpu(None if choice is None else tuple(kind for kind in KINDS if kind in choice))
    compute = tf.float16 if label == "mixed" else tf.as_dtype(label.removeprefix("mixed_"))
    note = f"dtype: {label}, that is {compute.name} arithmetic on this {'GPU' if gpus else 'CPU'} with FP32 weights"
    return PrecisionPolicy(compute, label, note + (_gpu_warning(compute, gpus) if gpus else _cpu_warning(compute)))


def precision_of(params: Mapping[str, Any]) -> PrecisionPolicy:
    """Returns the precision policy of a model with these parameters; raises ConfigError if the dtype is unsupported."""
    return resolve_dtype(params.get("dtype", "float32"), params.get("mixed_choice"))


def choice_problems(params: Mapping[str, Any]) -> list[str]:
    """Returns one message for each unknown kind in the parameter ``mixed_choice`` of a model."""
    given = params.get("mixed_choice")
    return [f"'mixed_choice' contains {kind!r} but only allows {', '.join(KINDS)}." + did_you_mean(str(kind), KINDS)
            for kind in (given if isinstance(given, (list, tuple)) else ()) if kind not in KINDS]


def in_words(kinds: Sequence[str]) -> str:
    """Returns the kinds in words, such as ``products, recurrences and convolutions``."""
    *first, last = (f"{kind}s" for kind in kinds)
    return f"{', '.join(first)} and {last}" if first else last


def _mixed_on_cpu(choice: tuple[str, ...] | None) -> PrecisionPolicy:
    if choice is None or len(choice) == len(KINDS):
        note = "dtype: mixed, that is bfloat16 arithmetic on this CPU with FP32 weights"
        return PrecisionPolicy(tf.bfloat16, "mixed", note + ("" if choice else _cpu_warning(tf.bfloat16)), KINDS, True)
    if not choice:
        return PrecisionPolicy(tf.float32, "mixed", "dtype: mixed, here float32 everywhere", (), True)
    note = f"dtype: mixed, here bfloat16 in {in_words(choice)}, float32 elsewhere"
    return PrecisionPolicy(tf.bfloat16, "mixed", note, choice, True)


def _label(dtype: Any) -> str:
    if dtype is None:
        return "float32"
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", str(dtype))
    if name not in DTYPES:
        raise ConfigError([f"'dtype' must be one of {', '.join(DTYPES)}, got {dtype!r}."
                           + did_you_mean(name, DTYPES)])
    return name


def _gpu_warning(compute: tf.DType, gpus: Sequence[Any]) -> str:
    """Returns a warning if float16 is requested on a GPU without tensor cores, otherwise an empty string."""
    if compute != tf.float16:
        return ""
    for gpu in gpus:
        try:
            details = tf.config.experimental.get_device_details(gpu)
        except (ValueError, tf.errors.OpError):  # the driver does not report the details
            continue
        capability = details.get("compute_capability")
        if capability is not None and tuple(capability) < _TENSOR_CORES:
            shown, needed = (".".join(map(str, numbers)) for numbers in (capability, _TENSOR_CORES))
            return (f". Warning: {details.get('device_name', 'this GPU')} has compute capability {shown}, but fast "
                    f"float16 needs {needed}: float16 saves memory on this GPU, but little or no time")
    return ""


def _cpu_warning(compute: tf.DType) -> str:
    if compute == tf.float16:
        return ". Warning: float16 is slower than float32 on CPUs; 'mixed' would use bfloat16"
    if not has_bfloat16():
        return ". Warning: this CPU has no bfloat16 instructions (avx512_bf16, amx_bf16), so float32 is faster"
    return ""


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
