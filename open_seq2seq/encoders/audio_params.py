"""What encoders of audio features have in common: parameters, their checks, and the way features come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, SAY, Param

NUM_AUDIO_FEATURES = Param((int, type(None)), None, "Columns of the features; set from the data layer.", derived=True,
                           minimum=1)
BN_EPSILON = Param(float, 1e-3, "Added to the variance.", above=0.0, on_change=REFUSE)
# Of encoders whose convolutions are over time.
DATA_FORMAT = Param(["channels_last", "channels_first"], "channels_last", "Accepted for old configs; activations are "
                    "channels last, and the weights do not depend on it.", on_change=FREE)
# Of lists of convolutions and of recurrent layers.
LAYER_CHANGES = {"": REFUSE, "dropout_keep_prob": SAY}


def activation_param(where: str = "") -> Param:
    """Declares ``activation_fn``; ``where`` says of which layers: `` of convolutions``."""
    return Param((callable, str, type(None)), doc=f"Activation{where}: a function, or its name: relu, relu20 (which "
                 "clips at 20)…", names="activation", on_change=REFUSE)


def momentum_param(default: float) -> Param:
    """Declares ``bn_momentum``."""
    return Param(float, default, "Share of the moving statistics that a step keeps.", minimum=0.0, below=1.0)


def audio_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Checks that ``num_audio_features`` is known.

    Args:
      params: the encoder's, their types checked.
      path: where they stand in the config.

    Returns:
      One sentence for each mistake.
    """
    if params["num_audio_features"] is None:
        return [f"'{path}/num_audio_features' is missing: the data layer does not tell it."]
    return []


def audio_features(input_dict: Mapping[str, Any], num_audio_features: int, dtype: tf.DType,
                   mask: bool = True) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns an encoder's input.

    Args:
      input_dict: ``source_tensors``: features ``[batch, time, num_audio_features]`` and lengths ``[batch]`` in frames.
      num_audio_features: columns of the features.
      dtype: to compute in.
      mask: whether padding becomes zero, whatever stands in it.

    Returns:
      Features in ``dtype``; lengths, int32.
    """
    x, lengths = input_dict["source_tensors"][:2]
    x = tf.ensure_shape(tf.cast(x, dtype), [None, None, num_audio_features])
    if mask:
        held = tf.sequence_mask(lengths, tf.shape(x)[1])[:, :, tf.newaxis]
        x = tf.where(held, x, tf.zeros([], x.dtype))
    return x, tf.cast(lengths, tf.int32)
