"""Images in a folder for each class, or listed in CSV files."""

from __future__ import annotations

import functools
from typing import Any

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.image2label.cached_images import cached_set
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.image2label.image_sets import FileSet, PixelSet
from open_seq2seq.data.image2label.labelled_files import (
    class_folders,
    files_in_folders,
    files_of_lists,
    read_class_file,
)
from open_seq2seq.data.image2label.params import image_params
from open_seq2seq.utils.errors import ConfigError


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
            found = files_in_folders(params["folder"], self.class_names, self.mode == "train")
        else:
            found = files_of_lists(params["dataset_files"], params["image_root"], self.class_names)
        if not params["cache_images"]:
            return found
        return cached_set(found, self._pipeline, params["on_bad_example"] == "skip")
