"""Prepares a user's own pictures: finds the folders of classes, and leaves out files that cannot be decoded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from open_seq2seq.data.image2label.image_files import NOT_IMAGES, decode_rgb, is_image, on_host
from open_seq2seq.data.own_classes import Labelled, keep_distinct
from open_seq2seq.data.own_tables import Kept
from open_seq2seq.utils.console import tracked
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import DataError

_SIZES = (32, 64, 96, 128)  # of images, in pixels, that the recipe offers


@dataclass(frozen=True)
class Picture(Labelled):
    """A file of a class; the key is the checksum of its content, empty before the file has been decoded.

    Attributes:
      side: length of its shorter side in pixels; 0 before the file has been decoded.
    """

    side: int = 0


def clean(files: Sequence[Labelled]) -> Kept[Picture]:
    """Leaves out files that are not images, broken or repeated, and those of classes that are too small to be split."""
    kept = Kept[Picture]()
    images: list[Picture] = []
    for file in files:
        picture = Picture(file.line, file.label, file.part, file.path)
        if not is_image(file.path):
            kept.drop(picture, NOT_IMAGES)
        elif picture.place != picture.path or picture.label.strip() != picture.label or "\n" in picture.path:
            kept.drop(picture, "with a name that cannot be in a list, because it is not UTF-8 or has odd spaces")
        else:
            images.append(picture)
    with ThreadPoolExecutor(os.cpu_count() or 1, "decoding") as pool:
        for reason, picture in tracked(pool.map(_decoded, images), len(images), "Decoding pictures"):
            if reason:
                kept.drop(picture, reason)
            else:
                kept.rows.append(picture)
    keep_distinct(kept)
    return kept


def _decoded(picture: Picture) -> tuple[str, Picture]:
    """Decodes a picture; returns why it cannot be used (empty if it can), and a copy with ``key`` and ``side``."""
    try:
        content = read_data(picture.path, "The image")
    except DataError:
        return "that cannot be read", picture
    if not content:
        return "empty", picture
    try:
        height, width, _ = decode_rgb(on_host(content)).shape
    except tf.errors.OpError:
        return "broken: cannot be decoded", picture
    return "", replace(picture, key=hashlib.sha256(content).hexdigest(), side=min(height, width))


def fitting_size(pictures: Sequence[Picture]) -> int:
    """Returns the size of images, in pixels, that suits the pictures: at most the shorter side of most of them."""
    median = float(np.median([picture.side for picture in pictures]))
    return max(size for size in _SIZES if size <= max(median, _SIZES[0]))
