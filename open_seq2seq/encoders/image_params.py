"""Parameters and input preparation that encoders of images share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.parts.portable import in_shape

DATA_FORMAT = Param(["channels_first", "channels_last"], "channels_last", "Accepted for old configs; has no effect, "
                    "because images are always channels-last and TensorFlow chooses the layout of each convolution for "
                    "the device.", on_change=FREE)


def in_channels_param() -> Param:
    """Returns the declaration of the number of channels of the images."""
    return Param(int, 3, "Number of channels of the images; set from the data layer.", "channels", derived=True,
                 minimum=1)


def image_source(input_dict: Mapping[str, Any], in_channels: int,
                 dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns an encoder's input.

    Args:
      input_dict: a dict whose ``source_tensors`` begin with images, and which may contain ``ids`` ``[batch]``.
      in_channels: expected number of channels.
      dtype: dtype of the returned images.

    Returns:
      (images ``[batch, height, width, in_channels]``; boolean ``[batch]``, False for rows with a negative id, which
      contain no example, or None without ``ids``).
    """
    x = in_shape(input_dict["source_tensors"][0], [None, None, None, in_channels])
    ids = input_dict.get("ids")
    return tf.cast(x, dtype), None if ids is None else ids >= 0
