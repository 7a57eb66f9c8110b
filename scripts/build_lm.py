"""Estimates an n-gram language model from text and writes it as an ARPA file, without other programs.

usage: python scripts/build_lm.py --text train.txt.gz transcripts.csv --order 3 --output words.arpa.gz
       python scripts/build_lm.py --text train.txt --order 6 --characters --output characters.arpa
       python scripts/build_lm.py --model words.arpa.gz --perplexity dev.txt

Text files contain one sentence per line, plain or .gz. Of lists of recordings, the transcripts are used: the column
transcript of .csv and .tsv files (without header, the last column), text of .json, .jsonl and .manifest files, and
folders in the layout of LibriSpeech. The model is an interpolated modified Kneser-Ney model. With --perplexity, the
estimated model or the one given with --model is evaluated on the given texts.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.speech2text.manifests import read_manifests
from open_seq2seq.decoding.ngram import LanguageModel, estimate, load_language_model, perplexity, write_arpa
from open_seq2seq.decoding.ngram.estimation import SPACE, characters_of_lines, read_transcripts, words_of_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.script import ScriptParser, run_script


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--text", nargs="+", default=[], metavar="FILE", help="texts to estimate from")
    parser.add_argument("--output", metavar="FILE", help="ARPA file to write; gzipped if the name ends in .gz")
    parser.add_argument("--order", "--n", type=int, default=3, help="length of the longest n-grams "
                        "(default: %(default)s)")
    parser.add_argument("--characters", action="store_true", help="model characters, including <space>, not words")
    parser.add_argument("--case", choices=["as_is", "lower", "upper"], default="as_is", help="convert the text's case")
    parser.add_argument("--remove_characters", default="", metavar="CHARACTERS",
                        help="characters to remove from the texts, such as punctuation that a recogniser's transcripts "
                        "lack")
    parser.add_argument("--prune", type=int, nargs="+", default=[0], metavar="COUNT",
                        help="counts for n-grams of length 1, 2, …: n-grams that occur at most this often are left "
                        "out; the first count must be 0, and the last applies to all longer n-grams")
    parser.add_argument("--vocabulary", metavar="FILE", help="file with the model's vocabulary, separated by white "
                        "space; other words are unknown (default: all words in the texts)")
    parser.add_argument("--model", metavar="FILE", help="model to evaluate instead of estimating one")
    parser.add_argument("--perplexity", nargs="+", default=[], metavar="FILE", help="texts to evaluate the model on")
    return parser.parse_args(argv)


def check(args: argparse.Namespace) -> None:
    """Checks the command line before any work.

    Raises:
      UserError: options are missing or exclude one another, or numbers are invalid.
    """
    if bool(args.text) == bool(args.model):
        raise UserError("Give either --text to estimate a model, or --model to evaluate one.")
    if bool(args.text) != bool(args.output):
        raise UserError("--output is missing: give the ARPA file to write." if args.text else
                        "--output is for the model that --text estimates: leave it out with --model.")
    if args.model and not args.perplexity:
        raise UserError("--perplexity is missing: give the texts to evaluate the model on.")
    check_no_input([args.output], [*args.text, args.vocabulary, *args.perplexity])
    if args.order < 1:
        raise UserError(f"--order is {args.order} but has to be at least 1.")
    if args.prune[0] != 0 or sorted(args.prune) != args.prune:
        raise UserError("The counts of --prune have to start with 0 and must not decrease, as in --prune 0 0 1.")


def read_texts(path: str, remove_characters: str = "") -> Iterator[str]:
    """Yields the lines of a text file, or the transcripts of recordings, without some characters."""
    lines = read_transcripts(path)
    if os.path.isdir(path):
        lines = (row.text or "" for row in read_manifests([path], None, needs_text=True))
    removed = str.maketrans("", "", remove_characters)
    return (line.translate(removed) for line in lines)


def build(args: argparse.Namespace) -> LanguageModel:
    """Estimates the model, writes it and returns it."""
    units = characters_of_lines if args.characters else words_of_lines
    lines = (line for path in args.text for line in read_texts(path, args.remove_characters))
    vocabulary = None
    if args.vocabulary:
        listed = words_of_lines(read_transcripts(args.vocabulary), args.case)
        vocabulary = {word for words in listed for word in words} | ({SPACE} if args.characters else set())
    result = estimate(units(lines, args.case), args.order, args.prune, vocabulary)
    for order in result.fallback_orders:
        deco_print(f"Too few {order}-grams occur once, twice and three times to estimate discounts: using 0.5, 1 and "
                   "1.5.")
    write_arpa(args.output, result.model)
    counts = ", ".join(f"{count} {n}-grams" for n, count in enumerate(result.model.counts, 1))
    deco_print(f"{args.output}: {counts} of {result.words} {'characters' if args.characters else 'words'} in "
               f"{result.sentences} sentences")
    return result.model


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    args = parse_args(argv)
    check(args)
    model = load_language_model(args.model) if args.model else build(args)
    units = characters_of_lines if args.characters else words_of_lines
    for path in args.perplexity:
        found = perplexity(model, units(read_texts(path, args.remove_characters), args.case))
        deco_print(f"{path}: perplexity {found.perplexity:.2f}; without unknown words {found.known:.2f} "
                   f"({found.words} words in {found.sentences} sentences, {found.unknown} unknown)")


if __name__ == "__main__":
    run_script(main)
