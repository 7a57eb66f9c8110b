"""What ``dtype`` in a config means on the machine at hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError, did_you_mean
from open_seq2seq.utils.processor import has_bfloat16

_LABELS = ("float32", "mixed", "mixed_float16", "mixed_bfloat16")
# Half types of old configs: variables were half there too; here they are FP32 always.
_ALIASES = {"float16": "mixed_float16", "half": "mixed_float16", "bfloat16": "mixed_bfloat16"}


class PrecisionPolicy(NamedTuple):
    """The arithmetic of a model; its variables are FP32 in any case.

    Attributes:
      compute: float32, float16 or bfloat16.
      label: what the config asked for: ``float32``, ``mixed``, ``mixed_float16``, ``mixed_bfloat16``.
      note: a line for the log that says what is used and why.
    """

    compute: tf.DType
    label: str
    note: str


def resolve_dtype(dtype: str | tf.DType | None) -> PrecisionPolicy:
    """Chooses the arithmetic type.

    ``mixed`` is float16 where a GPU is visible and bfloat16 on CPUs, where float16 is
    slower than float32.

    Raises:
      ConfigError: a type that is not supported.
    """
    label = _label(dtype)
    on_gpu = bool(tf.config.get_visible_devices("GPU"))
    place = "GPU" if on_gpu else "CPU"
    if label == "float32":
        return PrecisionPolicy(tf.float32, label, "dtype: float32")
    if label == "mixed":
        compute = tf.float16 if on_gpu else tf.bfloat16
    else:
        compute = tf.as_dtype(label.removeprefix("mixed_"))
    note = f"dtype: {label}, that is {compute.name} arithmetic on this {place} with FP32 weights"
    return PrecisionPolicy(compute, label, note + ("" if on_gpu else _cpu_warning(compute)))


def _label(dtype: Any) -> str:
    if dtype is None:
        return "float32"
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", str(dtype))
    name = _ALIASES.get(name, name)
    if name not in _LABELS:
        raise ConfigError([f"'dtype' is {dtype!r} but has to be one of {', '.join(_LABELS)}."
                           + did_you_mean(name, _LABELS)])
    return name


def _cpu_warning(compute: tf.DType) -> str:
    if compute == tf.float16:
        return ". Warning: float16 is slower than float32 on CPUs; 'mixed' would use bfloat16"
    if not has_bfloat16():
        return ". Warning: this CPU has no bfloat16 instructions (avx512_bf16, amx_bf16), so float32 is faster"
    return ""
