"""Creates toy speech: words of a made-up language in which each letter has its own sound.

usage: python scripts/create_toy_speech.py --output_dir=toy_speech_data

Writes the lists train.csv, dev.csv and test.csv, the recordings in wav/, and the alphabet vocab.txt.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, check_sizes, random_seed, run_script

SIZES = {"train": 400, "dev": 50, "test": 50}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("--output_dir", default="toy_speech_data", help="folder to write to (default: %(default)s)")
    parser.add_argument("--seed", type=random_seed, default=0, help="random seed (default: %(default)s)")
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}_size", type=int, default=size,
                            help="number of utterances (default: %(default)s)")
    parser.add_argument("--min_words", type=int, default=1, help="minimum words per utterance (default: %(default)s)")
    parser.add_argument("--max_words", type=int, default=3, help="maximum words per utterance (default: %(default)s)")
    parser.add_argument("--sample_freq", type=int, default=16000, help="sampling rate in Hz (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the data set."""
    args = parse_args(argv)
    check_sizes(args, 10**5, *(f"{name}_size" for name in SIZES))
    check_sizes(args, 100, "max_words")
    check_sizes(args, 10**6, "sample_freq")
    if not 1 <= args.min_words <= args.max_words:
        raise UserError(f"--min_words is {args.min_words} and --max_words is {args.max_words}, but the minimum has to "
                        "be at least 1 and at most the maximum.")
    if args.sample_freq < 8000:
        raise UserError(f"--sample_freq is {args.sample_freq}, too low for the sounds: give at least 8000.")
    sizes = {name: getattr(args, f"{name}_size") for name in SIZES}
    write_toy_speech(args.output_dir, sizes, (args.min_words, args.max_words), args.seed, args.sample_freq)
    for name, size in sizes.items():
        deco_print(f"{os.path.join(args.output_dir, name)}.csv: {size} utterances")


if __name__ == "__main__":
    run_script(main)
