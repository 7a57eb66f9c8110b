"""Lists of image files and their classes: a folder for each class, or CSV files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.data.image2label.image_files import NOT_IMAGES, FileSet, images_below
from open_seq2seq.data.tables import csv_rows
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import TextIds

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
    """Returns the sorted names of the subfolders of a folder, without hidden ones.

    Raises:
      DataError: the folder cannot be read, or has no subfolders.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"The folder {shown(folder)} cannot be read: {error.strerror or error}.") from error
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
