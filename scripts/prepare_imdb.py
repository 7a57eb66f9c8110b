"""Prepares the text of IMDB reviews (Maas et al. 2011) for a language model.

usage: python scripts/prepare_imdb.py --data_dir=aclImdb --output_dir=data/imdb-lm

Writes the reviews of train/neg, train/pos and, if it exists, train/unsup, in random order, as train.txt and valid.txt:
one review per line, in lower case, split into words and punctuation as IMDBDataLayer splits them. The test reviews are
not used, so a classifier that begins with the language model can be tested on them.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterable, Iterator

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.lm.reviews import read_review, review_files
from open_seq2seq.data.lm.tokenizers import split_raw_words
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--data_dir", required=True, help="the unpacked folder aclImdb")
    parser.add_argument("--output_dir", default="data/imdb-lm", help="folder to write to (default: %(default)s)")
    parser.add_argument("--num_valid", type=int, default=400, help="number of reviews in valid.txt (default: "
                        "%(default)s)")
    return parser.parse_args(argv)


def lines_of(files: Iterable[str]) -> Iterator[str]:
    """Yields the text of each review as one line of words, in lower case."""
    for file in files:
        yield " ".join(split_raw_words(read_review(file).lower()))


def main(argv: list[str] | None = None) -> None:
    """Writes train.txt and valid.txt."""
    args = parse_args(argv)
    train = os.path.join(args.data_dir, "train")
    folders = ["neg", "pos", *(["unsup"] if os.path.isdir(os.path.join(train, "unsup")) else [])]
    files = [file for folder in folders for file in review_files(os.path.join(train, folder))]
    if not 0 < args.num_valid < len(files):
        raise UserError(f"--num_valid is {args.num_valid}, but must be at least 1 and less than the number of reviews, "
                        f"{len(files)}.")
    random.Random(0).shuffle(files)
    for name, part in (("valid", files[:args.num_valid]), ("train", files[args.num_valid:])):
        path = os.path.join(args.output_dir, f"{name}.txt")
        write_lines(path, lines_of(part))
        deco_print(f"{path}: {len(part):,} reviews")


if __name__ == "__main__":
    run_script(main)
