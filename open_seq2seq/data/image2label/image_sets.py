"""Sets of labelled images: in memory, in image files, or in TFRecord files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from open_seq2seq.data.record_files import record_starts
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


_KEYS = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
         "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


class RecordSet(FileSet):
    """Images in TFRecord files, read when they are needed; the positions of all records are found at the start.

    TensorFlow verifies the checksums of a record when it is read. A record has the features ``image/encoded``, the
    bytes of an image file, and ``image/class/label``, the class, counted from 1.

    Args:
      paths: the TFRecord files.
      num_classes: number of classes; labels are from 1 to this number.

    Raises:
      DataError: a file is missing, damaged or empty.
    """

    def __init__(self, paths: Sequence[str], num_classes: int) -> None:
        super().__init__(paths, np.zeros(0, np.int32))
        self._num_classes = num_classes
        starts = [record_starts(path) for path in paths]
        self._firsts = np.cumsum([0, *map(len, starts)])
        self._first_records = on_host(self._firsts)
        self._starts = on_host(np.concatenate(starts))
        self.num_images = int(self._firsts[-1])

    def load(self, example: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the encoded image (a string scalar) and the index of its class (an int32 scalar)."""
        content = self._record(example)
        features = tf.io.parse_single_example(content, _KEYS)
        label = features["image/class/label"]
        in_range = tf.debugging.assert_equal(
            (label >= 1) & (label <= self._num_classes), True,
            f"its label is not one of the numbers from 1 to {self._num_classes}")
        with tf.control_dependencies([] if in_range is None else [in_range]):
            return features["image/encoded"], tf.cast(label - 1, tf.int32)

    def _record(self, example: tf.Tensor) -> tf.Tensor:
        """Returns the data of a record, a string scalar."""
        file = tf.searchsorted(self._first_records, [example], "right") - 1
        # Unlike tf.data.TFRecordDataset, the operation can begin at any record.
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.gather(self._names, file), compression_type="", buffer_size=0,
            byte_offsets=tf.gather(self._starts, [example]))
        dataset = tf.data.experimental.from_variant(records, tf.TensorSpec([], tf.string))
        return dataset.take(1).get_single_element()

    def _place(self, example: int) -> tuple[int, int]:
        """Returns the index of an image's file, and the index of the image's record in the file."""
        file = int(np.searchsorted(self._firsts, example, "right")) - 1
        return file, example - int(self._firsts[file])

    def describe(self, example: int) -> str:
        file, number = self._place(example)
        return f"{shown(self.paths[file])}, record {number + 1}"
