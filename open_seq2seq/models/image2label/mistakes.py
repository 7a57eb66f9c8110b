"""Picture of wrongly classified images, side by side."""

from __future__ import annotations

import math

import numpy as np


def mistakes_picture(images: np.ndarray) -> np.ndarray:
    """Returns images in a square grid, FP32 ``[height, width, channels]`` from 0 to 1.

    Args:
      images: ``[images, height, width, channels]``. The values of each image are stretched to the range from 0 to 1.
        Audio features ``[images, time, 1, features]`` are shown as grey images. Of other images, only the first
        channel is shown, unless they have 1 or 3 channels.
    """
    if images.shape[2] == 1:
        images = images.transpose(0, 3, 1, 2)[:, ::-1]
    elif images.shape[3] not in (1, 3):
        images = images[..., :1]
    low, high = (bound(images, axis=(1, 2, 3), keepdims=True) for bound in (np.min, np.max))
    shown = (images - low) / np.maximum(high - low, 1e-6)
    count, height, width, channels = shown.shape
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // columns)
    grid = np.zeros([rows, height + 1, columns, width + 1, channels], np.float32)  # with a black line between images
    for number, image in enumerate(shown):
        grid[number // columns, :height, number % columns, :width] = image
    return grid.reshape(rows * (height + 1), columns * (width + 1), channels)
