"""Creates the toy reversal corpus: lines of random letters, paired with the same lines reversed.

usage: python scripts/create_toy_data.py --output_dir=toy_text_data

Writes train/, dev/ and test/, each with source.txt and target.txt, and the vocabularies
vocab/source.txt and vocab/target.txt. The recipes in example_configs/text2text/toy-reversal use this corpus.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.text2text.preparation import write_pairs
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import run_script

LETTERS = tuple("αβγδεζηθικ")


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--output_dir", default="toy_text_data", help="folder to write to (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    for name, size in (("train", 10000), ("dev", 1000), ("test", 2000)):
        parser.add_argument(f"--{name}_size", type=int, default=size,
                            help="number of sentence pairs (default: %(default)s)")
    parser.add_argument("--min_length", type=int, default=5, help="minimum letters per line (default: %(default)s)")
    parser.add_argument("--max_length", type=int, default=50, help="maximum letters per line (default: %(default)s)")
    return parser.parse_args(argv)


def reversal_pairs(count: int, lengths: tuple[int, int], random_numbers: random.Random) -> Iterator[tuple[str, str]]:
    """Yields lines of random letters, separated by spaces, each with its reversal."""
    for _ in range(count):
        letters = random_numbers.choices(LETTERS, k=random_numbers.randint(*lengths))
        yield " ".join(letters), " ".join(reversed(letters))


def main(argv: list[str] | None = None) -> None:
    """Writes the corpus."""
    args = parse_args(argv)
    if not 1 <= args.min_length <= args.max_length:
        raise UserError(f"--min_length is {args.min_length} and --max_length is {args.max_length}, but the minimum has "
                        "to be at least 1 and at most the maximum.")
    for name in ("train", "dev", "test"):
        folder = os.path.join(args.output_dir, name)
        pairs = reversal_pairs(getattr(args, f"{name}_size"), (args.min_length, args.max_length),
                               random.Random(f"{args.seed} {name}"))
        count = write_pairs(pairs, os.path.join(folder, "source.txt"), os.path.join(folder, "target.txt"))
        deco_print(f"{folder}: {count} pairs")
    for side in ("source", "target"):
        write_lines(os.path.join(args.output_dir, "vocab", f"{side}.txt"), LETTERS)


if __name__ == "__main__":
    run_script(main)
