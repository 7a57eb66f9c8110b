"""Sizes and order of the operations on images, according to the parameters of a data layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.data.image2label import randaugment
from open_seq2seq.data.image2label.augmentation import JITTER_DRAWS, flipped, jittered
from open_seq2seq.data.image2label.cropping import BOX_DRAWS, pad_and_crop, random_box, resized_box, resized_short_side
from open_seq2seq.data.image2label.params import resize_size


class Pipeline:
    """Crops and augments images with values from 0 to 255.

    The random numbers of an image are used in this order: crop, mirror, colours, RandAugment.

    Args:
      params: the parameters of the data layer.

    Attributes:
      num_draws: number of random numbers for a training image.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self._size, self._resize = params["image_size"], resize_size(params)
        self._layers = params["randaugment_layers"]
        self.num_draws = BOX_DRAWS + 1 + JITTER_DRAWS + randaugment.DRAWS * self._layers

    def _takes_box(self, training: bool) -> bool:
        return training and self._params["train_crop"] == "resized"

    def read_size(self, training: bool) -> int:
        """Returns the height and width of the images that ``read`` returns."""
        return self._size if self._takes_box(training) else self._resize

    def read(self, image: tf.Tensor, draws: tf.Tensor | None) -> tf.Tensor:
        """Returns an image cropped and resized to a square, FP32 ``[size, size, 3]``, with the size of ``read_size``.

        Args:
          image: uint8 ``[height, width, 3]``.
          draws: in training, random numbers FP32 ``[num_draws]``; otherwise None.
        """
        if draws is None or not self._takes_box(True):
            return resized_short_side(image, self._resize)
        shape = tf.shape(image)
        box = random_box(draws[:BOX_DRAWS], shape[0], shape[1], self._params["crop_area"], self._params["crop_ratio"])
        return resized_box(image, box, self._size)

    def finished(self, images: tf.Tensor, draws: tf.Tensor | None, was_read: bool) -> tf.Tensor:
        """Returns the images of a batch, cropped and augmented, FP32 ``[batch, image_size, image_size, 3]``.

        Args:
          images: ``[batch, height, width, 3]`` from 0 to 255.
          draws: in training, random numbers FP32 ``[batch, num_draws]``; otherwise None.
          was_read: whether the images are results of ``read``, which has already cropped them if train_crop is resized.
        """
        training = draws is not None
        if self._takes_box(training) and not was_read:
            images = tf.map_fn(lambda pair: self.read(*pair), (images, draws), fn_output_signature=tf.float32)
        elif not self._takes_box(training):
            place = draws[:, :2] if draws is not None and self._params["train_crop"] == "padded" else None
            images = pad_and_crop(images, self._params["crop_padding"], self._size, place)
        images = tf.cast(images, tf.float32)
        return images if draws is None else self._augmented(images, draws[:, BOX_DRAWS:])

    def _augmented(self, images: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        if self._params["random_flip"]:
            images = flipped(images, draws[:, 0])
        if self._params["color_jitter"]:
            images = jittered(images, draws[:, 1:1 + JITTER_DRAWS], self._params["color_jitter"])
        if self._layers:
            draws = tf.reshape(draws[:, 1 + JITTER_DRAWS:], [-1, self._layers, randaugment.DRAWS])
            images = randaugment.rand_augmented(images, draws, self._params["randaugment_magnitude"])
        return images
