"""Generation as in inference: compiled once for prompts of any number and length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def compiled_generation(encoder: Any) -> Callable[..., tf.Tensor]:
    """Returns ``encoder.generate``, traced without knowing the shapes of its arguments."""
    shapes = [tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None], [None])]
    return tf.function(encoder.generate, input_signature=shapes)
