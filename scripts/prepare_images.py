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
import json
import os
import sys
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow, run_script

quiet_tensorflow()

from open_seq2seq.data.image2label.own_images import Picture, clean, fitting_size
from open_seq2seq.data.own_classes import PARTS, check_shares, class_files, class_names, split
from open_seq2seq.data.speech2text.manifests import write_csv
from open_seq2seq.data.speech2text.own_speech import name_from
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.new_folder import check_new_folder, new_folder
from open_seq2seq.utils.progress import format_count

RECIPE = "example_configs/image2label/own-images.py"
_SHOWN = 12  # maximum number of classes whose counts are printed


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="folder that contains a folder of pictures for each class")
    parser.add_argument("--output_dir", default="own_images", help="folder to write to (default: %(default)s)")
    parser.add_argument("--dev_share", type=float, default=0.1,
                        help="share of the pictures in dev, at most about 1000 pictures (default: %(default)s)")
    parser.add_argument("--test_share", type=float, default=0.1, help="the same for test (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the lists and the names of the classes."""
    args = parse_args(argv)
    check_shares({"dev_share": args.dev_share, "test_share": args.test_share})
    if args.seed < 0:
        raise UserError(f"--seed must be at least 0, got {args.seed}.")
    check_new_folder(args.output_dir)
    files = class_files(args.folder)
    count = len({file.label for file in files})
    deco_print(f"Read {shown(args.folder)}: {format_count(len(files), 'file')} in the folders of {count} classes")
    kept = clean(files)
    kept.report("file", os.path.join(args.output_dir, "dropped.tsv"), lambda row: row.place)
    parts = split(kept.rows, args.dev_share, args.test_share, args.seed)
    names = class_names(row.label for row in kept.rows)
    with new_folder(args.output_dir) as folder:
        for part in PARTS:
            write_csv(os.path.join(folder, f"{part}.csv"), (
                (name_from(args.output_dir, row.path), row.label) for row in parts[part]), ["image", "label"])
        write_lines(os.path.join(folder, "classes.txt"), names)
        write_lines(os.path.join(folder, "dropped.tsv"), (
            f"{row.place}\t{reason}" for reason, row in kept.all_dropped()))
    say_what_was_written(args, parts, names)


def say_what_was_written(args: argparse.Namespace, parts: dict[str, list[Picture]], names: list[str]) -> None:
    """Prints the sizes of the parts and of the classes, and the next commands."""
    for part in PARTS:
        deco_print(f"{os.path.join(args.output_dir, part)}.csv: {format_count(len(parts[part]), 'picture')}")
    counts = Counter(row.label for row in parts["train"])
    some = ", ".join(f"{name} {counts[name]:,}" for name in names[:_SHOWN])
    deco_print(f"{len(names)} classes, with pictures in train: {some}" + (", …" if len(names) > _SHOWN else ""))
    deco_print(f"Next: cp {RECIPE} my_images.py, and set in it")
    deco_print(f"data_dir = {json.dumps(os.path.join(args.output_dir, ''), ensure_ascii=False)}", offset=1)
    deco_print(f"image_size = {fitting_size(parts['train'])}", offset=1)
    deco_print("Then: python run.py --config_file=my_images.py --mode=train_eval --check")


if __name__ == "__main__":
    run_script(main)
