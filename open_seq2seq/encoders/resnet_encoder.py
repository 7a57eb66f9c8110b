"""ResNet for ImageNet and CIFAR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.image_blocks import (
    DATA_FORMAT,
    EXPANSION,
    VERSIONS,
    NetSettings,
    ResidualBlock,
    global_mean,
    image_source,
    in_channels_param,
    like_pixels,
    max_pool,
)
from open_seq2seq.utils.errors import ConfigError

# Number of residual blocks in each group, by number of layers. A network for CIFAR with n blocks in each group has
# 6n + 2 layers (He et al. 2015, section 4.2).
_IMAGENET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3),
                    200: (3, 24, 36, 3)}
_CIFAR_BLOCKS = {6 * blocks + 2: (blocks, blocks, blocks) for blocks in (3, 5, 7, 9, 18)}
_SIZES = (int, type(None))


class _Stem(NamedTuple):
    """Settings of the first convolution and of the pooling that follows it.

    Attributes:
      num_filters: number of filters of the first convolution and of the first group of blocks.
      kernel_size: size of the first convolution in pixels.
      conv_stride: stride of the first convolution in pixels.
      pool_size: size of the pooling windows in pixels; None or 0 for no pooling.
      pool_stride: stride of the pooling in pixels.
    """

    num_filters: int = 64
    kernel_size: int = 7
    conv_stride: int = 2
    pool_size: int | None = 3
    pool_stride: int = 2


_CIFAR_STEM = _Stem(16, 3, 1, None, 1)


class ResNetEncoder(Encoder):
    """ResNet (He et al. 2015, https://arxiv.org/abs/1512.03385), up to the mean over all pixels.

    ``resnet_size`` 18, 34, 50, 101, 152 and 200 are the networks for ImageNet. 20, 32, 44, 56 and 110 are those for
    CIFAR: three groups of blocks with 16, 32 and 64 filters, after one 3 × 3 convolution without pooling. Other
    networks are described by ``block_sizes``.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "resnet_size": Param([None, *sorted({**_IMAGENET_BLOCKS, **_CIFAR_BLOCKS})], None, "Number of layers; "
                                 "exactly one of resnet_size and block_sizes must be given.", "layers",
                                 on_change=REFUSE),
            "block_sizes": Param((list, tuple, type(None)), None, "Number of residual blocks in each group.", "blocks",
                                 minimum=1, maximum=1000, on_change=REFUSE),
            "block_strides": Param((list, tuple, type(None)), None, "Stride of the first block of each group; by "
                                   "default 1 in the first group and 2 in the others.", "pixels", minimum=1,
                                   maximum=100, on_change=REFUSE),
            "version": Param(list(VERSIONS), 2, "1: normalisation after each convolution, stride in the first "
                             "convolution of a block; 1.5: the same, but bottlenecks have the stride in their 3 × 3 "
                             "convolution (version 1 of NVIDIA's OpenSeq2Seq); 2: normalisation before each "
                             "convolution, strides as in 1.5.", on_change=REFUSE),
            "bottleneck": Param((bool, type(None)), None, "Whether blocks are bottlenecks of three convolutions; by "
                                "default only for the ImageNet networks with resnet_size 50 and above.",
                                on_change=REFUSE),
            "final_size": Param(_SIZES, None, "Number of output channels, which follows from the other parameters; "
                                "checked if given.", "channels", minimum=1, on_change=REFUSE),
            "first_num_filters": Param(_SIZES, None, "Number of filters of the first convolution and of the first "
                                       "group; by default 64, and 16 for CIFAR.", "channels", minimum=1,
                                       on_change=REFUSE),
            "first_kernel_size": Param(_SIZES, None, "Size of the first convolution; by default 7, and 3 for CIFAR.",
                                       "pixels", minimum=1, maximum=1000, on_change=REFUSE),
            "first_conv_stride": Param(_SIZES, None, "Stride of the first convolution; by default 2, and 1 for CIFAR.",
                                       "pixels", minimum=1, maximum=1000, on_change=REFUSE),
            "first_pool_size": Param(_SIZES, None, "Size of the windows of the pooling after the first convolution; 0 "
                                     "for no pooling; by default 3, and 0 for CIFAR.", "pixels", minimum=0,
                                     maximum=1000, on_change=REFUSE),
            "first_pool_stride": Param(_SIZES, None, "Stride of the pooling after the first convolution; by default 2, "
                                       "and 1 for CIFAR.", "pixels", minimum=1, maximum=1000, on_change=REFUSE),
            "data_format": DATA_FORMAT,
            "regularize_bn": Param(bool, True, "Whether the regulariser includes batch norm's scale."),
            "bn_momentum": Param(float, 0.997, "Fraction of batch norm's old moving statistics kept at each step.",
                                 minimum=0.0, below=1.0),
            "bn_epsilon": Param(float, 1e-5, "Small number that batch norm adds to the variance.", above=0.0,
                                on_change=REFUSE),
            "in_channels": in_channels_param(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        blocks = _blocks(params, self.params_path)
        is_cifar = params["resnet_size"] in _CIFAR_BLOCKS
        bottleneck = params["bottleneck"]
        if bottleneck is None:
            bottleneck = (params["resnet_size"] or 0) >= 50 and not is_cifar
        stem = _Stem(*(preset if params[f"first_{name}"] is None else params[f"first_{name}"]
                       for name, preset in (_CIFAR_STEM if is_cifar else _Stem())._asdict().items()))
        self.output_size = stem.num_filters * 2 ** (len(blocks) - 1) * (EXPANSION if bottleneck else 1)
        if params["final_size"] not in (None, self.output_size):
            raise ConfigError([f"'{self.params_path}/final_size' is {params['final_size']}, but these blocks have "
                               f"{self.output_size} output channels: leave it out."])
        regularizer = self.make_regularizer()
        settings = NetSettings(params["bn_momentum"], params["bn_epsilon"], self.make_initializer("he_normal"),
                               regularizer, regularizer if params["regularize_bn"] else None)
        self._pool = (stem.pool_size, stem.pool_stride)
        self.first = settings.convolution(params["in_channels"], stem.num_filters, stem.kernel_size, stem.conv_stride)
        self.first_norm = settings.norm(stem.num_filters) if params["version"] != 2 else None
        self.blocks = self._make_blocks(blocks, stem.num_filters, bottleneck, settings)
        self.last_norm = settings.norm(self.output_size) if params["version"] == 2 else None

    def _make_blocks(self, sizes: list[int], num_filters: int, bottleneck: bool,
                     settings: NetSettings) -> list[ResidualBlock]:
        strides = self.params["block_strides"] or [1] + [2] * (len(sizes) - 1)
        channels, made = num_filters, []
        for group, (count, stride) in enumerate(zip(sizes, strides, strict=True)):
            for place in range(count):
                block = ResidualBlock(channels, num_filters * 2 ** group, 1 if place else stride,
                                      self.params["version"], bottleneck, place == 0, settings)
                channels = block.out_channels
                made.append(block)
        return made

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes images.

        Args:
          input_dict: a dict whose ``source_tensors`` begin with images ``[batch, height, width, in_channels]``, and
            which may contain ``ids`` ``[batch]``, negative for rows that batch norm's statistics leave out.

        Returns:
          A dict with ``outputs`` ``[batch, output_size]`` in the compute dtype.
        """
        x, held = image_source(input_dict, self.params["in_channels"], self.dtype_of("convolution"))
        training = self.training
        x = self.first(x)
        if self.first_norm is not None:
            x = tf.nn.relu(self.first_norm(x, like_pixels(held, x), training))
        if self._pool[0]:
            x = max_pool(x, self._pool[0], self._pool[1])
        for block in self.blocks:
            x = block(x, held, training)
        if self.last_norm is not None:
            x = tf.nn.relu(self.last_norm(x, like_pixels(held, x), training))
        return {"outputs": tf.cast(global_mean(x), self.compute_dtype)}


def _blocks(params: Mapping[str, Any], path: str) -> list[int]:
    """Returns the number of blocks in each group."""
    size, given, strides = params["resnet_size"], params["block_sizes"], params["block_strides"]
    if (size is None) == (given is None):
        raise ConfigError([f"'{path}' must set exactly one of resnet_size and block_sizes."])
    blocks = list(given if size is None else {**_IMAGENET_BLOCKS, **_CIFAR_BLOCKS}[size])
    problems = [f"'{path}/{name}' must be a list of positive integers, got {values}."
                for name, values in (("block_sizes", blocks), ("block_strides", strides))
                if values is not None and not (values and all(isinstance(value, int) for value in values))]
    if not problems and strides is not None and len(strides) != len(blocks):
        problems = [f"'{path}/block_strides' has {len(strides)} entries, but there are {len(blocks)} groups of blocks: "
                    "give one stride for each group."]
    if problems:
        raise ConfigError(problems)
    return blocks
