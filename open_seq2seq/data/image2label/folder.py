"""Images in a folder for each class, or listed in CSV files."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.datasets import elements_of, reason
from open_seq2seq.data.examination import OR_SKIP
from open_seq2seq.data.image2label.image_files import decode_rgb
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.image2label.image_sets import FileSet, PixelSet
from open_seq2seq.data.image2label.labelled_files import (
    class_folders,
    files_in_folders,
    files_of_lists,
    read_class_file,
)
from open_seq2seq.data.image2label.params import image_params
from open_seq2seq.data.image2label.pipeline import Pipeline
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.machine import GIB, available_bytes

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
    readable: list[int] = []
    start = 0
    while start < files.num_images:  # after an image that cannot be decoded, a new data set continues with the next
        try:
            for image in elements_of(_decoded(files, pipeline, start)):
                pixels[len(readable)] = image
                readable.append(start)
                start += 1
        except tf.errors.OpError as error:
            words = f"{files.describe(start)} cannot be read: {reason(error)}"
            if not skips:
                raise DataError(f"{words}. Correct or remove it, {OR_SKIP}") from error
            deco_print(f"Skipped an image: {words}.")
            start += 1
    if not readable:
        raise DataError(f"None of the {files.num_images:,} images can be read: give JPEG, PNG, GIF or BMP files.")
    labels = files.labels(tf.constant(readable, tf.int64)).numpy()
    dropped = {**files.dropped, **({"cannot be read": files.num_images - len(readable)}
                                   if len(readable) < files.num_images else {})}
    return PixelSet(pixels[:len(readable)], labels, lambda example: files.describe(readable[example]), dropped)


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


class ImageFolderDataLayer(ImageDataLayer):
    """JPEG, PNG, GIF or BMP files in folders ``<folder>/<class>/``, or listed with their classes in CSV files.

    Paths in a CSV file are relative to the folder of the file, unless ``image_root`` is given. The config has to list
    the classes, so that their indices do not depend on the data: a data set for evaluation may lack some classes.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **image_params(224, None, "resized", "imagenet"),
            "folder": Param((str, type(None)), None, "Folder that contains a folder of images for each class; give "
                            "either folder or dataset_files."),
            "dataset_files": Param(list, [], "CSV files with a header and the columns image and label.", file="list"),
            "image_root": Param((str, type(None)), None, "Folder that the paths in CSV files are relative to; by "
                                "default the folder of each CSV file."),
            "classes": Param(list, [], "Names of the classes, in the order of their indices; alternatively, give "
                             "class_file.", on_change=REFUSE),
            "class_file": Param((str, type(None)), None, "Text file with the name of one class per line.",
                                file="asset", on_change=REFUSE),
            "cache_images": Param(bool, False, "Whether to decode all images at the start and keep them in memory with "
                                  "resize_size · resize_size · 3 bytes each. In training, train_crop must then be "
                                  "padded or centre."),
        }

    @functools.cached_property
    def class_names(self) -> list[str]:
        path = self.params["class_file"]
        if path is not None and self.params["classes"]:
            raise ConfigError([f"'{self.params_path}' gives both classes and class_file: remove one of them."])
        names = self.params["classes"] or ([] if path is None else read_class_file(path))
        if not names:
            raise ConfigError([f"'{self.params_path}/classes' is missing: list the names of the classes"
                               f"{self._suggestion()}, or give a class_file."])
        if len(set(map(str, names))) < len(names):
            raise ConfigError([f"'{self.params_path}' names a class twice: remove the duplicate in classes or "
                               "class_file."])
        return [str(name) for name in names]

    def _suggestion(self) -> str:
        folder = self.params["folder"]
        names = class_folders(folder) if folder else []
        return f", such as {names}" if 0 < len(names) <= 20 else ""

    def _labelled_images(self) -> PixelSet | FileSet:
        params = self.params
        if bool(params["folder"]) == bool(params["dataset_files"]):
            raise ConfigError([f"'{self.params_path}' must give exactly one of folder and dataset_files."])
        if params["cache_images"] and params["train_crop"] == "resized" and self.mode == "train":
            raise ConfigError([f"'{self.params_path}/cache_images' is True, but the train_crop resized needs images of "
                               "the original size: set train_crop to padded or centre, or cache_images to False."])
        if params["folder"]:
            images = files_in_folders(params["folder"], self.class_names, self.mode == "train")
        else:
            images = files_of_lists(params["dataset_files"], params["image_root"], self.class_names)
        if not params["cache_images"]:
            return images
        return cached_set(images, self._pipeline, params["on_bad_example"] == "skip")
