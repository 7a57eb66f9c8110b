"""Small images in files of each kind."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

CLASSES = ["dark", "light"]


def picture(number: int, height: int = 9, width: int = 11) -> np.ndarray:
    """A smooth image, dark if the number is even and light if it is odd."""
    y, x = np.mgrid[:height, :width]
    base = 40 + 120 * (number % 2) + 3 * (y + 2 * x)[..., np.newaxis] + np.array([0, 10, 20]) + number
    return np.clip(base, 0, 255).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Folder with three PNG files of each of two classes."""
    for number in range(6):
        path = tmp_path / "data" / CLASSES[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_png(picture(number)).numpy())
    return tmp_path / "data"


def folder_params(folder, **others):
    """Parameters of an ``ImageFolderDataLayer`` for the folder."""
    return {"folder": str(folder), "classes": CLASSES, "image_size": 6, "resize_size": 8, "batch_size": 3, **others}
