"""Convolutional encoder of Wave2Letter, Jasper and QuartzNet, and the checks of the blocks that its config lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.conv_blocks.block import NORMALIZATIONS, BlockSettings, BlockShape, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import KINDS, ReceptiveField, Window, field_of
from open_seq2seq.utils.errors import ConfigError

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
    checked, problems = check_entries(layers, _REQUIRED, _OPTIONAL, path, _entry_problems)
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


def _entry_problems(params: Mapping[str, Any], place: str) -> list[str]:
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


@tf.custom_gradient
def fork(x: tf.Tensor) -> Any:
    """Returns ``x`` twice, so that its gradient is the sum of two gradients.

    If a tensor is used in three or more places, TensorFlow may sum the gradients in any order, which changes the last
    bits of the sum. A chain of forks, one for each further place, fixes the order.
    """

    def grad(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        return first + second

    return (tf.identity(x), tf.identity(x)), grad


class TDNNEncoder(SpeechEncoder):
    """Blocks of convolutions over time.

    Depending on ``convnet_layers``, this is Wave2Letter+ (Collobert et al. 2016, https://arxiv.org/abs/1609.03193),
    Jasper with plain or dense residual connections (Li et al. 2019, https://arxiv.org/abs/1904.03288), or QuartzNet
    (Kriman et al. 2019, https://arxiv.org/abs/1910.10261).

    By default, training excludes padding from the statistics of normalisation. Outside of training, the result of an
    utterance then does not depend on its batch. See the parameter ``use_conv_mask``.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **required_audio_params("for entries of convnet_layers that do not set it"),
            "convnet_layers": Param(list, doc="Blocks, each a dict with type, repeat, kernel_size, stride, "
                                    "num_channels, padding, and optionally dilation, dropout_keep_prob, residual and "
                                    "residual_dense.", on_change=LAYER_CHANGES),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **optional_audio_params(0.90),
            "data_format": DATA_FORMAT,
            "normalization": Param(NORMALIZATIONS, "batch_norm", "Normalisation after each convolution. layer_norm: "
                                   "over the channels of each frame. instance_norm: over the frames of each "
                                   "utterance.", on_change=REFUSE),
            "use_conv_mask": Param(bool, True, "Whether to set padding to zero before each convolution and exclude it "
                                   "from statistics. If False, results depend on the other utterances in the batch.",
                                   on_change=REFUSE),
            "features_as_channels": Param(bool, False, "Whether conv2d treats the features of a frame as the "
                                          "channels of one pixel, instead of as frequencies; set from the data layer.",
                                          derived=True),
            "drop_block_prob": Param(float, 0.0, "Probability in training that a residual block is dropped, except for "
                                     "its residual connection.", minimum=0.0, below=1.0),
            "drop_block_index": Param(int, -1, "Index, in convnet_layers, of a residual block that is dropped in "
                                      "evaluation and inference, except for its residual connection; -1 is none.",
                                      minimum=-1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        entries, problems = check_convnet_layers(params["convnet_layers"], params["dropout_keep_prob"],
                                                 f"{path}/convnet_layers")
        problems += _problems(params, entries, path)
        if problems:
            raise ConfigError(problems)
        settings = BlockSettings(
            resolve_activation(params["activation_fn"], f"{path}/activation_fn"), params["normalization"],
            params["bn_momentum"], params["bn_epsilon"], self.make_initializer(), self.make_regularizer(),
            params["use_conv_mask"])
        self._entries = tuple(entries)
        self.blocks: list[ConvBlock] = []
        self._build(settings)

    def _build(self, settings: BlockSettings) -> None:
        width, channels = self.params["num_audio_features"], 1
        if self._entries[0].kind != "conv2d" or self.params["features_as_channels"]:
            width, channels = 1, width
        dense: list[int] = []
        for entry in self._entries:
            if entry.kind != "conv2d":
                width, channels = 1, width * channels
            residuals = [channels] if entry.residual else []
            if entry.residual_dense:
                dense.append(channels)
                residuals = dense
            self.blocks.append(ConvBlock(channels, entry.shape, settings, residuals))
            channels = entry.shape.channels
            for _ in range(entry.shape.repeat):
                if entry.kind == "conv2d":
                    width = entry.shape.windows[1].outputs(width)
        self.output_size = width * channels

    @property
    def time_windows(self) -> list[Window]:
        # Residual connections are left out: their window of one frame lies within the windows of the layers that they
        # skip.
        return [layer.window for block in self.blocks for layer in block.layers]

    def receptive_field(self) -> ReceptiveField | None:
        if self.params["normalization"] == "instance_norm":  # its statistics depend on the whole utterance
            return None
        return field_of(self.time_windows)

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes features.

        Args:
          input_dict: a dict whose ``source_tensors`` are features ``[batch, time, num_audio_features]``, or
            ``[batch, time, 1, num_audio_features]`` with ``features_as_channels``, and lengths ``[batch]`` int32 in
            frames.

        Returns:
          A dict with ``outputs`` ``[batch, time', output_size]`` in the compute dtype, and ``src_length`` and
          ``outputs_length`` ``[batch]``, the numbers of output frames.
        """
        as_channels = self.params["features_as_channels"]
        if as_channels:
            values, *others = input_dict["source_tensors"]
            input_dict = {"source_tensors": [tf.squeeze(values, 2), *others]}
        x, lengths = audio_features(input_dict, self.params["num_audio_features"], self.dtype_of("convolution"),
                                    self.params["use_conv_mask"])
        if self._entries[0].kind == "conv2d":
            x = x[:, :, tf.newaxis] if as_channels else tf.expand_dims(x, -1)
        x, lengths = self._run_blocks(x, lengths)
        return {"outputs": tf.cast(_flat(x), self.compute_dtype), "src_length": lengths, "outputs_length": lengths}

    def _run_blocks(self, x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Tensors that are used twice are forked, because their gradient then does not depend on the order of summation.
        # ``dense``: the inputs of all blocks with residual_dense so far. The last of these blocks does not fork them.
        dense: list[tf.Tensor] = []
        dense_left = sum(entry.residual_dense for entry in self._entries)
        for number, (entry, block) in enumerate(zip(self._entries, self.blocks, strict=True)):
            x = x if entry.kind == "conv2d" else _flat(x)
            residuals: list[tf.Tensor] = []
            if entry.residual_dense:
                x, kept = fork(x)
                dense.append(kept)
                dense_left -= 1
                if dense_left:
                    residuals, dense = (list(tensors) for tensors in zip(*map(fork, dense), strict=True))
                else:
                    residuals = dense
            elif entry.residual:
                x, kept = fork(x)
                residuals = [kept]
            x, lengths = block(x, lengths, residuals, self.training, self._drop(number) if residuals else 0.0)
        return x, lengths

    def _drop(self, block: int) -> float:
        """Returns the probability that the block with this index is dropped, except for its residual connection."""
        if self.training:
            return self.params["drop_block_prob"]
        return 1.0 if block == self.params["drop_block_index"] else 0.0


def _flat(x: tf.Tensor) -> tf.Tensor:
    """Reshapes ``[batch, time, frequency, channels]`` to ``[batch, time, frequency · channels]``."""
    if x.shape.rank == 3:
        return x
    return tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], x.shape[2] * x.shape[3]])


def _problems(params: Mapping[str, Any], entries: list[ConvnetEntry], path: str) -> list[str]:
    problems = audio_problems(params, path)
    droppable = [number for number, entry in enumerate(entries) if entry.residual or entry.residual_dense]
    if params["drop_block_prob"] and entries and not droppable:
        problems.append(f"'{path}/drop_block_prob' needs blocks with a residual connection: set it to 0, or set "
                        "residual to True in convnet_layers.")
    if params["drop_block_index"] != -1 and params["drop_block_index"] not in droppable:
        problems.append(f"'{path}/drop_block_index' must be -1 or the index of a block with a residual connection, got "
                        f"{params['drop_block_index']}.")
    return problems
