"""ImageNet, in TFRecord files or folders of JPEG files."""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.image2label.image_sets import FileSet, RecordSet
from open_seq2seq.data.image2label.labelled_files import class_folders, files_in_folders, read_class_file
from open_seq2seq.data.image2label.params import image_params
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError

_RECORDS = re.compile(r"(train|validation)-(\d{5})-of-(\d{5})")
_FOLDERS = {"train": ("train",), "validation": ("validation", "val")}
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
        if path is not None:
            return read_class_file(path, "num_classes", count)
        if not self._folder_names and not os.path.isdir(self.params["data_dir"]):
            deco_print(f"WARNING: the names of the classes are unknown, because {shown(self.params['data_dir'])} does "
                       "not exist: give class_file, or the logdir without --config_file.")
        return self._folder_names or [str(number) for number in range(count)]

    @property
    def _names_folder(self) -> str | None:
        """The folder with the class folders of training images, or else of validation images; None without one."""
        folders = [os.path.join(self.params["data_dir"], name) for names in _FOLDERS.values() for name in names]
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
        folders = [os.path.join(data_dir, name) for name in _FOLDERS[self._part]]
        folder = next((folder for folder in folders if os.path.isdir(folder)), None)
        if folder is None:
            raise DataError(f"{shown(data_dir)} has neither TFRecord files {self._part}-00000-of-… nor a folder "
                            f"{os.path.basename(folders[-1])}: correct data_dir.")
        return files_in_folders(folder, self._folder_names, self.mode == "train")

    def example_files(self) -> Sequence[str]:
        return () if isinstance(self._set, RecordSet) else super().example_files()


def _printable(name: str) -> str:
    """Returns the name of a folder as one line of text."""
    return shown(name).replace("\n", " ").strip()
