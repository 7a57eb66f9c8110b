"""Prepares your own sentence pairs for the recipe example_configs/text2text/own-text.py.

usage: python scripts/prepare_text.py --tsv=pairs.tsv --languages es en --output_dir=own_text
       python scripts/prepare_text.py --source=text.es --target=text.en --languages es en --output_dir=own_text

The input is a table with one pair per line, source and target separated by a tab, or two files with one sentence per
line. Pairs that would harm training are left out and written to dropped.tsv with the reason. The others are split into
train, dev and test, which have no sentence in common. A SentencePiece model, spm.model, is trained on train.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.sentencepiece_models import train_sentencepiece
from open_seq2seq.data.text2text.own_text import Pair, clean, read_table, split
from open_seq2seq.data.text2text.preparation import read_pairs, write_pairs
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.progress import format_count
from open_seq2seq.utils.script import run_script

PARTS = ("train", "dev", "test")
DROPPED = "dropped.tsv"
_MOST_HELD_OUT = 20  # unless their sizes are given, dev and test each get at most one pair in 20


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsv", help="table with one pair per line, columns separated by tabs; plain or .gz")
    parser.add_argument("--columns", nargs=2, type=int, default=[1, 2], metavar=("SOURCE", "TARGET"),
                        help="columns of the table, counted from 1 (default: 1 2); 2 1 exchanges the languages")
    parser.add_argument("--source", help="file of source sentences, instead of a table")
    parser.add_argument("--target", help="file of their translations")
    parser.add_argument("--languages", nargs=2, default=["source", "target"], metavar=("SOURCE", "TARGET"),
                        help="suffixes of the files that are written (default: source target)")
    parser.add_argument("--output_dir", default="own_text", help="folder to write to (default: %(default)s)")
    parser.add_argument("--vocab_size", type=int, default=8000, help="number of pieces (default: %(default)s)")
    parser.add_argument("--dev_size", type=int, help="number of pairs in dev (default: 1000, or a "
                        "twentieth of the pairs if that is less)")
    parser.add_argument("--test_size", type=int, help="number of pairs in test (default: 1000, or a "
                        "twentieth of the pairs if that is less)")
    parser.add_argument("--max_length", type=int, default=100, help="longest sentence, in words (default: %(default)s)")
    parser.add_argument("--max_ratio", type=float, default=4.0,
                        help="largest ratio of the lengths of a pair, in characters (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default: %(default)s)")
    return parser.parse_args(argv)


def check_args(args: argparse.Namespace) -> None:
    """Raises UserError if the arguments contradict one another or are out of range."""
    if bool(args.tsv) == bool(args.source or args.target) or bool(args.source) != bool(args.target):
        raise UserError("Give either --tsv=FILE, or both --source=FILE and --target=FILE.")
    if min(args.columns) < 1 or args.columns[0] == args.columns[1]:
        raise UserError(f"--columns must be two different numbers, counted from 1, got {args.columns}.")
    if args.languages[0] == args.languages[1] or any(not name or os.sep in name for name in args.languages):
        raise UserError(f"--languages must be two different suffixes of file names, such as es en, got "
                        f"{' '.join(args.languages)}.")
    small = [f"--{name} must be at least {least}, got {value}." for name, least in (
        ("dev_size", 1), ("test_size", 1), ("max_length", 1), ("max_ratio", 1.0), ("vocab_size", 10), ("seed", 0))
        if (value := getattr(args, name)) is not None and value < least]
    if small:
        raise UserError(small[0])


def pairs_of(args: argparse.Namespace) -> Iterable[Pair]:
    """Returns the pairs of the input."""
    if args.tsv:
        return read_table(args.tsv, (args.columns[0], args.columns[1]))
    return (Pair(number, *pair) for number, pair in enumerate(read_pairs(args.source, args.target), 1))


def main(argv: list[str] | None = None) -> None:
    """Writes the parts and the SentencePiece model."""
    args = parse_args(argv)
    check_args(args)
    files = {part: [os.path.join(args.output_dir, f"{part}.{language}") for language in args.languages]
             for part in PARTS}
    prefix, dropped = os.path.join(args.output_dir, "spm"), os.path.join(args.output_dir, DROPPED)
    check_no_input([*(path for paths in files.values() for path in paths), dropped, f"{prefix}.model"],
                   [path for path in (args.tsv, args.source, args.target) if path])
    kept = clean(pairs_of(args), args.max_length, args.max_ratio)
    if not kept.rows:
        raise DataError(f"{args.tsv or args.source} has no usable pair: give one pair per line, with a tab between the "
                        "sentences, or two files of sentences, or increase --max_length or --max_ratio.")
    most = max(1, min(1000, len(kept.rows) // _MOST_HELD_OUT))
    sizes = [size or most for size in (args.dev_size, args.test_size)]
    parts = split(kept.rows, sizes, args.seed)
    os.makedirs(args.output_dir, exist_ok=True)
    for name, part in zip(PARTS, parts, strict=True):
        count = write_pairs(((pair.source, pair.target) for pair in part), *files[name])
        deco_print(f"{' and '.join(files[name])}: {format_count(count, 'pair')}")
    write_lines(dropped, (f"{pair.line}\t{reason}\t{pair.source}\t{pair.target}"
                          for reason, pair in kept.all_dropped()))
    kept.report("pair", dropped)
    train_sentencepiece(files["train"], prefix, args.vocab_size, "unigram")


if __name__ == "__main__":
    run_script(main)
