"""Settings of TensorFlow for the whole process, made once before any model is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError


def set_up_process(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Makes the settings that a run's parameters ask for.

    Args:
      sections: the parameters of each mode that runs in this process.

    Returns:
      Lines for the log that say what was set.

    Raises:
      ConfigError: sections that disagree.
    """
    return [note for note in (_set_tf32(sections),) if note]


def _set_tf32(sections: Sequence[Mapping[str, Any]]) -> str | None:
    """Lets GPUs round the factors of float32 products to TensorFloat-32 (10 bits of mantissa), or forbids it."""
    asked = {params.get("tf32") for params in sections}
    if len(asked) > 1:
        raise ConfigError(["'tf32' differs between the sections of this run, but one process has one setting: give it "
                           "in base_params."])
    setting = asked.pop() if asked else None
    if setting is not None:
        tf.config.experimental.enable_tensor_float_32_execution(setting)
    if tf.config.get_visible_devices("GPU"):
        enabled = tf.config.experimental.tensor_float_32_execution_enabled()
        return f"TensorFloat-32: {'on' if enabled else 'off'}" + (
            "" if setting is not None else " (TensorFlow's default; set it by 'tf32')")
    return "TensorFloat-32: 'tf32' has no effect here, because there is no GPU" if setting else None
