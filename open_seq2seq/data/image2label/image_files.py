"""Finds image files in folders."""

from __future__ import annotations

import os
import re

from open_seq2seq.data.folders import files_below
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.progress import format_count

NOT_IMAGES = "not JPEG, PNG, GIF or BMP by their suffix"
"""Why other files in folders of images are left out."""
_IMAGE = re.compile(r"\.(?:jpe?g|png|bmp|gif)$", re.IGNORECASE)


def is_image(name: str) -> bool:
    """Returns whether a file name has the suffix of an image format that can be decoded."""
    return _IMAGE.search(name) is not None


def images_below(folder: str) -> tuple[list[str], int]:
    """Returns the images in a folder and its subfolders, and the number of other files; see ``files_below``.

    Raises:
      DataError: a folder cannot be read.
    """
    files = list(files_below(folder))
    images = list(filter(is_image, files))
    return images, len(files) - len(images)


def find_images(name: str) -> list[str]:
    """Returns the images in a folder and its subfolders; if ``name`` is a file, only this file.

    The number of other files in the folder is printed.

    Raises:
      UserError: the folder has no images.
    """
    if not os.path.isdir(name):
        return [name]
    images, others = images_below(name)
    if not images:
        raise UserError(f"--infer_files names {shown(name)}, a folder without images: give JPEG, PNG, GIF or BMP files "
                        "with their usual suffixes.")
    if others:
        deco_print(f"Left out {format_count(others, 'file')} of {shown(name)}: {NOT_IMAGES}")
    return images
