"""Base class of speech encoders: their windows over time, and the parameters, checks and inputs that they share."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, SAY, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.conv_blocks.convolution import ReceptiveField, Window
from open_seq2seq.parts.portable import in_shape


class TimeWindows:
    """Mixin for encoders that apply windows over time, such as convolutions.

    A subclass implements ``time_windows``, or assigns ``self.time_stride``; output lengths are computed from either. An
    encoder that can be streamed also implements ``receptive_field``.
    """

    @property
    def time_windows(self) -> Sequence[Window]:
        """The windows over time, in the order of the layers; empty if the encoder does not change the length."""
        return ()

    @functools.cached_property  # can be assigned, unlike a property; encoders without windows do so
    def time_stride(self) -> int:
        """The step between consecutive outputs, in input frames."""
        return math.prod(window.stride for window in self.time_windows)

    def output_lengths(self, lengths: Any) -> Any:
        """Returns the numbers of outputs for inputs of these lengths.

        Args:
          lengths: numbers of input frames: an integer, an integer array or an int32 tensor of any shape.

        Returns:
          The numbers of outputs, of the same type and shape.
        """
        if not self.time_windows:
            return (lengths + self.time_stride - 1) // self.time_stride
        for window in self.time_windows:
            lengths = window.outputs(lengths)
        return lengths

    def receptive_field(self) -> ReceptiveField | None:
        """Returns the receptive field of an output; None if it is the whole utterance, which prevents streaming."""
        return None


class SpeechEncoder(TimeWindows, Encoder):
    """Base of speech encoders: subclasses implement ``_encode`` and ``time_windows``."""


class _Attributes(TimeWindows):
    """Adapter for an encoder without the mixin ``TimeWindows``; see ``time_windows_of``."""

    def __init__(self, encoder: object) -> None:
        self._encoder = encoder
        stride = getattr(encoder, "time_stride", None)
        if stride is not None:
            self.time_stride = stride

    @property
    def time_windows(self) -> Sequence[Window]:
        return getattr(self._encoder, "time_windows", ())

    def output_lengths(self, lengths: Any) -> Any:
        own = getattr(self._encoder, "output_lengths", None)
        return super().output_lengths(lengths) if own is None else own(lengths)

    def receptive_field(self) -> ReceptiveField | None:
        own = getattr(self._encoder, "receptive_field", None)
        return None if own is None else own()


def time_windows_of(encoder: object) -> TimeWindows:
    """Returns the encoder itself if it is a ``TimeWindows``, otherwise an adapter.

    The adapter uses the encoder's own ``time_windows``, ``time_stride``, ``output_lengths`` and ``receptive_field``, as
    far as they exist. An encoder that has none of them is assumed to keep the length of its input, and cannot be
    streamed.
    """
    return encoder if isinstance(encoder, TimeWindows) else _Attributes(encoder)


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
