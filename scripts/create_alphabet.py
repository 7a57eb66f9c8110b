"""Creates the alphabet (vocab_file) of a speech recogniser from its training transcripts.

usage: python scripts/create_alphabet.py --lower_case --remove_characters=".,?!" --output=vocab.txt train.csv more.jsonl

Writes each character of the transcripts once, the space first, the others sorted. Prints how often the rarest
characters occur, because these are often typing errors. The options have the same meaning as in the data layer: give
the same values in the config.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.speech2text.alphabet import add_spelling_arguments, text_normalizer, write_alphabet
from open_seq2seq.data.speech2text.manifests import read_manifests
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.script import ScriptParser, run_script

_SHOWN = 60  # maximum number of characters whose counts are printed


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("lists", nargs="+", metavar="LIST", help="lists of recordings and transcripts, in the formats "
                        "of dataset_files: CSV, JSON lines, LibriSpeech folders")
    parser.add_argument("--output", default="vocab.txt", metavar="FILE", help="file to write (default: %(default)s)")
    add_spelling_arguments(parser)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Writes the alphabet."""
    args = parse_args(argv)
    check_no_input([args.output], args.lists)
    utterances = read_manifests(args.lists, None, True)
    write_alphabet(args.output, utterances, text_normalizer(vars(args)), _SHOWN)


if __name__ == "__main__":
    run_script(main)
