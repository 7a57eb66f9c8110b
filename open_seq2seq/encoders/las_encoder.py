"""The encoder of Listen, Attend and Spell: convolutions over time, then recurrent layers with optional pooling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param, check_entries
from open_seq2seq.encoders.speech_encoder import (
    DATA_FORMAT,
    LAYER_CHANGES,
    SpeechEncoder,
    audio_features,
    audio_problems,
    optional_audio_params,
    required_audio_params,
)
from open_seq2seq.encoders.tdnn_encoder import ConvnetEntry, check_convnet_layers
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.rnn.layers import RecurrentStack
from open_seq2seq.utils.errors import ConfigError

_RECURRENT = {
    "type": Param(["lstm", "gru"], doc="Cell type."),
    "num_layers": Param(int, doc="Number of layers.", minimum=1, maximum=1000),
    "hidden_dim": Param(int, doc="Number of units per direction.", minimum=1),
}
_RECURRENT_OPTIONAL = {
    "dropout_keep_prob": Param((float, type(None)), None, "Keep probability of dropout after each layer; by "
                               "default the encoder's.",
                               above=0.0, maximum=1.0),
    "pool": Param(bool, False, "Whether to apply max pooling over time."),
    "pool_size": Param(int, 2, "Size of the pooling window, in frames.", minimum=1, maximum=10**5),
    "stride": Param(int, 2, "Stride of the pooling, in frames.", minimum=1, maximum=10**5),
}


class PooledRecurrence(Module):
    """Bidirectional recurrent layers, optionally followed by max pooling over time.

    Args:
      input_size: number of input channels.
      params: a checked entry of ``recurrent_layers``.
      keep_prob: keep probability of dropout, if the entry has no ``dropout_keep_prob``.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, input_size: int, params: Mapping[str, Any], keep_prob: float, initializer: Any,
                 regularizer: Any) -> None:
        super().__init__(name="pooled_recurrence")
        keep = keep_prob if params["dropout_keep_prob"] is None else params["dropout_keep_prob"]
        self.rnn = RecurrentStack(input_size, params["hidden_dim"], params["num_layers"], params["type"], True,
                                  1.0 - keep, True, initializer, regularizer)
        self.window = Window(params["pool_size"], params["stride"], padding="VALID") if params["pool"] else None
        self.output_size = self.rnn.output_size

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Applies the layers.

        Args:
          x: ``[batch, time, input_size]`` in the compute dtype.
          lengths: ``[batch]`` int32, in frames.
          training: whether to apply dropout.

        Returns:
          (outputs ``[batch, time', output_size]``, their lengths ``[batch]``). Frames at the end that do not fill a
          pooling window are dropped.
        """
        x = self.rnn(x, lengths, training)
        if self.window is None:
            return x, lengths
        missing = tf.maximum(self.window.size - tf.shape(x)[1], 0)  # some kernels fail without a full window
        padded = in_shape(tf.pad(x, [[0, 0], [0, missing], [0, 0]]), [None, None, x.shape[2]], is_padded=True)
        x = tf.nn.max_pool1d(padded, self.window.size, self.window.stride, "VALID")
        return x, self.window.outputs(lengths)


class ListenAttendSpellEncoder(SpeechEncoder):
    """The encoder of Listen, Attend and Spell, optionally preceded by convolutions.

    See Chan et al. 2015, https://arxiv.org/abs/1508.01211, which calls this encoder the listener. Recurrent layers are
    bidirectional, and the outputs of both directions are concatenated. Results do not depend on padding.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **required_audio_params("for layers that do not set it", " of convolutions"),
            "recurrent_layers": Param(list, doc="Recurrent layers, each a dict with type (lstm, gru), num_layers, "
                                      "hidden_dim, and optionally dropout_keep_prob, pool, pool_size and stride. May "
                                      "be empty.",
                                      on_change=LAYER_CHANGES),
            "convnet_layers": Param(list, doc="Convolutions over time, as in TDNNEncoder, without residual "
                                    "connections. May be empty.", on_change=LAYER_CHANGES),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **optional_audio_params(0.90),
            "data_format": DATA_FORMAT,
            "normalization": Param(["batch_norm", None], "batch_norm", "Normalisation after each convolution.",
                                   on_change=REFUSE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        entries, recurrent = self._checked(path)
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        settings = BlockSettings(resolve_activation(params["activation_fn"], f"{path}/activation_fn"),
                                 params["normalization"], params["bn_momentum"], params["bn_epsilon"], initializer,
                                 regularizer)
        channels = params["num_audio_features"]
        self.blocks: list[ConvBlock] = []
        for entry in entries:
            self.blocks.append(ConvBlock(channels, entry.shape, settings))
            channels = entry.shape.channels
        self.recurrences: list[PooledRecurrence] = []
        for layers in recurrent:
            self.recurrences.append(
                PooledRecurrence(channels, layers, params["dropout_keep_prob"], initializer, regularizer))
            channels = self.recurrences[-1].output_size
        self.output_size = channels

    def _checked(self, path: str) -> tuple[list[ConvnetEntry], list[dict[str, Any]]]:
        params = self.params
        entries, problems = (check_convnet_layers(params["convnet_layers"], params["dropout_keep_prob"],
                                                  f"{path}/convnet_layers") if params["convnet_layers"] else ([], []))
        problems += [f"'{path}/convnet_layers/{number}' is a conv2d or has a residual connection, which this encoder "
                     "does not support: use TDNNEncoder." for number, entry in enumerate(entries)
                     if entry.residual or entry.kind == "conv2d"]
        recurrent, found = check_entries(params["recurrent_layers"], _RECURRENT, _RECURRENT_OPTIONAL,
                                         f"{path}/recurrent_layers")
        problems += found + audio_problems(params, path)
        if not params["convnet_layers"] and not params["recurrent_layers"]:
            problems.append(f"'{path}' has neither convnet_layers nor recurrent_layers: give at least one.")
        if problems:
            raise ConfigError(problems)
        return entries, list(recurrent.values())

    @property
    def time_windows(self) -> list[Window]:
        windows = [layer.window for block in self.blocks for layer in block.layers]
        return windows + [layers.window for layers in self.recurrences if layers.window is not None]

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes features.

        Args:
          input_dict: a dict whose ``source_tensors`` are features ``[batch, time, num_audio_features]`` and lengths
            ``[batch]`` int32 in frames.

        Returns:
          A dict with ``outputs`` ``[batch, time', output_size]`` in the compute dtype, and ``src_length`` and
          ``outputs_length`` ``[batch]``, the numbers of output frames.
        """
        x, lengths = audio_features(input_dict, self.params["num_audio_features"], self.dtype_of("convolution"))
        for block in self.blocks:
            x, lengths = block(x, lengths, training=self.training)
        if self.recurrences:
            x = tf.cast(x, self.dtype_of("recurrence"))
        for recurrence in self.recurrences:
            x, lengths = recurrence(x, lengths, self.training)
        return {"outputs": tf.cast(x, self.compute_dtype), "src_length": lengths, "outputs_length": lengths}
