"""Sets of labelled images, in memory or in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from open_seq2seq.utils.data_files import shown


def on_host(values: object) -> tf.Tensor:
    """Returns a constant in the host's memory, where ``tf.data`` needs it."""
    with tf.device("CPU:0"):
        return tf.constant(values)


class PixelSet:
    """Images in memory.

    Args:
      pixels: uint8 ``[images, height, width, 3]``.
      labels: class indices, int32 ``[images]``.
      describe: function that returns how messages refer to the image with a given index.
      dropped: dict of reason → number of images that were left out.
    """

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, describe: Callable[[int], str],
                 dropped: Mapping[str, int] | None = None) -> None:
        self.pixels = on_host(pixels)
        self._labels = on_host(np.asarray(labels, np.int32))
        self.describe = describe
        self.dropped = dict(dropped or {})
        self.num_images = len(pixels)

    def labels(self, examples: tf.Tensor) -> tf.Tensor:
        """Returns the class indices of examples, int32 ``[batch]``."""
        return tf.gather(self._labels, examples)


class FileSet:
    """Image files, read when they are needed.

    Args:
      paths: the files.
      labels: class indices, int32 ``[images]``.
      places: file and line of each image's row, such as ``list.csv:3``, for messages; empty for images of folders.
      dropped: dict of reason → number of files that were left out.
    """

    def __init__(self, paths: Sequence[str], labels: np.ndarray, places: Sequence[str] = (),
                 dropped: Mapping[str, int] | None = None) -> None:
        self.paths = list(paths)
        self._names = on_host(np.array([path.encode("utf-8", "surrogateescape") for path in paths], object)
                              if paths else np.zeros(0, "S1"))
        self._labels = on_host(np.asarray(labels, np.int32))
        self._places = places
        self.dropped = dict(dropped or {})
        self.num_images = len(self.paths)

    def labels(self, examples: tf.Tensor) -> tf.Tensor:
        """Returns the class indices of examples, int32 ``[batch]``."""
        return tf.gather(self._labels, examples)

    def load(self, example: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the encoded image (a string scalar) and the index of its class (an int32 scalar)."""
        return tf.io.read_file(self._names[example]), self._labels[example]

    def describe(self, example: int) -> str:
        """Returns how messages refer to an image."""
        name = shown(self.paths[example])
        return f"{self._places[example]} ({name})" if self._places else name
