"""Process-wide settings of TensorFlow, made once before any model is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError


def set_up_process(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Applies the process-wide settings in a run's parameters.

    Args:
      sections: the parameters of each section that this process uses.

    Returns:
      Lines for the log that describe the settings.

    Raises:
      ConfigError: ``tf32`` differs between the sections.
    """
    return [note for note in (_set_tf32(sections),) if note]


def _set_tf32(sections: Sequence[Mapping[str, Any]]) -> str | None:
    """Allows or forbids TensorFloat-32, as ``tf32`` says; returns a line for the log, or None.

    In TensorFloat-32, a GPU rounds the factors of float32 products to 10 bits of mantissa.
    """
    asked = {params.get("tf32") for params in sections}
    if len(asked) > 1:
        raise ConfigError(["'tf32' differs between the sections of this run, but applies to the whole process: set it "
                           "once, in base_params."])
    setting = asked.pop() if asked else None
    if setting is not None:
        tf.config.experimental.enable_tensor_float_32_execution(setting)
    if tf.config.get_visible_devices("GPU"):
        enabled = tf.config.experimental.tensor_float_32_execution_enabled()
        return f"TensorFloat-32: {'on' if enabled else 'off'}" + (
            "" if setting is not None else " (TensorFlow's default; change it with 'tf32')")
    return "TensorFloat-32: 'tf32' has no effect, because there is no GPU" if setting else None
