"""What encoders of audio features share: parameters, their checks, and the preparation of the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, SAY, Param
from open_seq2seq.encoders.speech_encoder import SpeechEncoder

# Of encoders whose convolutions are over time.
DATA_FORMAT = Param(["channels_last", "channels_first"], "channels_last", "Accepted for old configs; activations are "
                    "channels last, and the weights do not depend on it.", on_change=FREE)
# Of lists of convolutions and of recurrent layers.
LAYER_CHANGES = {"": REFUSE, "dropout_keep_prob": SAY}


def required_audio_params(dropped: str, activated: str = "") -> dict[str, Any]:
    """Returns the required parameters that encoders of audio features share.

    Args:
      dropped: where ``dropout_keep_prob`` applies, for the parameter reference.
      activated: where ``activation_fn`` applies: `` of convolutions``.
    """
    return {
        **SpeechEncoder.get_required_params(),
        "dropout_keep_prob": Param(float, doc=f"Share of activations that dropout keeps, {dropped}.", above=0.0,
                                   maximum=1.0),
        "activation_fn": Param((callable, str, type(None)), doc=f"Activation{activated}: a function, or its name: "
                               "relu, relu20 (which clips at 20)…", names="activation", on_change=REFUSE),
    }


def optional_audio_params(bn_momentum: float) -> dict[str, Any]:
    """Returns the optional parameters that encoders of audio features share; ``bn_momentum`` is its default."""
    return {
        **SpeechEncoder.get_optional_params(),
        "bn_momentum": Param(float, bn_momentum, "Share of the moving statistics that a step keeps.", minimum=0.0,
                             below=1.0),
        "bn_epsilon": Param(float, 1e-3, "Added to the variance.", above=0.0, on_change=REFUSE),
        "num_audio_features": Param((int, type(None)), None, "Columns of the features; set from the data layer.",
                                    derived=True, minimum=1),
    }


def audio_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns a sentence if ``num_audio_features`` is missing in the parameters, which stand at ``path``."""
    if params["num_audio_features"] is None:
        return [f"'{path}/num_audio_features' is missing: give it, since the data layer does not."]
    return []


def audio_features(input_dict: Mapping[str, Any], num_audio_features: int, dtype: tf.DType,
                   mask: bool = True) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns an encoder's input: features ``[batch, time, num_audio_features]``, and lengths ``[batch]`` int32.

    Args:
      input_dict: ``source_tensors``: features and lengths in frames, of any types.
      dtype: type of the result.
      mask: whether padding is replaced by zeros.
    """
    x, lengths = input_dict["source_tensors"][:2]
    x = tf.ensure_shape(tf.cast(x, dtype), [None, None, num_audio_features])
    if mask:
        held = tf.sequence_mask(lengths, tf.shape(x)[1])[:, :, tf.newaxis]
        x = tf.where(held, x, tf.zeros([], x.dtype))
    return x, tf.cast(lengths, tf.int32)
