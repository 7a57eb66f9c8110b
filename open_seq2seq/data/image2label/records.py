"""Images in TFRecord files, in the format of the TensorFlow models and of Tensor2Tensor."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.image2label.image_sets import FileSet
from open_seq2seq.utils.data_files import opened_data, shown
from open_seq2seq.utils.errors import DataError

# Sizes in bytes. A record consists of the data's length (8), its checksum (4), the data, and their checksum (4).
_HEADER, _FOOTER = 12, 4
_KEYS = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
         "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


class RecordSet(FileSet):
    """Images in TFRecord files, read when they are needed; the positions of all records are found at the start.

    A record has the features ``image/encoded``, the bytes of an image file, and ``image/class/label``, the class,
    counted from 1.

    Args:
      paths: the TFRecord files.
      num_classes: number of classes; labels are from 1 to this number.

    Raises:
      DataError: a file is missing, damaged or empty.
    """

    def __init__(self, paths: Sequence[str], num_classes: int) -> None:
        super().__init__([], np.zeros(0, np.int32))
        self.paths = list(paths)
        self._num_classes = num_classes
        spans = [record_spans(path) for path in paths]
        self._firsts = np.cumsum([0, *map(len, spans)])
        self._spans = np.concatenate(spans)
        self.num_images = len(self._spans)

    def load(self, example: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the encoded image (a string scalar) and the index of its class (an int32 scalar)."""
        content = tf.ensure_shape(tf.numpy_function(self._read, [example], tf.string, stateful=False), [])
        features = tf.io.parse_single_example(content, _KEYS)
        label = features["image/class/label"]
        in_range = tf.debugging.assert_equal(
            (label >= 1) & (label <= self._num_classes), True,
            f"its label is not one of the numbers from 1 to {self._num_classes}")
        with tf.control_dependencies([] if in_range is None else [in_range]):
            return features["image/encoded"], tf.cast(label - 1, tf.int32)

    def _read(self, example: Any) -> bytes:
        file, _ = self._place(int(example))
        start, size = self._spans[example]
        with open(self.paths[file], "rb", buffering=0) as records:
            return os.pread(records.fileno(), int(size), int(start))

    def _place(self, example: int) -> tuple[int, int]:
        """Returns the index of an image's file, and the index of the image's record in the file."""
        file = int(np.searchsorted(self._firsts, example, "right")) - 1
        return file, example - int(self._firsts[file])

    def describe(self, example: int) -> str:
        file, number = self._place(example)
        return f"{shown(self.paths[file])}, record {number + 1}"


def record_spans(path: str) -> np.ndarray:
    """Returns the offset and the number of bytes of the data of each record of a TFRecord file, int64 ``[records, 2]``.

    Raises:
      DataError: the file cannot be read, is empty, or does not consist of whole records.
    """
    spans: list[tuple[int, int]] = []
    place = 0
    with opened_data(path, "The TFRecord file") as file:
        size = os.fstat(file.fileno()).st_size
        while place < size:
            header = os.pread(file.fileno(), _HEADER, place)
            length = struct.unpack("<Q", header[:8])[0] if len(header) == _HEADER else size
            if place + _HEADER + length + _FOOTER > size:
                raise DataError(f"{shown(path)}, record {len(spans) + 1}: the file ends within the record, so it is "
                                "incomplete, or not an uncompressed TFRecord file.")
            spans.append((place + _HEADER, length))
            place += _HEADER + length + _FOOTER
    if not spans:
        raise DataError(f"The TFRecord file {shown(path)} is empty.")
    return np.asarray(spans, np.int64)
