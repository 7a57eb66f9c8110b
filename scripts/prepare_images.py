"""Prepares your own pictures for the recipe example_configs/image2label/own-images.py.

usage: python scripts/prepare_images.py --folder=pictures --output_dir=own_images

The folder contains a folder of JPEG, PNG, GIF or BMP files for each class: pictures/cat/1.jpg, pictures/dog/7.png. If
the pictures are already split, into pictures/train/cat and pictures/test/cat, they stay in these parts. All files are
decoded; those that cannot be used are left out and written to dropped.tsv with the reason. The others are split into
train, dev and test, with the same share of each class. No picture is copied: train.csv, dev.csv and test.csv list them,
and classes.txt the names of the classes.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.folders import name_from
from open_seq2seq.data.own_classes import (
    DROPPED,
    add_split_arguments,
    check_split_arguments,
    read_class_files,
    say_parts,
    split_and_report,
)
from open_seq2seq.data.own_tables import say_next
from open_seq2seq.data.text_files import write_csv, write_lines
from open_seq2seq.utils.output_file import new_folder
from open_seq2seq.utils.script import ScriptParser, quiet_tensorflow, run_script

RECIPE = "example_configs/image2label/own-images.py"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--folder", required=True, help="folder that contains a folder of pictures for each class")
    add_split_arguments(parser, "picture", "own_images")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the lists and the names of the classes."""
    args = parse_args(argv)
    check_split_arguments(args)
    files = read_class_files(args.folder)
    quiet_tensorflow()  # only now, because mistakes need not wait for it
    from open_seq2seq.data.image2label.own_images import clean, fitting_size

    kept = clean(files)
    parts, names = split_and_report(kept, args, "file")
    with new_folder(args.output_dir) as folder:
        for part, rows in parts.items():
            write_csv(os.path.join(folder, f"{part}.csv"), ["image", "label"], (
                (name_from(args.output_dir, row.path), row.label) for row in rows))
        write_lines(os.path.join(folder, "classes.txt"), names)
        write_lines(os.path.join(folder, DROPPED), (
            f"{row.place}\t{reason}" for reason, row in kept.all_dropped()))
    say_parts(os.path.join(args.output_dir, "{part}.csv"), parts, names, "picture")
    say_next(RECIPE, "my_images.py", {"data_dir": os.path.join(args.output_dir, ""),
                                      "image_size": fitting_size(parts["train"])})


if __name__ == "__main__":
    run_script(main)
