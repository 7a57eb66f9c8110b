"""Convolutions and recurrent layers of Tacotron 2, as configs for NVIDIA's OpenSeq2Seq describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param, check_entries, check_params
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings, BlockShape, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.layers import Direction, RecurrentLayer

_CONVOLUTION = {
    "kernel_size": Param((list, tuple), doc="Number of taps on each axis.", minimum=1, maximum=10**5),
    "stride": Param((list, tuple), doc="Stride on each axis.", minimum=1, maximum=10**5),
    "num_channels": Param(int, doc="Number of output channels.", minimum=-1),
    "padding": Param(["SAME", "VALID"], doc="SAME pads with zeros, VALID does not pad."),
}


def check_convolutions(entries: Sequence[Any], path: str, axes: int = 1,
                       optional: Mapping[str, Any] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """Checks a list of convolutions.

    Args:
      entries: the list in the config.
      path: its path in the config, for messages.
      axes: number of axes: 1 for convolutions over time, 2 for convolutions over time and frequency.
      optional: specs of further optional entries.

    Returns:
      (the entries with defaults filled in; one sentence for each problem).
    """

    def problems_of(layer: Mapping[str, Any], place: str) -> list[str]:
        problems = [f"'{place}/{name}' has to be a list of {axes} positive integer{'s' if axes > 1 else ''}, got "
                    f"{layer[name]}." for name in ("kernel_size", "stride")
                    if len(layer[name]) != axes or not all(isinstance(n, int) and n >= 1 for n in layer[name])]
        return problems + [f"'{place}/num_channels' has to be at least 1, got 0."] * (layer["num_channels"] == 0)

    layers, problems = check_entries(entries, _CONVOLUTION, optional or {}, path, problems_of)
    return list(layers.values()), problems


def make_convolution_block(layer: Mapping[str, Any], in_channels: int, dropout: float,
                           settings: BlockSettings) -> ConvBlock:
    """Returns one convolution with normalisation, activation and dropout, for a checked entry of the list."""
    windows = [Window(size, stride, padding=layer["padding"])
               for size, stride in zip(layer["kernel_size"], layer["stride"], strict=True)]
    kind = "conv1d" if len(windows) == 1 else "conv2d"
    return ConvBlock(in_channels, BlockShape(kind, 1, windows, layer["num_channels"], dropout), settings)


def make_direction(cell: Any, units: int, input_size: int, zoneout: float, path: str, initializer: Any,
                   regularizer: Any, use_cudnn: bool = True) -> Direction:
    """Returns a recurrent layer of one direction.

    Args:
      cell: the class of the cell, see ``parts.rnn.core_cells``.
      units: number of units.
      input_size: number of channels of the input.
      zoneout: probability with which an element of a state keeps its value from the previous step.
      path: path of the component's parameters in the config, for messages.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      use_cudnn: whether to use cuDNN on GPUs if it supports the cell.
    """
    required, optional = cell.declared_params()
    params, _ = check_params({"num_units": units, "zoneout_prob": zoneout}, required, optional, path)
    direction = cell.layer(params, input_size, initializer, regularizer)
    direction.use_cudnn = use_cudnn
    return direction


def make_recurrent_layers(count: int, input_size: int, bidirectional: bool, make: Any) -> list[RecurrentLayer]:
    """Returns a stack of recurrent layers; ``make`` returns one direction for a number of input channels."""
    layers: list[RecurrentLayer] = []
    for _ in range(count):
        def one(size: int = input_size) -> Direction:
            return make(size)

        layers.append(RecurrentLayer(input_size, 0, "", bidirectional, make_direction=one))
        input_size = layers[-1].output_size
    return layers


class Dense(Module):
    """A dense layer with an optional bias.

    Args:
      input_size: number of input channels.
      output_size: number of output channels.
      initializer: initialiser of the matrix.
      regularizer: regulariser of the matrix.
      use_bias: whether to add a bias.
    """

    def __init__(self, input_size: int, output_size: int, initializer: Any = None, regularizer: Any = None,
                 use_bias: bool = True) -> None:
        super().__init__(name="dense")
        self.kernel = self.weight([input_size, output_size], initializer, regularizer=regularizer)
        self.bias = self.weight([output_size], "zeros") if use_bias else None

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``[…, output_size]`` in the dtype of ``x`` ``[…, input_size]``."""
        y = times_matrix(x, cast_weight(self.kernel, x.dtype))
        return y if self.bias is None else y + tf.cast(self.bias, x.dtype)
