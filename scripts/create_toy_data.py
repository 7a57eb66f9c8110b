"""Creates a toy corpus of random letters for one of the toy recipes.

usage: python scripts/create_toy_data.py [--task=reversal] [--output_dir=toy_text_data]

Tasks, and what is written for train, dev and test:

* reversal: folders with source.txt and target.txt, lines of letters and the same lines reversed;
* labels: files such as train.tsv, with lines label<TAB>letters; the label names the most frequent of α, β and γ;
* dialogue: files such as train.tsv, with a header and columns number, question and answer: which letter of a list is
  the first, the second or the last;
* summary: files such as train.csv, with columns summary and text; the summary consists of the letters after an !;
* sources: files such as train.tsv, with columns first, second and target: two copies of a line, in which each
  letter is missing from exactly one copy, and the whole line reversed.

The vocabularies are vocab/source.txt and vocab/target.txt. Recipes: example_configs/text2text/toy-reversal, toy-tables
and toy-several, and example_configs/text2label.
"""

from __future__ import annotations

import argparse
import itertools
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
from open_seq2seq.utils.script import ScriptParser, check_sizes, run_script

LETTERS = tuple("αβγδεζηθικ")
FOLDERS = {"reversal": "toy_text_data", "labels": "toy_labels", "dialogue": "toy_dialogue", "summary": "toy_summary",
           "sources": "toy_sources"}
CLASSES = {"alpha": "α", "beta": "β", "gamma": "γ"}
SPLITS = ("train", "dev", "test")
MARK, GAP = "!", "_"
PLACES = {"first": 0, "second": 1, "last": -1}
WORDS = (*PLACES, "of", "it", "is", MARK, GAP)


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
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
    """Returns ``label<TAB>letters``; the label is the class whose letter is the most frequent.

    If two classes tie, the letter of one of them is appended.
    """
    counts = Counter(letters)
    order = sorted(CLASSES, key=lambda label: -counts[CLASSES[label]])
    most = CLASSES[order[0]]
    letters = letters + [most] if counts[most] == counts[CLASSES[order[1]]] else letters
    return f"{order[0]}\t{' '.join(letters)}"


def write_labels(folder: str, split: str, lines: Iterator[list[str]]) -> int:
    """Writes labelled lines; returns their number."""
    write_lines(os.path.join(folder, "labels.txt"), CLASSES)
    return write_lines(os.path.join(folder, f"{split}.tsv"), map(labelled, lines))


def question_and_answer(letters: list[str], random_numbers: random.Random) -> tuple[str, str]:
    """Returns a question about the letter at a position, and its answer."""
    place = random_numbers.choice(list(PLACES))
    return f"{place} of {' '.join(letters)}", f"it is {letters[PLACES[place]]}"


def write_dialogue(folder: str, split: str, lines: Iterator[list[str]]) -> int:
    """Writes questions and answers below a header; returns their number."""
    numbers = random.Random(split)
    pairs = (question_and_answer(letters if len(letters) > 1 else letters * 2, numbers) for letters in lines)
    rows = (f"{number}\t{question}\t{answer}" for number, (question, answer) in enumerate(pairs, 1))
    return write_lines(os.path.join(folder, f"{split}.tsv"), itertools.chain(["number\tquestion\tanswer"], rows)) - 1


def text_and_summary(letters: list[str], random_numbers: random.Random) -> tuple[str, str]:
    """Returns a text and its summary.

    In the text, the first letter and about a third of the others have a mark before them; the summary is the marked
    letters.
    """
    marked = [number == 0 or random_numbers.random() < 0.3 for number in range(len(letters))]
    text = [f"{MARK} {letter}" if mark else letter for letter, mark in zip(letters, marked, strict=True)]
    return " ".join(text), " ".join(itertools.compress(letters, marked))


def write_summaries(folder: str, split: str, lines: Iterator[list[str]]) -> int:
    """Writes summaries and texts below a header; returns their number."""
    numbers = random.Random(split)
    pairs = (text_and_summary(letters, numbers) for letters in lines)
    rows = (f'{summary},"{text}"' for text, summary in pairs)
    return write_lines(os.path.join(folder, f"{split}.csv"), itertools.chain(["summary,text"], rows)) - 1


def damaged(letters: list[str], random_numbers: random.Random) -> tuple[str, str, str]:
    """Returns two copies of the letters with complementary gaps, and the letters reversed."""
    kept = [random_numbers.random() < 0.5 for _ in letters]
    copies = [" ".join(letter if keep == first else GAP for letter, keep in zip(letters, kept, strict=True))
              for first in (True, False)]
    return copies[0], copies[1], " ".join(reversed(letters))


def write_sources(folder: str, split: str, lines: Iterator[list[str]]) -> int:
    """Writes damaged copies and reversed lines below a header; returns their number."""
    numbers = random.Random(split)
    rows = ("\t".join(damaged(letters, numbers)) for letters in lines)
    return write_lines(os.path.join(folder, f"{split}.tsv"), itertools.chain(["first\tsecond\ttarget"], rows)) - 1


WRITERS = {"reversal": write_reversal, "labels": write_labels, "dialogue": write_dialogue, "summary": write_summaries,
           "sources": write_sources}


def main(argv: list[str] | None = None) -> None:
    """Writes the corpus."""
    args = parse_args(argv)
    check_sizes(args, 10**6, *(f"{split}_size" for split in SPLITS))
    check_sizes(args, 10**4, "max_length")
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
        known = LETTERS if args.task in ("reversal", "labels") else (*LETTERS, *WORDS)
        write_lines(os.path.join(folder, "vocab", f"{side}.txt"), known)


if __name__ == "__main__":
    run_script(main)
