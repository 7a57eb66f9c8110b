"""Prepares your own sentence pairs for the recipe example_configs/text2text/own-text.py.

usage: python scripts/prepare_text.py --table=pairs.tsv --languages es en --output_dir=own_text
       python scripts/prepare_text.py --source=text.es --target=text.en --languages es en --output_dir=own_text

The input is a table with one pair per row, such as a TSV or CSV file, JSON lines, or a translation memory (TMX); or two
files with one sentence per line. Pairs that would harm training are left out and written to dropped.tsv with the
reason. The others are split into train, dev and test, which have no sentence in common. A SentencePiece model,
spm.model, is trained on train. The folder is written whole or, after an error, not at all.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.own_classes import PARTS
from open_seq2seq.data.own_tables import TwoColumns, column_of, say_next
from open_seq2seq.data.sentencepiece_models import train_pieces
from open_seq2seq.data.text2text.own_text import SUFFIXES, Pair, clean, in_wrong_order, read_table, read_tmx, split
from open_seq2seq.data.text2text.preparation import read_pairs, write_pairs
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import check_new_folder, new_folder
from open_seq2seq.utils.script import ScriptParser, run_script

RECIPE = "example_configs/text2text/own-text.py"
_PIECES = 8000
_MOST_HELD_OUT = 20  # unless their sizes are given, dev and test each get at most one pair in 20
_SHOWN = 100  # number of characters of a sentence that are printed


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--table", "--tsv", metavar="FILE", help="table with one pair per row: columns separated by "
                        "tabs, commas or semicolons; .jsonl or .tmx; plain or .gz")
    parser.add_argument("--columns", nargs="+", action=TwoColumns, type=column_of, metavar="COLUMN",
                        help="columns of the table with source and target, such as es,en: names from the first row, or "
                        "numbers counted from 1; 2,1 exchanges the languages (default: those that are named as the "
                        "languages, otherwise 1,2)")
    parser.add_argument("--source", help="file of source sentences, instead of a table")
    parser.add_argument("--target", help="file of their translations")
    parser.add_argument("--languages", nargs=2, default=["source", "target"], metavar=("SOURCE", "TARGET"),
                        help="languages, such as es en: suffixes of the files that are written (default: source "
                        "target)")
    parser.add_argument("--output_dir", default="own_text", help="folder to write, which must not exist "
                        "(default: %(default)s)")
    parser.add_argument("--vocab_size", type=int, help=f"number of pieces (default: {_PIECES}, or fewer if the "
                        "text is too small)")
    parser.add_argument("--dev_size", type=int, help="number of pairs in dev (default: 1000, or a "
                        "twentieth of the pairs if that is less)")
    parser.add_argument("--test_size", type=int, help="number of pairs in test (default: 1000, or a "
                        "twentieth of the pairs if that is less)")
    parser.add_argument("--max_length", type=int, default=100, help="longest sentence, in words; of scripts "
                        "without spaces, about two characters are a word (default: %(default)s)")
    parser.add_argument("--max_ratio", type=float, default=4.0,
                        help="largest ratio of the lengths of a pair, in characters, relative to most pairs (default: "
                        "%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default: %(default)s)")
    return parser.parse_args(argv)


def check_args(args: argparse.Namespace) -> None:
    """Raises UserError if the arguments contradict one another or are out of range, or the output folder exists."""
    if bool(args.table) == bool(args.source or args.target) or bool(args.source) != bool(args.target):
        raise UserError("Give either --table=FILE, or both --source=FILE and --target=FILE.")
    if args.columns and (args.columns[0] == args.columns[1] or 0 in args.columns):
        raise UserError("--columns must be two different columns, by name or by number counted from 1, got "
                        f"{' '.join(map(str, args.columns))}.")
    if args.languages[0] == args.languages[1] or any(not name or os.sep in name for name in args.languages):
        raise UserError(f"--languages must be two different suffixes of file names, such as es en, got "
                        f"{' '.join(args.languages)}.")
    small = [f"--{name} must be at least {least}, got {value}." for name, least in (
        ("dev_size", 1), ("test_size", 1), ("max_length", 1), ("max_ratio", 1.0), ("vocab_size", 10), ("seed", 0))
        if (value := getattr(args, name)) is not None and not value >= least]
    if small:
        raise UserError(small[0])
    check_new_folder(args.output_dir)


def read(args: argparse.Namespace) -> tuple[Iterable[Pair], str]:
    """Returns the pairs of the input, and how to exchange its sides."""
    if not args.table:
        return (Pair(number, *pair) for number, pair in enumerate(read_pairs(args.source, args.target), 1)), (
            "exchange --source and --target")
    if args.table.lower().endswith(SUFFIXES):
        return (Pair(line, *texts) for line, texts in read_tmx(args.table, args.languages)), (
            "correct the languages in the file")
    pairs, columns = read_table(args.table, args.languages, args.columns)
    return pairs, "give --columns " + shlex.join(map(str, reversed(columns)))


def check_order(args: argparse.Namespace, pairs: Sequence[Pair], remedy: str) -> None:
    """Raises DataError if the text is in the languages in the wrong order."""
    languages, first = args.languages, pairs[0]
    wrong = in_wrong_order(languages, ([pair.source for pair in pairs], [pair.target for pair in pairs]))
    if wrong:
        raise DataError(f"The languages of {args.table or args.source} are in the wrong order: the source, such as "
                        f"{first.source[:40]!r}, has the frequent words or letters of {languages[1]} instead of "
                        f"{languages[0]}: {remedy}, or give --languages {languages[1]} {languages[0]}.")
    if wrong is None and languages != ["source", "target"]:
        deco_print(f"The script cannot tell {languages[0]} from {languages[1]}: see below that their order is right.")


def main(argv: list[str] | None = None) -> None:
    """Writes the parts and the SentencePiece model."""
    args = parse_args(argv)
    check_args(args)
    pairs, remedy = read(args)
    kept = clean(pairs, args.max_length, args.max_ratio)
    if not kept.rows:
        kept.report("pair")
        raise DataError(f"{args.table or args.source} has no usable pair: give one pair per row, in two columns, or "
                        "two files of sentences, or increase --max_length or --max_ratio.")
    check_order(args, kept.rows, remedy)
    most = max(1, min(1000, len(kept.rows) // _MOST_HELD_OUT))
    parts = split(kept.rows, [size or most for size in (args.dev_size, args.test_size)], args.seed)
    with new_folder(args.output_dir) as folder:
        files = [[os.path.join(folder, f"{part}.{language}") for language in args.languages] for part in PARTS]
        for names, part in zip(files, parts, strict=True):
            write_pairs(((pair.source, pair.target) for pair in part), *names)
        write_lines(os.path.join(folder, "dropped.tsv"), (f"{pair.line}\t{reason}\t{pair.source}\t{pair.target}"
                                                          for reason, pair in kept.all_dropped()))
        size = train_pieces((text for pair in parts[0] for text in (pair.source, pair.target)),
                            f"the {format_count(len(parts[0]), 'pair')} of train", os.path.join(folder, "spm"),
                            args.vocab_size or _PIECES, model_type="unigram",
                            hard_vocab_limit=args.vocab_size is not None)
    describe(args, parts)
    deco_print(f"{os.path.join(args.output_dir, 'spm.model')}: {size:,} pieces of both languages")
    kept.report("pair", os.path.join(args.output_dir, "dropped.tsv"))
    say_next(RECIPE, "my.py", {"data_dir": os.path.join(args.output_dir, ""), "source, target": tuple(args.languages)})


def describe(args: argparse.Namespace, parts: Sequence[Sequence[Pair]]) -> None:
    """Prints the number of pairs of each part, and its first pair."""
    for name, part in zip(PARTS, parts, strict=True):
        files = " and ".join(os.path.join(args.output_dir, f"{name}.{language}") for language in args.languages)
        deco_print(f"{files}: {format_count(len(part), 'pair')}, such as")
        texts = [f"{language}: {text[:_SHOWN]}{'…' * (len(text) > _SHOWN)}" for language, text in zip(
            args.languages, (part[0].source, part[0].target), strict=True)]
        deco_print(" / ".join(texts), offset=1)


if __name__ == "__main__":
    run_script(main)
