"""Options and messages that the scripts for a user's own labelled examples share."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from open_seq2seq.data.kept import Kept
from open_seq2seq.data.own_classes import MOST_HELD_OUT, PARTS, ClassFile, Example, class_files, class_names, split
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_new_folder
from open_seq2seq.utils.script import random_seed
from open_seq2seq.utils.shipped import as_usable

DROPPED = "dropped.tsv"
"""Name of the file that lists what was left out."""
_SHOWN = 12  # maximum number of classes whose counts are printed


class TwoColumns(argparse.Action):
    """Reads an option whose ``nargs`` is ``"+"``: two columns, as two words or with a comma between them."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        convert = self.type if callable(self.type) else str
        is_one_word = len(values) == 1 and isinstance(values[0], str)
        columns = [convert(word) for word in values[0].split(",")] if is_one_word else values
        if len(columns) != 2:
            parser.error(f"{option_string} needs two columns, such as {option_string}=1,2, but got "
                         f"{','.join(map(str, columns))}")
        setattr(namespace, self.dest, columns)


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


def read_class_files(folder: str) -> list[ClassFile]:
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


def say_next(recipe: str, config: str, settings: Mapping[str, Any]) -> None:
    """Prints what to do with the prepared files.

    Args:
      recipe: the config that the user's own config is based on.
      config: name of the user's config.
      settings: variables of the recipe, and their values; several variables, in one string, have a tuple of values.
    """
    deco_print(f"Next: write {config}, with the lines")
    for names, value in {"base_config": recipe, **settings}.items():
        values = value if isinstance(value, tuple) else (value,)
        texts = [json.dumps(one, ensure_ascii=False) if isinstance(one, str) else repr(one) for one in values]
        deco_print(as_usable(f"{names} = {', '.join(texts)}"), offset=1)
    command = as_usable(f"python run.py --config_file={config} --mode=train_eval")
    deco_print(f"Then check it: {command} --check")
    deco_print(f"Then train: {command}")
