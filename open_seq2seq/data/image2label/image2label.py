"""The data layers of images: CIFAR, ImageNet, and a user's own in folders or lists."""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.datasets import elements_of, reason
from open_seq2seq.data.examination import OR_SKIP
from open_seq2seq.data.image2label.image_files import (
    FileSet,
    PixelSet,
    RecordSet,
    class_folders,
    decode_rgb,
    files_in_folders,
    files_of_lists,
    read_class_file,
)
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.image2label.pipeline import Pipeline, image_params
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_data, read_lines, shown
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.machine import GIB, available_bytes
from open_seq2seq.utils.pickled_arrays import load_arrays

CIFAR_10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32  # height and width of an image
_BINARY = ".bin"  # suffix of the binary files; the others are pickles
_PIXELS = 3 * SIDE * SIDE
_NAMES = {(10, True): [f"data_batch_{number}" for number in range(1, 6)], (10, False): ["test_batch"],
          (100, True): ["train"], (100, False): ["test"]}
_FOLDERS = {10: ("", "cifar-10-batches-bin", "cifar-10-batches-py"), 100: ("", "cifar-100-binary", "cifar-100-python")}


def _read_cifar(path: str, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images uint8 ``[images, 32, 32, 3]`` and the labels int32 ``[images]`` of a file of CIFAR.

    Raises:
      DataError: the file is damaged, or a label is out of range.
    """
    read = _read_binary if path.endswith(_BINARY) else _read_pickle
    pixels, labels = read(path, read_data(path, "The CIFAR file"), num_classes)
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        raise DataError(f"{shown(path)}, image {wrong[0] + 1}: the label is {labels[wrong[0]]}, but CIFAR-"
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


def _read_pickle(path: str, content: bytes, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        loaded = load_arrays(content, encoding="bytes")
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


class CifarDataLayer(ImageDataLayer):
    """CIFAR-10 or CIFAR-100 (Krizhevsky 2009), from the published binary files or pickled batch files.

    Training reads the training images, evaluation and inference the test images. By default, training images are
    padded to 36 pixels, cropped at random to 28 and mirrored at random, and test images are cropped in the centre.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
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
    def _files(self) -> Sequence[str]:
        """The files of the training or the test images, in ``data_dir`` or in the folder of the unpacked archive."""
        data_dir, classes = self.params["data_dir"], self.num_classes
        names = _NAMES[classes, self.mode == "train"]
        for folder in _FOLDERS[classes]:
            for suffix in (_BINARY, ""):
                paths = [os.path.join(data_dir, folder, name + suffix) for name in names]
                existing = [path for path in paths if os.path.isfile(path)]
                if existing and len(existing) < len(paths):
                    missing = next(path for path in paths if path not in existing)
                    raise DataError(f"The file {shown(missing)} does not exist, but {shown(existing[0])} does: unpack "
                                    "the whole archive.")
                if existing:
                    return paths
        raise DataError(f"The folder {shown(data_dir)} has no file {names[0]}{_BINARY} or {names[0]} of CIFAR-{classes}"
                        ": set data_dir to the folder with the unpacked files.")

    @functools.cached_property
    def class_names(self) -> list[str]:
        """Names of the classes; for CIFAR-100 without a file of names, the indices from 0 to 99 as strings."""
        if self.params["num_classes"] == len(CIFAR_10):
            return list(CIFAR_10)
        paths = [os.path.join(self.params["data_dir"], folder, "fine_label_names.txt") for folder in _FOLDERS[100]]
        path = next(filter(os.path.isfile, paths), None)
        if path is None:
            return [str(number) for number in range(100)]
        names = [line for line in read_lines(path) if line]
        if len(names) != 100:
            raise DataError(f"{shown(path)} has {len(names)} names, but CIFAR-100 has 100 classes: unpack the archive "
                            "again.")
        return names

    def data_files(self, *kinds: str) -> dict[str, str]:
        if self.params["files"] or self.mode == "interactive_infer" or (kinds and "list" not in kinds):
            return {}
        return {f"data_dir {number}": path for number, path in enumerate(self._files)}

    def _labelled_images(self) -> PixelSet:
        read = [_read_cifar(path, self.num_classes) for path in self._files]
        starts = np.cumsum([0, *(len(labels) for _, labels in read)])

        def describe(example: int) -> str:
            number = int(np.searchsorted(starts, example, "right")) - 1
            return f"{self._files[number]}, image {example - starts[number] + 1}"

        pixels, labels = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
        return PixelSet(pixels, labels, describe)


_RECORDS = re.compile(r"(train|validation)-(\d{5})-of-(\d{5})")
_PART_FOLDERS = {"train": ("train",), "validation": ("validation", "val")}
_CLASS_FOLDERS = "class_folders"  # name of the list of class folders in a checkpoint's assets


class ImagenetDataLayer(ImageDataLayer):
    """ImageNet: TFRecord files ``train-00000-of-01024``…, or folders ``train/<class>/`` and ``val/<class>/``.

    By default, training images are crops of random area and shape, mirrored at random; validation images are the square
    in the centre, after the shorter side has been resized (to 256 for an ``image_size`` of 224). With folders, class
    indices are in the order of the folders' names, which are copied into each checkpoint, so that other names are
    detected; with TFRecord files, a class index is the label in the file minus 1.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "data_dir": Param(str, doc="Folder with the TFRecord files, or with the folders train and val (or "
                              "validation)."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **image_params(224, None, "resized", "imagenet"),
            "num_classes": Param(int, 1000, "Number of classes.", "classes", minimum=1, on_change=REFUSE),
            "class_file": Param((str, type(None)), None, "Text file with the name of one class per line; by default, "
                                "the names of the folders or, with TFRecord files, the class indices.", file="asset"),
        }

    @property
    def num_classes(self) -> int:
        return self.params["num_classes"]

    @property
    def _part(self) -> str:
        return "train" if self.mode == "train" else "validation"

    @functools.cached_property
    def class_names(self) -> list[str]:
        path, count = self.params["class_file"], self.num_classes
        if path is not None:
            return read_class_file(path, "num_classes", count)
        if not self._folder_names and not os.path.isdir(self.params["data_dir"]):
            deco_print(f"WARNING: the names of the classes are unknown, because {shown(self.params['data_dir'])} does "
                       "not exist: give class_file, or the logdir without --config_file.")
        return self._folder_names or [str(number) for number in range(count)]

    @property
    def _names_folder(self) -> str | None:
        """The folder with the class folders of training images, or else of validation images; None without one."""
        folders = [os.path.join(self.params["data_dir"], name) for names in _PART_FOLDERS.values() for name in names]
        return next((folder for folder in folders if os.path.isdir(folder)), None)

    @functools.cached_property
    def _folder_names(self) -> list[str]:
        """Names of the class folders, in the order of the class indices; empty if there are none."""
        folder = self._names_folder
        if folder is None:
            return []
        names = class_folders(folder)
        if len(names) != self.num_classes:
            raise DataError(f"{shown(folder)} has folders of {len(names):,} classes, but num_classes is "
                            f"{self.num_classes:,}: correct one of them.")
        return names

    @functools.cached_property
    def _record_files(self) -> Sequence[str]:
        """The TFRecord files of training or validation images, depending on the mode; empty if there are none."""
        folder = self.params["data_dir"]
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise DataError(f"The folder {shown(folder)} cannot be read: {error.strerror or error}.") from error
        matches = [match for name in names if (match := _RECORDS.fullmatch(name)) and match[1] == self._part]
        if matches and len(matches) != int(matches[0][3]):
            raise DataError(f"{shown(folder)} has {len(matches)} files {self._part}-…, but according to their names "
                            f"there should be {int(matches[0][3])}: complete the files.")
        return [os.path.join(folder, match[0]) for match in matches]

    @functools.cached_property
    def _folder_list(self) -> str | None:
        """Path of a temporary file with the names of the class folders; None if they do not number the classes.

        In inference, they number the classes only if there is no ``class_file``.
        """
        if (self._record_files if self._has_targets else self.params["class_file"]) or not self._folder_names:
            return None
        path = os.path.join(tempfile.mkdtemp(dir=disk.process_folder()), f"{_CLASS_FOLDERS}.txt")
        disk.write_new(path, "".join(f"{_printable(name)}\n" for name in self._folder_names))
        return path

    def assets(self) -> dict[str, str]:
        """Returns the file of classes, if there is one, and a list of the class folders."""
        listed = self._folder_list
        return {**super().assets(), **({} if listed is None else {_CLASS_FOLDERS: listed})}

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        changed = super().params_with_assets(params, paths)
        names = changed.get("class_file") or paths.get(_CLASS_FOLDERS)
        return changed if names is None else {**changed, "class_file": names}

    def asset_mismatch(self, name: str, kept: str) -> str | None:
        if name != _CLASS_FOLDERS:
            return None
        before, now = read_class_file(kept), list(map(_printable, self._folder_names))
        new, gone = ([one for one in names if one not in others] for names, others in ((now, before), (before, now)))
        return (f"{shown(self._names_folder or '')} has folders of other classes than those in {kept}, with which the "
                f"checkpoint was trained ({', '.join(new[:3])} instead of {', '.join(gone[:3])}): restore the folders, "
                "because their names number the classes.")

    def data_files(self, *kinds: str) -> dict[str, str]:
        if self.params["files"] or self.mode == "interactive_infer" or (kinds and "data" not in kinds):
            return {}
        return {f"data_dir {number}": path for number, path in enumerate(self._record_files)}

    def _labelled_images(self) -> FileSet:
        if self._record_files:
            return RecordSet(self._record_files, self.num_classes)
        data_dir = self.params["data_dir"]
        folders = [os.path.join(data_dir, name) for name in _PART_FOLDERS[self._part]]
        folder = next((folder for folder in folders if os.path.isdir(folder)), None)
        if folder is None:
            raise DataError(f"{shown(data_dir)} has neither TFRecord files {self._part}-00000-of-… nor a folder "
                            f"{os.path.basename(folders[-1])}: correct data_dir.")
        return files_in_folders(folder, self._folder_names, self.mode == "train")


def _printable(name: str) -> str:
    """Returns the name of a folder as one line of text."""
    return shown(name).replace("\n", " ").strip()


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
