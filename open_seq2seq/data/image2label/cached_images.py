"""Decoded images of files, kept in memory."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from open_seq2seq.data.image2label.decoding import decode_rgb
from open_seq2seq.data.image2label.image_sets import FileSet, PixelSet
from open_seq2seq.data.image2label.pipeline import Pipeline
from open_seq2seq.data.op_errors import reason
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.memory import GIB, available_bytes

_COPIES = 3
"""Memory needed at most while the images are decoded and handed to TensorFlow, as a multiple of their pixels."""


def cached_set(files: FileSet, pipeline: Pipeline, skips: bool) -> PixelSet:
    """Decodes all image files, and resizes the images as for evaluation.

    Args:
      files: the image files.
      pipeline: resizes the images.
      skips: whether to report and leave out images that cannot be decoded, instead of raising an error.

    Raises:
      DataError: the images do not fit in memory; an image cannot be decoded and ``skips`` is False; or no image can be
        decoded.
    """
    side = pipeline.read_size(False)
    _check_memory(files.num_images, side)
    pixels = np.zeros([files.num_images, side, side, 3], np.uint8)
    kept: list[int] = []
    start = 0
    while start < files.num_images:  # after an image that cannot be decoded, a new data set continues with the next
        try:
            for image in _decoded(files, pipeline, start).as_numpy_iterator():
                pixels[len(kept)] = image
                kept.append(start)
                start += 1
        except tf.errors.OpError as error:
            words = f"{files.describe(start)} cannot be read: {reason(error)}"
            if not skips:
                raise DataError(f"{words}. Correct or remove it, or set on_bad_example to skip.") from error
            deco_print(f"Skipped an image: {words}.")
            start += 1
    if not kept:
        raise DataError(f"None of the {files.num_images:,} images can be read: give JPEG, PNG, GIF or BMP files.")
    labels = files.labels(tf.constant(kept, tf.int64)).numpy()
    dropped = {**files.dropped, **({"cannot be read": files.num_images - len(kept)}
                                   if len(kept) < files.num_images else {})}
    return PixelSet(pixels[:len(kept)], labels, lambda example: files.describe(kept[example]), dropped)


def _decoded(files: FileSet, pipeline: Pipeline, start: int) -> tf.data.Dataset:
    def decode(example: tf.Tensor) -> tf.Tensor:
        square = pipeline.read(decode_rgb(files.load(example)[0]), None)
        return tf.cast(tf.round(square), tf.uint8)

    return tf.data.Dataset.range(start, files.num_images).map(
        tf.autograph.experimental.do_not_convert(decode), num_parallel_calls=os.cpu_count() or 1, deterministic=True)


def _check_memory(count: int, side: int) -> None:
    needed, left = _COPIES * count * side * side * 3, available_bytes()
    if left is not None and needed > left:
        raise DataError(f"'cache_images' would need {needed / GIB:.1f} GiB of memory for {count:,} images of {side} × "
                        f"{side} pixels, but only {left / GIB:.1f} GiB are available: set it to False, or lower "
                        "resize_size and image_size.")
