"""Finds image files in folders."""

from __future__ import annotations

import os
import re

from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import UserError

_IMAGE = re.compile(r"\.(?:jpe?g|png|bmp|gif)$", re.IGNORECASE)


def is_image(name: str) -> bool:
    """Returns whether a file name has the suffix of an image format that can be decoded."""
    return _IMAGE.search(name) is not None


def images_below(folder: str) -> tuple[list[str], int]:
    """Returns the images in a folder and its subfolders, sorted, and the number of other files that are not hidden."""
    found, others = [], 0
    for place, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            if is_image(name):
                found.append(os.path.join(place, name))
            else:
                others += not name.startswith(".")
    return found, others


def find_images(name: str) -> list[str]:
    """Returns the images in a folder and its subfolders; if ``name`` is a file, only this file.

    Raises:
      UserError: the folder has no images.
    """
    if not os.path.isdir(name):
        return [name]
    found, _ = images_below(name)
    if not found:
        raise UserError(f"--infer_files names {shown(name)}, a folder without images: give JPEG, PNG, GIF or BMP files "
                        "with their usual suffixes.")
    return found
