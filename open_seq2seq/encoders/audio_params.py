"""Parameters, checks and input preparation that are shared by encoders of audio features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, SAY, Param
from open_seq2seq.encoders.speech_encoder import SpeechEncoder
from open_seq2seq.parts.portable import in_shape

# Declaration of data_format, for encoders with convolutions over time.
DATA_FORMAT = Param(["channels_last", "channels_first"], "channels_last", "Accepted for old configs; has no effect, "
                    "because activations are always channels-last.", on_change=FREE)
# on_change of parameters that list convolutions or recurrent layers. If a layer differs from that of the checkpoint, a
# changed dropout_keep_prob causes a message, and any other changed entry (key "") an error.
LAYER_CHANGES = {"": REFUSE, "dropout_keep_prob": SAY}


def required_audio_params(dropped: str, activated: str = "") -> dict[str, Any]:
    """Returns the required parameters that encoders of audio features share.

    Args:
      dropped: end of the description of ``dropout_keep_prob``: where dropout is applied, such as ``after each layer``.
      activated: where ``activation_fn`` is applied, such as `` of convolutions``; follows "Activation" in its
        description.
    """
    return {
        **SpeechEncoder.get_required_params(),
        "dropout_keep_prob": Param(float, doc=f"Keep probability of dropout {dropped}.", above=0.0,
                                   maximum=1.0),
        "activation_fn": Param((callable, str, type(None)), doc=f"Activation{activated}: a function, a name such as "
                               "relu or relu20 (ReLU clipped at 20), or None.", names="activation", on_change=REFUSE),
    }


def optional_audio_params(bn_momentum: float) -> dict[str, Any]:
    """Returns the optional parameters that encoders of audio features share.

    Args:
      bn_momentum: default of the parameter ``bn_momentum``.
    """
    return {
        **SpeechEncoder.get_optional_params(),
        "bn_momentum": Param(float, bn_momentum, "Fraction of batch norm's old moving statistics kept at each step.",
                             minimum=0.0,
                             below=1.0),
        "bn_epsilon": Param(float, 1e-3, "Small number that normalisation adds to the variance.", above=0.0,
                            on_change=REFUSE),
        "num_audio_features": Param((int, type(None)), None, "Number of features per frame; set from the data layer.",
                                    derived=True, minimum=1),
    }


def audio_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns a list with one message if ``num_audio_features`` is missing, otherwise an empty list.

    Args:
      params: the encoder's parameters.
      path: path of the parameters in the config.
    """
    if params["num_audio_features"] is None:
        return [f"'{path}/num_audio_features' is missing: set it, because the data layer does not provide it."]
    return []


def audio_features(input_dict: Mapping[str, Any], num_audio_features: int, dtype: tf.DType,
                   mask: bool = True) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns an encoder's input: features ``[batch, time, num_audio_features]``, and lengths ``[batch]`` int32.

    Args:
      input_dict: a dict whose ``source_tensors`` begin with features ``[batch, time, num_audio_features]`` and lengths
        ``[batch]`` in frames, of any dtypes.
      num_audio_features: expected number of features per frame.
      dtype: dtype of the returned features.
      mask: whether to set padding to zero.
    """
    x, lengths = input_dict["source_tensors"][:2]
    x = in_shape(tf.cast(x, dtype), [None, None, num_audio_features])
    if mask:
        held = tf.sequence_mask(lengths, tf.shape(x)[1])[:, :, tf.newaxis]
        x = tf.where(held, x, tf.zeros([], x.dtype))
    return x, tf.cast(lengths, tf.int32)
