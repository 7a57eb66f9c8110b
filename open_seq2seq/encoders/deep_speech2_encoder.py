"""Deep Speech 2's encoder: convolutions over time and frequency, recurrent layers, and a dense layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, check_entries
from open_seq2seq.encoders.speech_encoder import (
    LAYER_CHANGES,
    SpeechEncoder,
    audio_features,
    audio_problems,
    optional_audio_params,
    required_audio_params,
)
from open_seq2seq.parts.activations import Activation, activate_kept, resolve_activation
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings, BlockShape, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import ReceptiveField, Window, field_of
from open_seq2seq.parts.conv_blocks.primitives import convolve_channels
from open_seq2seq.parts.dense import add_bias
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.layers import RecurrentStack
from open_seq2seq.utils.errors import ConfigError


class RowConvolution(Module):
    """Depthwise convolution over time, batch norm and activation, computed in FP32.

    See Amodei et al. 2015, Deep Speech 2, https://arxiv.org/abs/1512.02595, section 3.7. As in NVIDIA's
    OpenSeq2Seq, the window is centred on each frame; in the paper, it begins at the frame.

    Args:
      channels: number of channels of the input and the output.
      width: width of the filters, in frames.
      activation: the activation, or None.
      momentum: fraction of batch norm's old moving statistics that is kept at each step.
      epsilon: number that batch norm adds to the variance.
      initializer: initialiser of the filters.
      regularizer: regulariser of the filters and of batch norm's scale.
    """

    def __init__(self, channels: int, width: int, activation: Activation | None, momentum: float, epsilon: float,
                 initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="row_convolution")
        self.window = Window(width)
        self.activation = activation
        self.kernel = self.weight([width, channels, 1], initializer, regularizer=regularizer)
        self.norm = BatchNorm(channels, momentum, epsilon, regularizer=regularizer)

    def __call__(self, x: tf.Tensor, held: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns ``[batch, time, channels]`` in the dtype of ``x``, 0 at padding.

        Args:
          x: ``[batch, time, channels]``, 0 at padding.
          held: boolean ``[batch, time]``, False at padding.
          training: whether batch norm uses the batch statistics instead of the moving ones.
        """
        wide = tf.pad(tf.cast(x, tf.float32), [[0, 0], self.window.pads(tf.shape(x)[1]), [0, 0]])
        y = convolve_channels(wide, tf.convert_to_tensor(self.kernel), 1, "VALID")
        y = self.norm(y, held, training)
        return tf.cast(activate_kept(y, self.activation, held[:, :, tf.newaxis], 1.0), x.dtype)


# Values of rnn_type in configs, and the cells that they select.
RNN_TYPES = {"cudnn_gru": "gru", "cudnn_lstm": "lstm", "gru": "gru", "lstm": "lstm", "layernorm_lstm": "layernorm_lstm",
             "classic_gru": "classic_gru"}
_LAYOUTS = ["channels_last", "channels_first", "BTFC", "BCTF", "BFTC", "BCFT"]
_CONV_LAYER = {
    "kernel_size": Param((list, tuple), doc="Numbers of taps over time and frequency.", minimum=1, maximum=10**5),
    "stride": Param((list, tuple), doc="Strides over time and frequency.", minimum=1, maximum=10**5),
    "num_channels": Param(int, doc="Number of output channels.", minimum=1),
    "padding": Param(["SAME", "VALID"], doc="SAME pads with zeros, VALID does not pad."),
}


