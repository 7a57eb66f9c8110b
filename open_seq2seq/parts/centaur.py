"""Layers of Centaur, the convolutional model of speech synthesis of NVIDIA's OpenSeq2Seq.

Outside of training, a causal layer can also be applied to the newest column of a sequence alone, given the columns that
it has read before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.attention_record import recording_attention
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings, BlockShape, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.dropout import add_dropped, dropout, keep_scale
from open_seq2seq.parts.precision import of_weights
from open_seq2seq.parts.tacotron import Dense, check_convolutions
from open_seq2seq.parts.transformer.attention import CrossAttention
from open_seq2seq.parts.transformer.normalization import LayerNorm

_LAYER = {
    "is_causal": Param(bool, False, "Whether an output depends on no later input."),
    "activation_fn": Param((callable, str, type(None)), "relu", "Activation of the layer.", names="activation"),
}


def check_residual_layers(entries: Sequence[Any], path: str, channels: int,
                          causal: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Checks a list of convolutions that are added to their inputs.

    Args:
      entries: the list in the config.
      path: its path in the config, for messages.
      channels: number of channels of the inputs.
      causal: whether the layers must be causal.

    Returns:
      (the entries with defaults filled in; one sentence for each problem).
    """
    layers, problems = check_convolutions(entries, path, optional=_LAYER)
    for number, layer in enumerate(layers):
        place, padding = f"{path}/{number}", "VALID" if layer["is_causal"] else "SAME"
        if layer["num_channels"] != channels:
            problems.append(f"'{place}/num_channels' is {layer['num_channels']}, but must be {channels}, because the "
                            "result is added to the input.")
        if layer["stride"] != [1] and len(layer["stride"]) == 1:
            problems.append(f"'{place}/stride' is {layer['stride']}, but must be [1]: the result is added to the "
                            "input.")
        if causal and not layer["is_causal"]:
            problems.append(f"'{place}/is_causal' must be True: no frame may depend on later ones.")
        elif layer["padding"] != padding:
            problems.append(f"'{place}/padding' is {layer['padding']}, but must be {padding} with is_causal "
                            f"{layer['is_causal']}.")
    return layers, problems


