"""Creates a toy corpus of random letters for one of the toy recipes.

usage: python scripts/create_toy_data.py [--task=reversal] [--output_dir=toy_text_data]

Tasks, and what is written for train, dev and test:

* reversal: folders with source.txt and target.txt, lines of letters and the same lines reversed;
* labels: files such as train.tsv, with lines label<TAB>letters; the label names the most frequent letter.

The vocabularies are vocab/source.txt and vocab/target.txt. Recipes: example_configs/text2text/toy-reversal and
example_configs/text2label.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.text2text.preparation import write_pairs
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import run_script

LETTERS = tuple("αβγδεζηθικ")
FOLDERS = {"reversal": "toy_text_data", "labels": "toy_labels"}
CLASSES = {"alpha": "α", "beta": "β", "gamma": "γ"}
SPLITS = ("train", "dev", "test")


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--task", choices=list(FOLDERS), default="reversal", help="the task (default: %(default)s)")
    parser.add_argument("--output_dir", help="folder to write to (default: " + ", ".join(
        f"{folder} for {task}" for task, folder in FOLDERS.items()) + ")")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    for name, size in zip(SPLITS, (10000, 1000, 2000), strict=True):
        parser.add_argument(f"--{name}_size", type=int, default=size,
                            help="number of examples (default: %(default)s)")
    parser.add_argument("--min_length", type=int, default=5, help="minimum letters per line (default: %(default)s)")
    parser.add_argument("--max_length", type=int, default=50, help="maximum letters per line (default: %(default)s)")
    return parser.parse_args(argv)


def letter_lines(count: int, lengths: tuple[int, int], random_numbers: random.Random) -> Iterator[list[str]]:
    """Yields lines of random letters."""
    for _ in range(count):
        yield random_numbers.choices(LETTERS, k=random_numbers.randint(*lengths))


def write_reversal(folder: str, split: str, lines: Iterator[list[str]]) -> int:
    """Writes lines and the same lines reversed; returns their number."""
    pairs = ((" ".join(letters), " ".join(reversed(letters))) for letters in lines)
    return write_pairs(pairs, *(os.path.join(folder, split, f"{side}.txt") for side in ("source", "target")))


def labelled(letters: list[str]) -> str:
    """Returns ``label<TAB>letters``: the class whose letter is the most frequent, after additions that avoid a tie."""
    counts = Counter(letters)
    order = sorted(CLASSES, key=lambda label: -counts[CLASSES[label]])
    most = CLASSES[order[0]]
    letters = letters + [most] if counts[most] == counts[CLASSES[order[1]]] else letters
    return f"{order[0]}\t{' '.join(letters)}"


def write_labels(folder: str, split: str, lines: Iterator[list[str]]) -> int:
    """Writes labelled lines; returns their number."""
    write_lines(os.path.join(folder, "labels.txt"), CLASSES)
    return write_lines(os.path.join(folder, f"{split}.tsv"), map(labelled, lines))


WRITERS = {"reversal": write_reversal, "labels": write_labels}


def main(argv: list[str] | None = None) -> None:
    """Writes the corpus."""
    args = parse_args(argv)
    if not 1 <= args.min_length <= args.max_length:
        raise UserError(f"--min_length is {args.min_length} and --max_length is {args.max_length}, but the minimum has "
                        "to be at least 1 and at most the maximum.")
    folder = args.output_dir or FOLDERS[args.task]
    for split in SPLITS:
        lines = letter_lines(getattr(args, f"{split}_size"), (args.min_length, args.max_length),
                             random.Random(f"{args.seed} {split}"))
        count = WRITERS[args.task](folder, split, lines)
        deco_print(f"{folder}, {split}: {count} examples")
    for side in ("source", "target"):
        write_lines(os.path.join(folder, "vocab", f"{side}.txt"), LETTERS)


if __name__ == "__main__":
    run_script(main)
