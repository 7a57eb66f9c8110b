"""ImageNet, in TFRecord files or folders of JPEG files."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from typing import Any

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.image2label.image_sets import FileSet
from open_seq2seq.data.image2label.labelled_files import class_folders, files_in_folders, read_class_file
from open_seq2seq.data.image2label.params import image_params
from open_seq2seq.data.image2label.records import RecordSet
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError

_RECORDS = re.compile(r"(train|validation)-(\d{5})-of-(\d{5})")
_FOLDERS = {"train": ("train",), "validation": ("validation", "val")}


class ImagenetDataLayer(ImageDataLayer):
    """ImageNet: TFRecord files ``train-00000-of-01024``…, or folders ``train/<class>/`` and ``val/<class>/``.

    By default, training images are crops of random area and shape, mirrored at random; validation images are the square
    in the centre, after the shorter side has been resized (to 256 for an ``image_size`` of 224). With folders, class
    indices are in the order of the folders' names; with TFRecord files, a class index is the label in the file minus 1.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **ImageDataLayer.get_required_params(),
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
        if path is None:
            return self._folder_names or [str(number) for number in range(count)]
        return read_class_file(path, "num_classes", count)

    @functools.cached_property
    def _folder_names(self) -> list[str]:
        """Names of the class folders of training images, or else of validation images; empty if there are none."""
        folders = [os.path.join(self.params["data_dir"], name) for names in _FOLDERS.values() for name in names]
        folder = next((folder for folder in folders if os.path.isdir(folder)), None)
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

    def data_files(self, *kinds: str) -> dict[str, str]:
        if self.params["files"] or self.mode == "interactive_infer" or (kinds and "data" not in kinds):
            return {}
        return {f"data_dir {number}": path for number, path in enumerate(self._record_files)}

    def _labelled_images(self) -> FileSet:
        if self._record_files:
            return RecordSet(self._record_files, self.num_classes)
        data_dir = self.params["data_dir"]
        folders = [os.path.join(data_dir, name) for name in _FOLDERS[self._part]]
        folder = next((folder for folder in folders if os.path.isdir(folder)), None)
        if folder is None:
            raise DataError(f"{shown(data_dir)} has neither TFRecord files {self._part}-00000-of-… nor a folder "
                            f"{os.path.basename(folders[-1])}: correct data_dir.")
        return files_in_folders(folder, self._folder_names, self.mode == "train")

    def example_files(self) -> Sequence[str]:
        return () if isinstance(self._set, RecordSet) else super().example_files()
