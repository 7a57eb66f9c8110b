"""The bases of decoders that predict spectrograms: prenet, recurrent layers, postnet, and from mel to magnitudes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.attention_record import record_attention
from open_seq2seq.parts.conv_blocks.block import BlockSettings
from open_seq2seq.parts.rnn.layers import ResidualLayer
from open_seq2seq.parts.tacotron import MagnitudeNet, Postnet, Prenet, check_convolutions, make_direction
from open_seq2seq.utils.errors import ConfigError

_ACTIVATION = Param((callable, str, type(None)), None, "Activation of the layer.", names="activation")


class FramesDecoder(Decoder):
    """Base of decoders whose results are the frames of spectrograms.

    Attributes:
      memory_size: number of channels of the encoder's output.
      num_features: number of features of a frame, without magnitudes if output_type is both.
      num_bins: number of magnitudes of a frame if output_type is both, else 0.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "encoder_size": Param((int, type(None)), None, "Number of channels of the encoder's output; by default the "
                                  "encoder's output_size.", minimum=1),
            "num_audio_features": Param((int, dict, type(None)), None, "Number of features of each frame, or a dict "
                                        "with mel and magnitude; set from the data layer.", derived=True),
            "output_type": Param(["mel", "magnitude", "both"], "mel", "Kind of spectrogram; set from the data layer.",
                                 derived=True),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        names, params = list(params), self.params
        size, problems = self._encoder_size("encoder_size")
        problems += self._feature_problems() + self._more_problems(names)
        if problems:
            raise ConfigError(problems)
        features = params["num_audio_features"]
        has_both = isinstance(features, Mapping)
        self.memory_size: int = size
        self.num_features: int = features["mel"] if has_both else features
        self.num_bins: int = features["magnitude"] if has_both else 0

    @property
    def state_of_speech(self) -> Sequence[tf.Variable]:
        """The variables, besides the weights, that inference reads; by default none."""
        return ()

    def _more_problems(self, names: Sequence[str]) -> list[str]:
        """Returns one sentence for each problem in the parameters of a subclass; ``names`` are those in the config."""
        return []

    def _feature_problems(self) -> list[str]:
        params, features = self.params, self.params["num_audio_features"]
        wanted = {"mel", "magnitude"} if params["output_type"] == "both" else set()
        if features is not None and (set(features) if isinstance(features, Mapping) else set()) == wanted:
            return []
        return [f"'{self.params_path}/num_audio_features' is {features} but has to be "
                f"{'a dict with mel and magnitude' if wanted else 'an integer'} for output_type "
                f"{params['output_type']}."]


