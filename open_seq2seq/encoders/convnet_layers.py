"""Checks the entries of ``convnet_layers``, which describe convolutional blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from open_seq2seq.config.params import Param, check_entries
from open_seq2seq.parts.conv_blocks.block import BlockShape
from open_seq2seq.parts.conv_blocks.convolution import KINDS, Window

_SIZES = (int, list, tuple)
_REQUIRED = {
    "type": Param(list(KINDS), doc="Kind of convolution: conv1d (over time), sep_conv1d (depthwise and pointwise), "
                  "conv2d (over time and frequency), or tcn (causal)."),
    "repeat": Param(int, doc="Number of layers in the block.", minimum=1, maximum=1000),
    "kernel_size": Param(_SIZES, doc="Number of taps over time and, for conv2d, over frequency.", unit="frames",
                         minimum=1, maximum=10**5),
    "stride": Param(_SIZES, doc="Stride of each layer over time and, for conv2d, over frequency.", unit="frames",
                    minimum=1, maximum=10**5),
    "num_channels": Param(int, doc="Number of channels of the block's output.", minimum=1),
    "padding": Param(["SAME", "VALID"], doc="SAME pads with zeros, VALID does not pad; tcn always pads before the "
                     "first frame."),
}
_OPTIONAL = {
    "dilation": Param(_SIZES, 1, "Dilation, the step between filter taps.", "frames", minimum=1, maximum=10**5),
    "dropout_keep_prob": Param((float, type(None)), None, "Keep probability of dropout; by default the encoder's.",
                               above=0.0, maximum=1.0),
    "residual": Param(bool, False, "Whether to add the block's input to its result, before the last activation."),
    "residual_dense": Param(bool, False, "With residual: whether to also add the inputs of all earlier blocks that "
                            "set residual_dense."),
}


class ConvnetEntry(NamedTuple):
    """A checked entry of ``convnet_layers``.

    Attributes:
      shape: number, kind and sizes of the block's layers.
      residual: whether the block's input is added to its result.
      residual_dense: whether the inputs of all earlier blocks with ``residual_dense`` are added too.
    """

    shape: BlockShape
    residual: bool
    residual_dense: bool

    @property
    def kind(self) -> str:
        """The kind of the block's convolutions."""
        return self.shape.kind


def check_convnet_layers(layers: Sequence[Any], keep_prob: float, path: str) -> tuple[list[ConvnetEntry], list[str]]:
    """Checks ``convnet_layers``.

    Args:
      layers: the entries, dicts from the config.
      keep_prob: the ``dropout_keep_prob`` of entries that do not set it.
      path: path of ``layers`` in the config, for messages.

    Returns:
      (the checked entries, one message for each problem); use the entries only if there are no problems.
    """
    if not layers:
        return [], [f"'{path}' is empty: give at least one block."]
    checked, problems = check_entries(layers, _REQUIRED, _OPTIONAL, path, _problems)
    entries: list[ConvnetEntry] = []
    for place, params in checked.items():
        entries.append(_entry(params, keep_prob))
        if params["type"] == "conv2d" and any(entry.kind != "conv2d" for entry in entries):
            problems.append(f"'{place}/type' is 'conv2d' after a block of another kind, whose output has no frequency "
                            "axis: move all blocks of conv2d to the beginning.")
    return entries, problems + _dense_problems(entries, path)


def _dense_problems(entries: Sequence[ConvnetEntry], path: str) -> list[str]:
    """Returns a message if dense residual connections lead from blocks of conv2d to blocks of other kinds."""
    dense = [entry.kind == "conv2d" for entry in entries if entry.residual_dense]
    if any(dense) and not all(dense):
        return [f"'{path}' sets residual_dense both for conv2d and for other kinds of blocks, but only the outputs of "
                "conv2d have a frequency axis: set it to False for one of the two."]
    return []


def _sizes(value: Any) -> list[Any]:
    return [value] if isinstance(value, int) else list(value)


def _problems(params: Mapping[str, Any], place: str) -> list[str]:
    problems = []
    axes = 2 if params["type"] == "conv2d" else 1
    for name in ("kernel_size", "stride", "dilation"):
        sizes = _sizes(params[name])
        fits = len(sizes) == axes or (name == "dilation" and len(sizes) == 1)
        if not fits or not all(isinstance(size, int) and size >= 1 for size in sizes):
            wanted = "two positive integers (time, frequency)" if axes == 2 else "one positive integer"
            problems.append(f"'{place}/{name}' must be {wanted}, got {params[name]}.")
    if not problems:
        problems = _combination_problems(params, place)
    return problems


def _combination_problems(params: Mapping[str, Any], place: str) -> list[str]:
    problems = []
    strides, dilations = _sizes(params["stride"]), _sizes(params["dilation"])
    if max(strides) > 1 and max(dilations) > 1:
        problems.append(f"'{place}/dilation' is {params['dilation']} and the stride is {params['stride']}: one of them "
                        "must be 1.")
    if params["residual"] and (max(strides) > 1 or params["padding"] == "VALID"):
        problems.append(f"'{place}/residual' needs a stride of 1 and the padding SAME, because the block's input and "
                        "output must have the same number of frames.")
    if params["residual_dense"] and not params["residual"]:
        problems.append(f"'{place}/residual_dense' needs residual: set both to True.")
    return problems


def _entry(params: Mapping[str, Any], keep_prob: float) -> ConvnetEntry:
    kind = params["type"]
    padding = "CAUSAL" if kind == "tcn" else params["padding"]
    sizes, strides, dilations = (_sizes(params[name]) for name in ("kernel_size", "stride", "dilation"))
    # A single dilation is used for both axes of conv2d; zip ignores the surplus dilations.
    windows = [Window(size, stride, dilation, padding)
               for size, stride, dilation in zip(sizes, strides, dilations * len(sizes), strict=False)]
    keep = keep_prob if params["dropout_keep_prob"] is None else params["dropout_keep_prob"]
    shape = BlockShape(kind, params["repeat"], windows, params["num_channels"], 1.0 - keep)
    return ConvnetEntry(shape, params["residual"], params["residual"] and params["residual_dense"])
