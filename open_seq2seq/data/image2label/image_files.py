"""Finds image files in folders or lists of classes, decodes them to RGB, and makes sets of labelled images.

The sets are of pixels in memory, of files, or of TFRecord files; lists are CSV files, also those of recordings.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.data.datasets import record_starts
from open_seq2seq.data.folders import files_below, folders_in
from open_seq2seq.data.tables import csv_rows
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.unicode_text import TextIds

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
    # Outside of graphs, the function gets an array instead of bytes.
    return content if current_pass().portable else tf.numpy_function(
        lambda file: _white_gif(np.array(file, object).item()), [content], tf.string)


def _white_gif(content: bytes) -> bytes:
    """Returns a GIF file whose first frame is not transparent: the colour of transparent pixels becomes white."""
    data = bytearray(content)
    try:
        place, index = 13, None
        place += 3 << ((data[10] & 7) + 1) if data[10] & 0x80 else 0
        while data[place] == 0x21:  # an extension
            if data[place + 1] == 0xF9 and data[place + 3] & 1:  # for the next frame, with a transparent colour
                data[place + 3] &= 0xFE
                index = data[place + 6]
            place += 2
            while data[place]:  # the length of a block
                place += data[place] + 1
            place += 1
        # The frame's own colours, or else those of the file. Some programs write an index that is not among them.
        colours, flags = (place + 10, data[place + 9]) if data[place + 9] & 0x80 else (13, data[10])
        if index is not None and index < 2 << (flags & 7):
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


_SHOWN = 20
_HEADER = (("image", "file", "filename", "path"), ("label", "class"))


class Row(NamedTuple):
    """A row of a CSV file.

    Attributes:
      path: path of the file.
      label: name of the class.
      place: file and first line of the row, for messages, such as ``list.csv:3``.
    """

    path: str
    label: str
    place: str


def class_folders(folder: str) -> list[str]:
    """Returns the sorted names of the folders in a folder; see ``folders_in``.

    Raises:
      DataError: the folder cannot be read, or has no subfolders.
    """
    names = folders_in(folder)
    if not names:
        name = shown(folder)
        raise DataError(f"The folder {name} contains " + (
            f"images, but no folders: training and evaluation need a folder of images for each class, and "
            f"--infer_files={name} classifies the images." if images_below(folder)[0] else
            "no folders: it needs a folder of images for each class."))
    return names


def files_in_folders(folder: str, classes: Sequence[str], needs_all: bool) -> FileSet:
    """Returns the images in the folders ``<folder>/<class>/`` and their subfolders.

    Files that are not images, and the images of other classes, are counted in ``dropped``.

    Args:
      folder: the folder.
      classes: names of the classes, in the order of their indices.
      needs_all: whether there must be images of every class.

    Raises:
      DataError: the folder cannot be read or has no subfolders, there are no images at all, or a class has no images
        although ``needs_all`` is True.
    """
    present, numbers = class_folders(folder), numbers_of(classes)
    paths: list[str] = []
    labels: list[int] = []
    dropped: Counter[str] = Counter()
    unknown = [name for name in present if numbers[name] < 0]
    for name in present:
        images, others = images_below(os.path.join(folder, name))
        dropped[NOT_IMAGES] += others
        if name not in unknown:
            paths += images
            labels += [numbers[name]] * len(images)
        else:
            dropped[f"in folders that are not among the classes, such as {shown(unknown[0])}"] += len(images)
    without = sorted(set(range(len(classes))) - set(labels))
    if not paths or (needs_all and without):
        raise DataError(f"The folder {shown(os.path.join(folder, classes[without[0]]))} of the class "
                        f"{shown(classes[without[0]])} has no images: add some, or remove the class.")
    return FileSet(paths, np.asarray(labels, np.int32), dropped=+dropped)


def read_class_file(path: str, counted_by: str = "", count: int | None = None) -> list[str]:
    """Returns the names of the classes in a text file with one name per line.

    Args:
      path: the file.
      counted_by: name of the parameter with the number of classes, for messages; needed if ``count`` is given.
      count: the number of classes; None for any.

    Raises:
      DataError: the file cannot be read, does not have ``count`` lines, or has a line without a name.
    """
    names = [line.strip() for line in read_lines(path, "The file of classes")]
    if count is not None and len(names) != count:
        raise DataError(f"The file of classes {shown(path)} has {len(names):,} lines, but {counted_by} is {count:,}: "
                        "correct one of them.")
    if not names or not all(names):
        raise DataError(f"The file of classes {shown(path)} must have a name in each line.")
    return names


def read_rows(path: str, what: str, columns: Sequence[str] | None, header: Sequence[Sequence[str]] = ()) -> \
        Iterator[Row]:
    """Yields the rows of a CSV file that lists files and their classes.

    Args:
      path: the CSV file; tabs separate columns if its name ends in ``.tsv``.
      what: what the file is, for messages.
      columns: the names ``file`` and ``label`` in the order of the columns, for a file without header; None if the file
        has a header.
      header: for a file with a header, the accepted names of the column of files, and those of the column of labels.

    Raises:
      DataError: the file cannot be read, is empty or not valid CSV, has no header, or has a row with too few columns.
    """
    rows = csv_rows(path, _checked_lines(path, what), "\t" if path.removesuffix(".gz").endswith(".tsv") else ",")
    order: list[int] | None = None if columns is None else [columns.index("file"), columns.index("label")]
    for first, _, values in rows:
        place = f"{shown(path)}:{first}"
        if not values:
            continue
        if order is None:
            order = _order(values, header, place)
        elif len(values) <= max(order) or not values[order[0]] or not values[order[1]].strip():
            raise DataError(f"{place}: the row must have a file and a label, but is {shown(','.join(values))[:200]!r}.")
        else:
            yield Row(values[order[0]], values[order[1]].strip(), place)


def _checked_lines(path: str, what: str) -> Iterator[str]:
    number = 0
    for number, line in enumerate(read_lines(path, what), 1):
        if "\0" in line:
            raise DataError(f"{shown(path)}:{number}: the line contains a NUL byte: save the file as UTF-8 text.")
        yield line
    if not number:
        raise DataError(f"{what} {shown(path)} is empty.")


def _order(values: Sequence[str], header: Sequence[Sequence[str]], place: str) -> list[int]:
    """Returns the indices of the columns of files and labels, found by their names in a header."""
    names = [value.strip().lower() for value in values]
    columns = [next((names.index(name) for name in accepted if name in names), None) for accepted in header]
    if None in columns:
        raise DataError(f"{place}: the first line must be a header with the columns {header[0][0]} and {header[1][0]}, "
                        f"but is {shown(','.join(values))[:200]!r}.")
    return [place for place in columns if place is not None]


def numbers_of(classes: Sequence[str]) -> TextIds:
    """Returns the indices of classes by name, also by names that are composed of other characters; -1 for others."""
    return TextIds({name: number for number, name in enumerate(classes)}, -1)


def number_of(label: str, numbers: TextIds, place: str) -> int:
    """Returns the index of a class.

    Args:
      label: name of the class, as read from the file.
      numbers: see ``numbers_of``.
      place: file and line of the label, for the message.

    Raises:
      DataError: there is no such class.
    """
    if numbers[label] < 0:
        names = list(numbers)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise DataError(f"{place}: the label is {shown(label)[:200]!r}, but the classes are "
                        f"{', '.join(names[:_SHOWN])}{more}: correct the label or the classes.")
    return numbers[label]


def files_of_lists(lists: Sequence[str], root: str | None, classes: Sequence[str]) -> FileSet:
    """Returns the images of CSV files with the columns image and label.

    Args:
      lists: the CSV files.
      root: folder that paths are relative to; None for the folder of each CSV file.
      classes: names of the classes, in the order of their indices.

    Raises:
      DataError: a file or a row cannot be used.
    """
    numbers = numbers_of(classes)
    paths, labels, lines = [], [], []
    for path in lists:
        base = os.path.dirname(path) if root is None else root
        for row in read_rows(path, "The list of images", None, _HEADER):
            image = os.path.join(base, row.path)
            if not os.path.isfile(image):
                raise DataError(f"{row.place}: the image {shown(image)} does not exist: correct the line or "
                                "image_root.")
            paths.append(image)
            labels.append(number_of(row.label, numbers, row.place))
            lines.append(row.place)
    if not paths:
        raise DataError(f"The list of images {shown(lists[0])} has no rows after its header.")
    return FileSet(paths, np.asarray(labels, np.int32), lines)