class SpectrogramDecoder(FramesDecoder):
    """Base of decoders with a prenet, recurrent layers and a postnet.

    Attributes:
      prenet: the prenet, or None.
      postnet: the postnet, or None.
      magnitude: the network that computes magnitudes, or None.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **FramesDecoder.get_optional_params(),
            **_step_params(),
            "enable_postnet": Param(bool, True, "Whether convolutions correct the spectrogram."),
            "postnet_conv_layers": Param((list, type(None)), None, "These convolutions, each a dict with kernel_size "
                                         "and stride (lists with one number; the stride has to be 1), num_channels "
                                         "(-1: the number of features), padding (SAME) and activation_fn.",
                                         on_change=REFUSE),
            "postnet_bn_momentum": Param(float, 0.1, "Fraction of batch norm's old moving statistics kept at each "
                                         "step.", minimum=0.0, below=1.0),
            "postnet_bn_epsilon": Param(float, 1e-5, "Small number that batch norm adds to the variance.", above=0.0,
                                        on_change=REFUSE),
            "postnet_keep_dropout_prob": Param(float, 0.5, "Keep probability of dropout after these convolutions.",
                                               above=0.0, maximum=1.0),
            "exp_mag": Param(bool, False, "With output_type both, whether magnitudes are not logarithms; set from the "
                             "data layer.", derived=True),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        self.prenet: Prenet | None = None
        self.postnet: Postnet | None = None
        self.magnitude: MagnitudeNet | None = None

    def _more_problems(self, names: Sequence[str]) -> list[str]:
        """Returns the problems in the postnet's layers, and keeps the checked layers."""
        params, path = self.params, f"{self.params_path}/postnet_conv_layers"
        layers, problems = check_convolutions(params["postnet_conv_layers"] or [], path,
                                              optional={"activation_fn": _ACTIVATION})
        if params["enable_postnet"] and not params["postnet_conv_layers"]:
            problems.append(f"'{path}' is missing: list the convolutions, or set enable_postnet to False.")
        problems += [f"'{path}' has a layer with stride {layer['stride']} and padding {layer['padding']}: use the "
                     "stride [1] and SAME, which keep the number of frames."
                     for layer in layers if layer["stride"] != [1] or layer["padding"] != "SAME"]
        self._postnet_layers = layers
        return problems

    def _make_prenet(self) -> None:
        params = self.params
        if params["enable_prenet"]:
            activation = resolve_activation(params["prenet_activation"], f"{self.params_path}/prenet_activation")
            self.prenet = Prenet(self.num_features, params["prenet_units"], params["prenet_layers"], activation,
                                 params["prenet_dropout_prob"], params["inference_seed"], self.make_initializer(),
                                 self.make_regularizer())

    def _make_recurrent_layers(self, context_size: int) -> list[ResidualLayer]:
        """Returns the recurrent layers; the first one reads a frame after the prenet and ``context_size`` channels."""
        params, layers = self.params, []
        size = (params["prenet_units"] if params["enable_prenet"] else self.num_features) + context_size
        for _ in range(params["decoder_layers"]):
            direction = make_direction(params["decoder_cell_type"], params["decoder_cell_units"], size,
                                       params["zoneout_prob"], self.params_path, self.make_initializer(),
                                       self.make_regularizer())
            layers.append(ResidualLayer(direction, False, 0.0, params["dropout_prob"]))
            size = params["decoder_cell_units"]
        return layers

    def _make_postnet(self, mask_padding: bool = True) -> None:
        """Creates the postnet and the network that computes magnitudes."""
        params = self.params
        settings = BlockSettings(tf.nn.relu, "batch_norm", params["postnet_bn_momentum"], params["postnet_bn_epsilon"],
                                 self.make_initializer(), self.make_regularizer(), mask_padding)
        if params["enable_postnet"]:
            self.postnet = Postnet(self._postnet_layers, self.num_features, 1.0 - params["postnet_keep_dropout_prob"],
                                   settings, self.params_path)
        if params["output_type"] == "both":
            self.magnitude = MagnitudeNet(self.num_features, self.num_bins, params["exp_mag"], settings)

    def _previous_frames(self, targets: tf.Tensor, frames: int | tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Returns what each step reads in teacher forcing: the last frame of the step before, after the prenet.

        Args:
          targets: spectrograms ``[batch, time, features]``.
          frames: number of frames of a step.
          dtype: dtype of the result.

        Returns:
          ``[steps, batch, channels]``.
        """
        padded = tf.pad(targets[:, :, :self.num_features], [[0, 0], [0, -tf.shape(targets)[1] % frames], [0, 0]])
        inputs = tf.pad(padded[:, frames - 1::frames], [[0, 0], [1, 0], [0, 0]])[:, :-1]
        x = tf.transpose(tf.cast(inputs, dtype), [1, 0, 2])
        return x if self.prenet is None else self.prenet(x, tf.range(tf.shape(x)[0]), self.training)

    def _finished(self, spectrogram: tf.Tensor, weights: tf.Tensor, lengths: tf.Tensor, mask: tf.Tensor) -> list[Any]:
        """Applies the postnet.

        Args:
          spectrogram: ``[batch, time, features]`` FP32.
          weights: attention weights ``[batch, time, text]`` FP32.
          lengths: numbers of frames ``[batch]``.
          mask: ``[batch, time, 1]`` FP32, 0 at frames that are set to zero.

        Returns:
          ``[spectrogram, final spectrogram, weights, magnitudes]``; see the subclasses' ``_decode``.
        """
        spectrogram, weights = spectrogram * mask, weights * mask
        x, dtype = spectrogram, self.dtype_of("convolution")
        if self.postnet is not None:
            x += tf.cast(self.postnet(tf.cast(x, dtype), lengths, self.training), tf.float32)
        magnitude = tf.zeros([tf.shape(x)[0], tf.shape(x)[1], 0])
        if self.magnitude is not None:
            magnitude = tf.cast(self.magnitude(tf.cast(x, dtype), lengths, self.training), tf.float32) * mask
        record_attention(weights[:, tf.newaxis])
        return [spectrogram, x, weights, magnitude]


def _step_params() -> dict[str, Any]:
    """Returns the specs of the parameters of the prenet and of the recurrent layers."""
    return {
        "enable_prenet": Param(bool, True, "Whether the previous frame passes through dense layers."),
        "prenet_layers": Param(int, 2, "Number of these layers.", minimum=1, maximum=1000),
        "prenet_units": Param(int, 256, "Number of units of these layers.", minimum=1),
        "prenet_activation": Param((callable, str, type(None)), "relu", "Activation of these layers.",
                                   names="activation", on_change=REFUSE),
        "prenet_dropout_prob": Param(float, 0.5, "Dropout rate after these layers, in inference, too.",
                                     minimum=0.0, below=1.0),
        "inference_seed": Param(int, 0, "Seed of the dropout of the prenet outside of training; another seed gives "
                                "another reading of the same text.", minimum=0, maximum=2**43 - 1, on_change=FREE),
        "zoneout_prob": Param(float, 0.0, "Probability with which an element of a state of the recurrent layers "
                              "keeps its value from the previous step.", minimum=0.0, below=1.0),
        "dropout_prob": Param(float, 0.1, "Dropout rate after each layer.", minimum=0.0, below=1.0),
        "reduction_factor": Param(int, 1, "Number of frames that each step of the recurrent layers predicts.",
                                  "frames", minimum=1, maximum=1000),
    }