class ResidualConvolution(ConvBlock):
    """A convolution with a bias, batch norm, activation and dropout, which is added to its input.

    Args:
      layer: a checked entry of the list; see ``check_residual_layers``.
      dropout_rate: dropout rate after the activation.
      settings: settings of the normalisation and of the initialiser.
      path: path of the entry in the config, for messages.

    Attributes:
      reach: number of earlier inputs that an output depends on.
    """

    def __init__(self, layer: Mapping[str, Any], dropout_rate: float, settings: BlockSettings, path: str) -> None:
        activation = resolve_activation(layer["activation_fn"], f"{path}/activation_fn")
        window = Window(layer["kernel_size"][0], padding="CAUSAL" if layer["is_causal"] else "SAME")
        shape = BlockShape("tcn", 1, [window], layer["num_channels"], dropout_rate)
        super().__init__(layer["num_channels"], shape, settings._replace(activation=activation))
        self._activation, self.reach = activation, window.span - 1

    def added(self, x: tf.Tensor, lengths: tf.Tensor, training: bool, dtype: tf.DType) -> tf.Tensor:
        """Returns ``x`` ``[batch, time, channels]`` plus the result of the layer.

        Args:
          x: the input; unless the layer is causal, zero at padding.
          lengths: numbers of valid positions ``[batch]``.
          training: whether to apply dropout, and to normalise by the statistics of the batch.
          dtype: dtype of the convolution.
        """
        y, _ = self(tf.cast(x, dtype), lengths, training=training)
        return x + tf.cast(y, x.dtype)

    def folded(self, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the kernel ``[taps · channels, channels]`` and the offset, with batch norm by moving statistics."""
        def compute() -> tuple[tf.Tensor, tf.Tensor]:
            convolution, norm = self.layers[0].convolution, self.layers[0].norm
            assert norm is not None
            factor = tf.math.rsqrt(norm.moving_variance + norm.epsilon) * norm.gamma
            kernel = tf.reshape(convolution.kernel * factor, [-1, convolution.out_channels])
            offset = (convolution.bias - norm.moving_mean) * factor + norm.beta
            return tf.cast(kernel, dtype), tf.cast(offset, dtype)

        return of_weights(compute)

    def column(self, x: tf.Tensor, earlier: tf.Tensor,
               folded: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what ``added`` returns at one position outside of training, and the inputs for the next one.

        Args:
          x: the input at this position ``[batch, 1, channels]``.
          earlier: the inputs before it ``[batch, reach, channels]``, zeros before the first position.
          folded: the result of ``folded``.
        """
        taps = tf.concat([earlier, x], 1)
        kernel, offset = folded
        y = tf.matmul(tf.reshape(taps, [-1, kernel.shape[0]]), kernel) + offset
        y = y if self._activation is None else self._activation(y)
        return x + y[:, tf.newaxis], taps[:, 1:]


class Columns:
    """Applies causal layers to the newest column, in the order of the network, and keeps what they will read again.

    Args:
      earlier: the inputs that each layer keeps ``[batch, reach, channels]``.
      folded: the folded weights of each layer; see ``ResidualConvolution.folded``.

    Attributes:
      kept: the inputs that each layer keeps for the next column.
    """

    def __init__(self, earlier: Sequence[tf.Tensor], folded: Sequence[Any]) -> None:
        self._layers: Iterator[tuple[tf.Tensor, Any]] = iter(list(zip(earlier, folded, strict=True)))
        self.kept: list[tf.Tensor] = []

    def __call__(self, layer: ResidualConvolution, x: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, 1, channels]`` for the newest column ``x`` ``[batch, 1, channels]``."""
        y, kept = layer.column(x, *next(self._layers))
        self.kept.append(kept)
        return y


Convolve = Callable[[ResidualConvolution, tf.Tensor], tf.Tensor]
"""Function that applies a layer to ``[batch, time, channels]``: whole sequences, or ``Columns``."""


class Source(NamedTuple):
    """What the attention of a block reads.

    Attributes:
      memory: keys and values of the symbols; see ``CrossAttention.memory``.
      kernels: the other matrices of the attention; see ``CrossAttention.kernels``.
    """

    memory: tuple[tf.Tensor, tf.Tensor]
    kernels: tuple[tf.Tensor, tf.Tensor]


class AttentionBlock(Module):
    """A convolution, an attention to the symbols and a dense layer, each added to its input.

    The inputs of the attention and of the dense layer are normalised.

    Args:
      size: number of channels.
      memory_size: number of channels of the symbols.
      heads: number of heads of the attention.
      convolution: the convolution, or None.
      rates: dropout rates of the attention weights, and of the results of the attention and of the dense layer.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, size: int, memory_size: int, heads: int, convolution: ResidualConvolution | None,
                 rates: tuple[float, float], initializer: Any, regularizer: Any) -> None:
        super().__init__(name="attention_block")
        self.convolution = convolution
        self._rate = rates[1]
        self.attention_norm = LayerNorm(size)
        self.attention = CrossAttention(size, heads, rates[0], initializer, regularizer, memory_size)
        self.feed_forward_norm = LayerNorm(size)
        self.feed_forward = Dense(size, size, initializer, regularizer)

    def source(self, symbols: tf.Tensor, training: bool) -> Source:
        """Returns what the attention reads of ``symbols`` ``[batch, text, memory_size]``; it is the same at all steps.

        Args:
          symbols: the symbols, in the dtype of the block's input.
          training: whether dropout is applied.
        """
        return Source(self.attention.memory(symbols, training),
                      self.attention.kernels(symbols.dtype, keep_scale(self._rate, training)))

    def __call__(self, x: tf.Tensor, source: Source, bias: tf.Tensor, convolve: Convolve,
                 training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the result ``[batch, time, size]``, and the attention weights ``[batch, heads, time, text]`` FP32.

        Args:
          x: ``[batch, time, size]``.
          source: the result of ``source``.
          bias: FP32, broadcasts to the shape of the weights; -1e9 at symbols that must not be attended to, else 0.
          convolve: applies the convolution.
          training: whether to apply dropout.
        """
        if self.convolution is not None:
            x = convolve(self.convolution, x)
        with recording_attention() as record:
            y = self.attention(self.attention_norm(x), source.memory, bias, source.kernels, training)
        x = add_dropped(x, y, self._rate, training)
        y = self.feed_forward(self.feed_forward_norm(x))
        return x + dropout(y, self._rate, training), record[-1]
