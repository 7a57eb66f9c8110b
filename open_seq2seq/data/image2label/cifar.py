"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.image2label.cifar_files import CIFAR_10, CifarFile, find_files, read_class_names, read_file
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.image2label.image_sets import PixelSet
from open_seq2seq.data.image2label.params import image_params
from open_seq2seq.utils.errors import ConfigError

SIDE = 32


class CifarDataLayer(ImageDataLayer):
    """CIFAR-10 or CIFAR-100 (Krizhevsky 2009), from the published binary files or pickled batch files.

    Training reads the training images, evaluation and inference the test images. By default, training images are
    padded to 36 pixels, cropped at random to 28 and mirrored at random, and test images are cropped in the centre.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **ImageDataLayer.get_required_params(),
            "data_dir": Param(str, doc="Folder with the binary files or pickled batch files of the data set, or with "
                              "the unpacked archive's folder, such as cifar-10-batches-bin."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **image_params(28, SIDE, "padded", "image"),
            "num_classes": Param([10, 100], 10, "Number of classes: 10 for CIFAR-10, 100 for CIFAR-100.", "classes",
                                 on_change=REFUSE),
        }

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        if self.params["image_size"] > SIDE or self.params["resize_size"] != SIDE:
            raise ConfigError([f"'{self.params_path}' has image_size {self.params['image_size']} and resize_size "
                               f"{self.params['resize_size']}, but the images have {SIDE} pixels per side: set "
                               f"image_size to at most {SIDE}, and resize_size to {SIDE}."])

    @functools.cached_property
    def _files(self) -> Sequence[CifarFile]:
        return find_files(self.params["data_dir"], self.params["num_classes"], self.mode == "train")

    @functools.cached_property
    def class_names(self) -> list[str]:
        """Names of the classes; for CIFAR-100 without a file of names, the indices from 0 to 99 as strings."""
        if self.params["num_classes"] == len(CIFAR_10):
            return list(CIFAR_10)
        return read_class_names(self.params["data_dir"]) or [str(number) for number in range(100)]

    @property
    def num_classes(self) -> int:
        return self.params["num_classes"]

    def data_files(self, *kinds: str) -> dict[str, str]:
        if self.params["files"] or self.mode == "interactive_infer" or (kinds and "list" not in kinds):
            return {}
        return {f"data_dir {number}": file.path for number, file in enumerate(self._files)}

    def _labelled_images(self) -> PixelSet:
        read = [read_file(file, self.num_classes) for file in self._files]
        starts = np.cumsum([0, *(len(labels) for _, labels in read)])

        def describe(example: int) -> str:
            number = int(np.searchsorted(starts, example, "right")) - 1
            return f"{self._files[number].path}, image {example - starts[number] + 1}"

        pixels, labels = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
        return PixelSet(pixels, labels, describe)
