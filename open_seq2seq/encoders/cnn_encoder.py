"""Convolutional network from a list of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.image_blocks import (
    DATA_FORMAT,
    Kernels,
    Layer,
    Shape,
    Whitening,
    global_mean,
    image_source,
    make_layer,
)
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.utils.errors import ConfigError

# on_change of the lists of layers. If a layer differs from that of the checkpoint, a changed dropout rate causes a
# message, and any other changed parameter (key "") an error.
_LAYER_CHANGES = {"": REFUSE, "rate": "say"}


class CNNEncoder(Encoder):
    """A network described by a list of layers, such as AlexNet (Krizhevsky 2014, https://arxiv.org/abs/1404.5997).

    An entry is a pair of a layer and its parameters: ``("conv2d", {"filters": 64, "kernel_size": 3})``. Layers are
    conv2d, max_pooling2d, average_pooling2d, batch_normalization, dropout and dense, with the parameters of the
    functions of the same names in TensorFlow 1 (``tf.layers``), or an activation without parameters: ``("relu", {})``.
    The first layer may be ``("whitening", {"kernel_size": 2})``; see ``parts.image_blocks.Whitening``.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "cnn_layers": Param(list, doc="Layers that transform images, each a pair (layer, parameters).",
                                on_change=_LAYER_CHANGES),
            "image_shape": Param((list, tuple), doc="Height, width and channels of the images; set from the data "
                                 "layer.", derived=True, minimum=1),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "fc_layers": Param(list, [], "Layers that transform the flattened result of cnn_layers; without any, that "
                               "result is averaged over all pixels.", on_change=_LAYER_CHANGES),
            "data_format": DATA_FORMAT,
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        shape = tuple(self.params["image_shape"])
        if len(shape) != 3:
            raise ConfigError([f"'{self.params_path}/image_shape' must be height, width and channels, got "
                               f"{list(shape)}."])
        self._channels = shape[2]
        self.layers, shape = self._make_layers("cnn_layers", shape)
        if self.params["fc_layers"]:
            shape = (math.prod(shape),)
        self.fc_layers, shape = self._make_layers("fc_layers", shape)
        self.output_size = shape[-1]

    def _make_layers(self, name: str, shape: Shape) -> tuple[list[Layer], Shape]:
        """Creates the layers that a parameter lists.

        Args:
          name: name of the parameter: ``cnn_layers`` or ``fc_layers``.
          shape: shape of the first layer's input, without the batch axis.

        Returns:
          (the layers, shape of the last layer's output without the batch axis).
        """
        kernels = Kernels(self.make_initializer(), self.make_regularizer())
        layers: list[Layer] = []
        for number, entry in enumerate(self.params[name]):
            path = f"{self.params_path}/{name}/{number}"
            layers.append(make_layer(entry, shape, kernels, path))
            if isinstance(layers[-1], Whitening) and (name, number) != ("cnn_layers", 0):
                raise ConfigError([f"'{path}' is whitening, which reads the images themselves: make it the first of "
                                   f"'{self.params_path}/cnn_layers'."])
            shape = layers[-1].out_shape
        return layers, shape

    @property
    def whitening(self) -> Whitening | None:
        """The first layer, if it is one that whitens images; otherwise None."""
        first = next(iter(self.layers), None)
        return first if isinstance(first, Whitening) else None

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes images.

        Args:
          input_dict: a dict whose ``source_tensors`` begin with images ``[batch, height, width, channels]``, and which
            may contain ``ids`` ``[batch]``, negative for rows that batch norm's statistics leave out.

        Returns:
          A dict with ``outputs`` ``[batch, output_size]`` in the compute dtype.
        """
        x, held = image_source(input_dict, self._channels, self.dtype_of("convolution"))
        x = in_shape(x, [None, *self.params["image_shape"]])
        x = tf.cast(self._applied(self.layers, x, held), self.compute_dtype)
        if self.fc_layers:
            x = self._applied(self.fc_layers, tf.reshape(x, [-1, math.prod(x.shape[1:])]), held)
        elif x.shape.rank == 4:
            x = global_mean(x)
        return {"outputs": x}

    def _applied(self, layers: Sequence[Layer], x: tf.Tensor, held: tf.Tensor | None) -> tf.Tensor:
        for layer in layers:
            x = layer(x, held, self.training)
        return x
