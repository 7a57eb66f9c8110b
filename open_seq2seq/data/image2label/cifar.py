"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import functools
import io
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.image2label.image_sets import PixelSet
from open_seq2seq.data.image2label.params import image_params
from open_seq2seq.utils.data_files import read_data, read_lines, shown
from open_seq2seq.utils.errors import ConfigError, DataError

CIFAR_10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PIXELS = 3 * 32 * 32
_NAMES = {(10, True): [f"data_batch_{number}" for number in range(1, 6)], (10, False): ["test_batch"],
          (100, True): ["train"], (100, False): ["test"]}
_FOLDERS = {10: ("", "cifar-10-batches-bin", "cifar-10-batches-py"), 100: ("", "cifar-100-binary", "cifar-100-python")}
# The only functions and classes that a pickle may name: those that the published files need to store arrays.
_ALLOWED = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}


class CifarFile(NamedTuple):
    """A file with images.

    Attributes:
      path: path of the file.
      is_binary: whether it is a binary file, rather than a pickle.
    """

    path: str
    is_binary: bool


def find_files(data_dir: str, num_classes: int, training: bool) -> list[CifarFile]:
    """Returns the files of the training or the test images.

    Args:
      data_dir: folder that contains the files, or that contains the folder of the unpacked archive.
      num_classes: 10 or 100.
      training: whether to return the files of the training images.

    Raises:
      DataError: a file is missing.
    """
    names = _NAMES[num_classes, training]
    for folder in _FOLDERS[num_classes]:
        for suffix in (".bin", ""):
            paths = [os.path.join(data_dir, folder, name + suffix) for name in names]
            existing = [path for path in paths if os.path.isfile(path)]
            if existing and len(existing) < len(paths):
                missing = next(path for path in paths if path not in existing)
                raise DataError(f"The file {shown(missing)} does not exist, but {shown(existing[0])} does: unpack the "
                                "whole archive.")
            if existing:
                return [CifarFile(path, bool(suffix)) for path in paths]
    raise DataError(f"The folder {shown(data_dir)} has no file {names[0]}.bin or {names[0]} of CIFAR-{num_classes}: "
                    "set data_dir to the folder with the unpacked files.")


def read_class_names(data_dir: str) -> list[str]:
    """Returns the 100 names in CIFAR-100's file ``fine_label_names.txt``; an empty list if there is no such file.

    Raises:
      DataError: the file cannot be read, or does not have 100 names.
    """
    for folder in _FOLDERS[100]:
        path = os.path.join(data_dir, folder, "fine_label_names.txt")
        if os.path.isfile(path):
            names = [line for line in read_lines(path) if line]
            if len(names) != 100:
                raise DataError(f"{shown(path)} has {len(names)} names, but CIFAR-100 has 100 classes: unpack the "
                                "archive again.")
            return names
    return []


def read_file(file: CifarFile, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images uint8 ``[images, 32, 32, 3]`` and the labels int32 ``[images]`` of a file.

    Raises:
      DataError: the file is damaged, or a label is out of range.
    """
    content = read_data(file.path, "The CIFAR file")
    pixels, labels = _read_binary(file.path, content, num_classes) if file.is_binary else _read_pickle(
        file.path, content, num_classes)
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        raise DataError(f"{shown(file.path)}, image {wrong[0] + 1}: the label is {labels[wrong[0]]}, but CIFAR-"
                        f"{num_classes} has labels from 0 to {num_classes - 1}: check num_classes and the file.")
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy(), labels.astype(np.int32)


def _read_binary(path: str, content: bytes, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    num_labels = 2 if num_classes == 100 else 1  # the first label of CIFAR-100 is the coarse one
    size = num_labels + _PIXELS
    if not content or len(content) % size:
        raise DataError(f"{shown(path)} has {len(content):,} bytes, which is not a multiple of the {size:,} bytes of "
                        f"an image of CIFAR-{num_classes}: the file is damaged or of another data set.")
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    return records[:, num_labels:], records[:, num_labels - 1].astype(np.int64)


class _DataUnpickler(pickle.Unpickler):
    """Reads arrays, and refuses everything that could execute code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not data")
        return super().find_class(module, name)


def _read_pickle(path: str, content: bytes, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        loaded = _DataUnpickler(io.BytesIO(content), encoding="bytes").load()
        values = {key.decode() if isinstance(key, bytes) else key: value for key, value in loaded.items()} \
            if isinstance(loaded, Mapping) else {}
    except Exception as error:  # a damaged pickle can raise anything
        why = str(error) or type(error).__name__
        raise DataError(f"{shown(path)} is not a pickled batch file of CIFAR: {why.rstrip('.')}.") from error
    pixels, labels = values.get("data"), values.get("fine_labels" if num_classes == 100 else "labels")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2 or not len(pixels) \
            or pixels.shape[1] != _PIXELS or not isinstance(labels, list) or len(labels) != len(pixels) \
            or not all(isinstance(label, int) and -2**63 <= label < 2**63 for label in labels):
        raise DataError(f"{shown(path)} is not a pickled batch file of CIFAR-{num_classes}: it must contain an array "
                        f"data, uint8 [images, {_PIXELS}], and a list with a label for each image.")
    return pixels, np.asarray(labels, np.int64)


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
