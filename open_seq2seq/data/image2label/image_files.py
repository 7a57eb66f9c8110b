"""Finds image files in folders, decodes them to RGB, and makes sets of labelled images of files, records or pixels."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from open_seq2seq.data.datasets import record_starts
from open_seq2seq.data.folders import files_below
from open_seq2seq.parts.forward_pass import current_pass
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


# Places of 32-bit numbers in the header of a BMP file, in bytes: where the pixels begin, the size of the part of the
# header that begins at 14, and the compression; and of a 16-bit number, the bits per pixel.
_PIXELS, _SIZE, _BITS, _COMPRESSION = 10, 14, 28, 30
_SMALLEST_BMP = 54


def decode_rgb(content: tf.Tensor) -> tf.Tensor:
    """Decodes a JPEG, PNG, GIF or BMP file to ``[height, width, 3]`` uint8.

    Grey images get three equal channels, CMYK is converted to RGB, the colours of a palette are looked up, 16 bits are
    reduced to 8, transparent images are put on a white background, and only the first frame of an animation is read.

    Args:
      content: the bytes of the file, a string scalar.

    Raises:
      tf.errors.InvalidArgumentError: the file is damaged, or of another format.
    """
    start = tf.strings.substr(content, 0, 3)
    image = tf.case([(tf.io.is_jpeg(content), lambda: tf.io.decode_jpeg(content, channels=3)),
                     (start == b"\x89PN", lambda: on_white(_decode_png(content))),
                     (start == b"GIF", lambda: _first_frame(_opaque_gif(content))),
                     (_has_palette(content), lambda: _decode_palette(content))],
                    lambda: on_white(_with_used_alpha(_first_frame(content))))
    return tf.ensure_shape(image, [None, None, 3])


def on_white(image: tf.Tensor) -> tf.Tensor:
    """Converts an image with 1 (grey), 2 (grey, alpha), 3 or 4 (RGB, alpha) channels to 3, on a white background."""
    channels = tf.shape(image)[2]
    colours = tf.cond(channels < 3, lambda: tf.repeat(image[..., :1], 3, axis=-1), lambda: image[..., :3])

    def mixed() -> tf.Tensor:
        alpha, values = tf.cast(image[..., -1:], tf.int32), tf.cast(colours, tf.int32)
        return tf.cast((values * alpha + 255 * (255 - alpha) + 127) // 255, tf.uint8)

    return tf.cond(channels % 2 == 0, mixed, lambda: colours)


def _first_frame(content: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_image(content, channels=0, expand_animations=False)


def _decode_png(content: tf.Tensor) -> tf.Tensor:
    """Decodes a PNG file, with an alpha channel if it has transparent pixels."""
    before_pixels = tf.strings.split([content], "IDAT", maxsplit=1).flat_values[0]
    has_key = tf.strings.regex_full_match(before_pixels, r"\C*tRNS\C*")  # one colour, or some of a palette
    return tf.cond(has_key, lambda: tf.io.decode_png(content, channels=4), lambda: tf.io.decode_png(content))


def _with_used_alpha(image: tf.Tensor) -> tf.Tensor:
    """Returns the image of a BMP file without its fourth channel if that is 0 everywhere, that is, not used."""
    unused = (tf.shape(image)[2] == 4) & ~tf.reduce_any(image[..., -1] > 0)
    return tf.cond(unused, lambda: image[..., :3], lambda: image)


def _opaque_gif(content: tf.Tensor) -> tf.Tensor:
    """Returns a GIF file whose first frame is not transparent; in a portable pass, without Python, the file itself."""
    return content if current_pass().portable else tf.numpy_function(_white_gif, [content], tf.string)


def _white_gif(content: bytes) -> bytes:
    """Returns a GIF file whose first frame is not transparent: the colour of transparent pixels becomes white."""
    data = bytearray(content)
    try:
        colours, place, index = 13, 13, None
        place += 3 << ((data[10] & 7) + 1) if data[10] & 0x80 else 0
        while data[place] == 0x21:  # an extension
            if data[place + 1] == 0xF9 and data[place + 3] & 1:  # for the next frame, with a transparent colour
                data[place + 3] &= 0xFE
                index = data[place + 6]
            place += 2
            while data[place]:  # the length of a block
                place += data[place] + 1
            place += 1
        colours = place + 10 if data[place + 9] & 0x80 else colours  # the frame's own colours
        if index is not None:
            data[colours + 3 * index:colours + 3 * index + 3] = b"\xff\xff\xff"
    except IndexError:
        return content  # damaged, which the decoder reports
    return bytes(data)


def _number(content: tf.Tensor, place: int, kind: tf.DType = tf.int32) -> tf.Tensor:
    return tf.io.decode_raw(tf.strings.substr(content, place, kind.size), kind)[0]


def _has_palette(content: tf.Tensor) -> tf.Tensor:
    """Returns whether a file is a BMP file with 8 bits per pixel."""
    is_bmp = (tf.strings.length(content) >= _SMALLEST_BMP) & (tf.strings.substr(content, 0, 2) == b"BM")
    return tf.cond(is_bmp, lambda: _number(content, _BITS, tf.uint16) == 8, lambda: tf.constant(False))


def _decode_palette(content: tf.Tensor) -> tf.Tensor:
    """Decodes a BMP file with a palette, whose indices ``decode_bmp`` returns as if they were grey values."""
    begin, end = _SIZE + _number(content, _SIZE), _number(content, _PIXELS)
    usable = tf.debugging.assert_equal((_number(content, _COMPRESSION) == 0) & (end > begin), True,
                                       "it is a compressed BMP file, or a BMP file without palette: convert it to PNG")
    with tf.control_dependencies([] if usable is None else [usable]):
        indices = tf.io.decode_bmp(content)[..., 0]
    colours = tf.reshape(tf.io.decode_raw(tf.strings.substr(content, begin, (end - begin) // 4 * 4), tf.uint8), [-1, 4])
    with tf.device("CPU:0"):  # on other devices, indices beyond the palette would not be errors
        return tf.gather(colours[:, 2::-1], tf.cast(indices, tf.int32))  # from blue, green, red, zero


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