class DeepSpeech2Encoder(SpeechEncoder):
    """Deep Speech 2 (Amodei et al. 2015, https://arxiv.org/abs/1512.02595).

    Consists of convolutions with batch norm, unidirectional or bidirectional recurrent layers, an optional row
    convolution, and a dense layer with dropout. The outputs of both directions of a recurrent layer are concatenated.
    Results do not depend on padding.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **required_audio_params("after recurrent layers and the dense layer",
                                    " of convolutions, of the row convolution and of the dense layer"),
            "conv_layers": Param(list, doc="Convolutions, each a dict with kernel_size and stride (time, frequency), "
                                 "num_channels and padding. May be empty.", on_change=LAYER_CHANGES),
            "num_rnn_layers": Param(int, doc="Number of recurrent layers; may be 0.", minimum=0, maximum=1000),
            "row_conv": Param(bool, doc="Whether to apply a row convolution after the recurrent layers."),
            "n_hidden": Param(int, doc="Number of channels of the dense layer and of the outputs.", minimum=1),
            "use_cudnn_rnn": Param(bool, doc="Whether to use cuDNN on GPUs if it supports rnn_type; weights and "
                                   "results "
                                   "are the same.", on_change=FREE),
            "rnn_cell_dim": Param(int, doc="Number of units in each direction of each recurrent layer.", minimum=1),
            "rnn_type": Param(list(RNN_TYPES), doc="Cell type. gru applies the reset gate after the matrix product (as "
                              "in cuDNN), classic_gru before it. With the prefix cudnn_, dropout is applied only "
                              "between layers; otherwise also after the last layer."),
            "rnn_unidirectional": Param(bool, doc="Whether recurrent layers are unidirectional."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **optional_audio_params(0.99),
            "row_conv_width": Param(int, 8, "Number of taps of the row convolution; 0 and 1 disable it.", "frames",
                                    minimum=0, maximum=10**5),
            "data_format": Param(_LAYOUTS, "channels_last", "Accepted for old configs; has no effect, because "
                                 "activations are always BTFC (batch, time, frequency, channels).",
                                 on_change=FREE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        layers, problems = check_entries(params["conv_layers"], _CONV_LAYER, {}, f"{path}/conv_layers", _layer_problems)
        problems += audio_problems(params, path)
        if problems:
            raise ConfigError(problems)
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        self._activation = resolve_activation(params["activation_fn"], f"{path}/activation_fn")
        settings = BlockSettings(self._activation, "batch_norm", params["bn_momentum"], params["bn_epsilon"],
                                 initializer, regularizer)
        size = self._build_convolutions(list(layers.values()), settings)
        rate, plain = 1.0 - params["dropout_keep_prob"], not params["rnn_type"].startswith("cudnn_")
        self.rnn = RecurrentStack(size, params["rnn_cell_dim"], params["num_rnn_layers"], RNN_TYPES[params["rnn_type"]],
                                  not params["rnn_unidirectional"], rate, plain, initializer, regularizer,
                                  params["use_cudnn_rnn"])
        size, width = self.rnn.output_size, params["row_conv_width"]
        self.row_convolution = RowConvolution(
            size, width, self._activation, params["bn_momentum"], params["bn_epsilon"], initializer,
            regularizer) if params["row_conv"] and width > 1 else None
        self.output_size = params["n_hidden"]
        self.kernel = self.weight([size, self.output_size], initializer, regularizer=regularizer)
        self.bias = self.weight([self.output_size], "zeros")

    def _build_convolutions(self, layers: list[Mapping[str, Any]], settings: BlockSettings) -> int:
        """Creates the convolutions; returns the number of values per frame after the last one."""
        width, channels = self.params["num_audio_features"], 1
        self.convolutions: list[ConvBlock] = []
        for layer in layers:
            windows = [Window(size, stride, padding=layer["padding"])
                       for size, stride in zip(layer["kernel_size"], layer["stride"], strict=True)]
            shape = BlockShape("conv2d", 1, windows, layer["num_channels"], 0.0)
            self.convolutions.append(ConvBlock(channels, shape, settings))
            width, channels = windows[1].outputs(width), layer["num_channels"]
        if width < 1:
            raise ConfigError([f"'{self.params_path}/conv_layers' reduce the "
                               f"{self.params['num_audio_features']} features to none: use the padding SAME."])
        return width * channels

    @property
    def time_windows(self) -> list[Window]:
        windows = [layer.window for block in self.convolutions for layer in block.layers]
        return windows if self.row_convolution is None else [*windows, self.row_convolution.window]

    def receptive_field(self) -> ReceptiveField | None:
        recurrent = self.params["num_rnn_layers"] > 0
        if recurrent and not self.params["rnn_unidirectional"]:
            return None
        field = field_of(self.time_windows)
        return field._replace(before=math.inf) if recurrent else field

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes features.

        Args:
          input_dict: a dict whose ``source_tensors`` are features ``[batch, time, num_audio_features]`` and lengths
            ``[batch]`` int32 in frames.

        Returns:
          A dict with ``outputs`` ``[batch, time', n_hidden]`` in the compute dtype, and ``src_length`` and
          ``outputs_length`` ``[batch]``, the numbers of output frames.
        """
        x, lengths = audio_features(input_dict, self.params["num_audio_features"], self.dtype_of("convolution"))
        x = tf.expand_dims(x, -1)
        for block in self.convolutions:
            x, lengths = block(x, lengths, training=self.training)
        x = tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], x.shape[2] * x.shape[3]])
        if self.params["num_rnn_layers"] > 0:
            x = tf.cast(x, self.dtype_of("recurrence"))
        x = self.rnn(x, lengths, self.training)
        if self.row_convolution is not None:
            x = self.row_convolution(x, tf.sequence_mask(lengths, tf.shape(x)[1]), self.training)
        x = self._dense(tf.cast(x, self.compute_dtype))
        return {"outputs": x, "src_length": lengths, "outputs_length": lengths}

    def _dense(self, x: tf.Tensor) -> tf.Tensor:
        rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), cast_weight(self.kernel, x.dtype))
        rows = add_bias(rows, tf.convert_to_tensor(self.bias))
        rows = rows if self._activation is None else self._activation(rows)
        rows = dropout(rows, 1.0 - self.params["dropout_keep_prob"], self.training)
        return tf.reshape(rows, [tf.shape(x)[0], tf.shape(x)[1], self.output_size])


def _layer_problems(layer: Mapping[str, Any], place: str) -> list[str]:
    return [f"'{place}/{name}' must be two positive integers (time, frequency), got {layer[name]}."
            for name in ("kernel_size", "stride")
            if len(layer[name]) != 2 or not all(isinstance(n, int) and n >= 1 for n in layer[name])]
