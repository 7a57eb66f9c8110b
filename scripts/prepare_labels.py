"""Prepares your own labelled texts for the recipe example_configs/text2label/own-labels.py.

usage: python scripts/prepare_labels.py --table=reviews.csv --text_column=review --label_column=stars
           --output_dir=own_labels
       python scripts/prepare_labels.py --folder=reviews --output_dir=own_labels

The input is a table (CSV, TSV or JSON lines, also .gz) with one text and its label per row, or a folder that contains a
folder of text files for each class. Texts that cannot be used are left out and written to dropped.tsv with the reason.
The others are split into train, dev and test, which have no text in common and the same share of each class. The names
of the classes are written to labels.txt. A SentencePiece model, spm.model, is trained on train.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.own_classes import (
    DROPPED,
    add_split_arguments,
    check_split_arguments,
    read_class_files,
    say_parts,
    split_and_report,
)
from open_seq2seq.data.own_tables import column_of, read_own_table, say_next
from open_seq2seq.data.sentencepiece_models import train_pieces
from open_seq2seq.data.text2label.own_labels import LabelledText, clean, columns_of, of_files, of_table
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import new_folder
from open_seq2seq.utils.script import ScriptParser, run_script

RECIPE = "example_configs/text2label/own-labels.py"
_FEWEST_PIECES = 100


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--table", metavar="FILE", help="table with one text and its label per row")
    parser.add_argument("--folder", help="folder that contains a folder of text files for each class")
    parser.add_argument("--text_column", type=column_of, metavar="COLUMN", help="column of the text: its name in the "
                        "first row, or its number from 1 (default: found by its name, such as text, sentence or "
                        "review)")
    parser.add_argument("--label_column", type=column_of, metavar="COLUMN", help="column of the label (default: found "
                        "by its name, such as label, class or category)")
    parser.add_argument("--has_header", action="store_true", help="the first row contains names, although the columns "
                        "are given by number")
    parser.add_argument("--vocab_size", type=int, default=8000, help="most pieces of the vocabulary (default: "
                        "%(default)s); there are fewer if the text is small")
    add_split_arguments(parser, "text", "own_labels")
    return parser.parse_args(argv)


def check_args(args: argparse.Namespace) -> None:
    """Raises UserError if the arguments contradict one another or are out of range, or the output folder exists."""
    if bool(args.table) == bool(args.folder):
        raise UserError("Give either --table=FILE or --folder=FOLDER.")
    if args.folder and (args.text_column or args.label_column or args.has_header):
        raise UserError("--text_column, --label_column and --has_header describe a --table: remove them.")
    if args.vocab_size < _FEWEST_PIECES:
        raise UserError(f"--vocab_size must be at least {_FEWEST_PIECES}, got {args.vocab_size}.")
    if any(number < 1 for number in (args.text_column, args.label_column) if isinstance(number, int)):
        raise UserError("--text_column and --label_column are counted from 1.")
    check_split_arguments(args)


def read(args: argparse.Namespace) -> list[LabelledText]:
    """Returns the examples of the input; prints what was read."""
    if args.folder:
        return of_files(read_class_files(args.folder))
    table = read_own_table(args.table)
    columns = columns_of(table, args.text_column, args.label_column)
    deco_print(f"Read {table.describe(columns, args.has_header)}")
    deco_print(f"text: column {columns[0]}, label: column {columns[1]}", offset=1)
    return of_table(table.rows(columns, args.has_header, "--text_column and --label_column"))


def main(argv: list[str] | None = None) -> None:
    """Writes the parts, the names of the classes and the SentencePiece model."""
    args = parse_args(argv)
    check_args(args)
    kept = clean(read(args))
    parts, names = split_and_report(kept, args, "text")
    with new_folder(args.output_dir) as folder:
        for part, rows in parts.items():
            write_lines(os.path.join(folder, f"{part}.tsv"), (f"{row.label}\t{row.text}" for row in rows))
        write_lines(os.path.join(folder, "labels.txt"), names)
        write_lines(os.path.join(folder, DROPPED), (
            f"{row.place}\t{reason}\t{row.label}\t{row.text}" for reason, row in kept.all_dropped()))
        pieces = train_pieces((row.text for row in parts["train"]), f"the {len(parts['train']):,} texts of train",
                              os.path.join(folder, "spm"), args.vocab_size, ignore_case=True,
                              model_type="unigram", hard_vocab_limit=False)
    say_parts(os.path.join(args.output_dir, "{part}.tsv"), parts, names, "text")
    deco_print(f"{os.path.join(args.output_dir, 'spm')}.model: {pieces:,} pieces, without case")
    say_next(RECIPE, "my_labels.py", {"data_dir": os.path.join(args.output_dir, "")})


if __name__ == "__main__":
    run_script(main)
