"""A user's own labelled examples: found in the folders of their classes, cleaned, and split into parts."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from open_seq2seq.data.folders import files_below, folders_in
from open_seq2seq.data.own_tables import Kept
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_new_folder
from open_seq2seq.utils.script import random_seed

PARTS = ("train", "dev", "test")
MOST_HELD_OUT = 1000  # largest number of examples of dev and of test, about
_FEWEST = len(PARTS)  # a class with fewer examples cannot be in each part
_NAMES_OF_PARTS = {"train": "train", "training": "train", "dev": "dev", "val": "dev", "valid": "dev",
                   "validation": "dev", "test": "test", "testing": "test"}


@dataclass(frozen=True)
class Labelled:
    """A labelled example.

    Attributes:
      line: number of its line in the table, counted from 1, or of its file among all.
      label: name of its class.
      part: ``train``, ``dev`` or ``test`` if the data is split already; otherwise empty.
      path: its file; empty for a row of a table.
      key: what examples that must not be in two parts have in common.
    """

    line: int
    label: str
    part: str = ""
    path: str = ""
    key: str = ""

    @property
    def place(self) -> str:
        """Where the example was read, for messages."""
        return shown(self.path) if self.path else f"line {self.line:,}"


Example = TypeVar("Example", bound=Labelled)


def class_files(folder: str) -> list[Labelled]:
    """Returns the files of all classes: ``<folder>/<class>/…`` or ``<folder>/train/<class>/…``.

    A folder that contains nothing but another folder, as archives often do, is entered.

    Raises:
      DataError: a folder cannot be read, there are fewer than two folders of classes, or one of them has several
        folders but no file beside them, so that these are probably the classes.
    """
    names = folders_in(folder)
    while len(names) == 1:
        folder = os.path.join(folder, names[0])
        names = folders_in(folder)
    parts = [_NAMES_OF_PARTS.get(name.lower(), "") for name in names]
    if "train" in parts and all(parts):
        found = [file for name, part in zip(names, parts, strict=True)
                 for file in _files(os.path.join(folder, name), part)]
    else:
        found = list(_files(folder, ""))
    files = [Labelled(number, *file) for number, file in enumerate(found, 1)]
    if len({file.label for file in files}) < 2:
        raise DataError(f"The folder {shown(folder)} must contain a folder of files for each class, at least two: its "
                        f"folders are {', '.join(map(shown, names))[:200] or 'none'}.")
    return files


def _files(folder: str, part: str) -> Iterator[tuple[str, str, str]]:
    """Yields (class, part, path) of each file."""
    for name in folders_in(folder):
        below = os.path.join(folder, name)
        paths, folders = list(files_below(below)), folders_in(below)
        if paths and len(folders) > 1 and all(os.path.dirname(path) != below for path in paths):
            raise DataError(f"{shown(below)} contains folders ({', '.join(map(shown, folders))[:80]}) but no files: if "
                            f"these are the classes, give --folder={shown(below)}; otherwise, move the files of the "
                            f"class {shown(name)} out of them.")
        yield from ((name, part, path) for path in paths)


def keep_distinct(kept: Kept[Example]) -> None:
    """Leaves out examples that repeat another one, and those of classes that have too few examples to be split.

    If the data is split already, an example of two parts stays in ``test`` or else ``dev``, so that scores are honest.
    """
    first: dict[str, Example] = {}
    for example in sorted(kept.rows, key=lambda row: -PARTS.index(row.part or "train")):  # a stable order
        first.setdefault(example.key, example)
    for example in kept.rows:
        same = first[example.key]
        if same is not example:
            kept.drop(example, "repeated" if same.label == example.label else "repeated with another label")
    kept.rows = [example for example in kept.rows if first[example.key] is example]
    counts = Counter(example.label for example in kept.rows)
    for example in kept.rows:
        if counts[example.label] < _FEWEST:
            kept.drop(example, f"of a class with fewer than {_FEWEST} examples")
    kept.rows = [example for example in kept.rows if counts[example.label] >= _FEWEST]


def class_names(labels: Iterable[str]) -> list[str]:
    """Returns the different labels in the order of their class indices: by number, if all are numbers, or by name."""
    names = sorted(set(labels))
    return sorted(names, key=float) if all(name.removeprefix("-").isdecimal() for name in names) else names


def split(examples: Sequence[Example], dev_share: float, test_share: float, seed: int) -> dict[str, list[Example]]:
    """Splits examples at random, with the same share of each class in each part and at least one example of it.

    Examples that have a part stay in it; only parts that the data does not have are taken from the others.

    Args:
      examples: the examples; see ``keep_distinct``.
      dev_share: share of the examples in ``dev``. Of many examples, dev gets only about ``MOST_HELD_OUT``.
      test_share: the same for ``test``.
      seed: seed of the choice.

    Returns:
      Dict of part → its examples, in the order of ``examples``.

    Raises:
      DataError: there are fewer than two classes, or a class has no example in train.
    """
    part_of = [example.part or "train" for example in examples]
    free: dict[str, list[int]] = {}
    for index in np.random.Generator(np.random.Philox(seed)).permutation(len(examples)).tolist():
        if part_of[index] == "train":
            free.setdefault(examples[index].label, []).append(index)
    names = class_names(example.label for example in examples)
    if len(names) < 2:
        raise DataError(f"Only {len(names)} of the classes have at least {_FEWEST} usable examples, but two must: give "
                        "more examples of each class, or name the right column of the labels.")
    if missing := set(names) - set(free):
        raise DataError(f"The class {min(missing)} has no example in train: add examples, or remove the class.")
    sizes = {name: len(indices) for name, indices in free.items()}
    for part, share in (("test", test_share), ("dev", dev_share)):
        if any(example.part == part for example in examples):
            continue
        share = min(share, MOST_HELD_OUT / sum(sizes.values()))
        for name, indices in free.items():
            # Each class keeps an example for train, and one for dev while test is made.
            count = min(max(1, round(share * sizes[name])), len(indices) - 1 - (part == "test"))
            for _ in range(count):
                part_of[indices.pop()] = part
    return {part: [example for example, its in zip(examples, part_of, strict=True) if its == part] for part in PARTS}


DROPPED = "dropped.tsv"
"""Name of the file that lists what was left out."""
_SHOWN = 12  # maximum number of classes whose counts are printed


def add_split_arguments(parser: argparse.ArgumentParser, noun: str, output_dir: str) -> None:
    """Adds the options of the output folder and of the split; ``noun`` is a word for an example, in the singular."""
    parser.add_argument("--output_dir", default=output_dir, help="folder to write to (default: %(default)s)")
    parser.add_argument("--dev_share", type=float, default=0.1, help=f"share of the {noun}s in dev, at most about "
                        f"{MOST_HELD_OUT} {noun}s (default: %(default)s)")
    parser.add_argument("--test_share", type=float, default=0.1, help="the same for test (default: %(default)s)")
    parser.add_argument("--seed", type=random_seed, default=0, help="seed of the split (default: %(default)s)")


def check_split_arguments(args: argparse.Namespace) -> None:
    """Raises UserError if a share is out of range, or the output folder exists."""
    for name in ("dev_share", "test_share"):
        if not 0.0 < getattr(args, name) < 0.5:
            raise UserError(f"--{name} must be a share of the examples above 0 and below 0.5, got "
                            f"{getattr(args, name)}.")
    check_new_folder(args.output_dir)


def read_class_files(folder: str) -> list[Labelled]:
    """Returns the files of the folders of classes (see ``class_files``), and prints how many there are."""
    files = class_files(folder)
    count = len({file.label for file in files})
    deco_print(f"Read {shown(folder)}: {format_count(len(files), 'file')} in the folders of {count} classes")
    return files


def split_and_report(kept: Kept[Example], args: argparse.Namespace, noun: str,
                     ) -> tuple[dict[str, list[Example]], list[str]]:
    """Splits the examples (see ``split``) and prints what was left out, also before an error.

    Returns:
      Dict of part → its examples, and the names of the classes.
    """
    try:
        parts = split(kept.rows, args.dev_share, args.test_share, args.seed)
    except DataError:
        kept.report(noun, place=lambda row: row.place)
        raise
    kept.report(noun, os.path.join(args.output_dir, DROPPED), lambda row: row.place)
    return parts, class_names(row.label for row in kept.rows)


def say_parts(path: str, parts: Mapping[str, Sequence[Example]], names: Sequence[str], noun: str) -> None:
    """Prints the sizes of the parts, and how many examples of each class are in train.

    Args:
      path: the file of a part, with ``{part}`` for its name.
      parts: dict of part → its examples.
      names: names of the classes.
      noun: word for an example, in the singular.
    """
    for part in PARTS:
        deco_print(f"{path.replace('{part}', part)}: {format_count(len(parts[part]), noun)}")
    counts = Counter(row.label for row in parts["train"])
    some = ", ".join(f"{name} {counts[name]:,}" for name in names[:_SHOWN])
    deco_print(f"{len(names)} classes, with {noun}s in train: {some}" + (", …" if len(names) > _SHOWN else ""))


