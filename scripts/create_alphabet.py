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
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.speech2text.manifests import Utterance, read_manifests
from open_seq2seq.data.speech2text.transcripts import text_normalizer
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import check_no_input
from open_seq2seq.utils.script import run_script

_SHOWN = 60


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="+", metavar="LIST", help="lists of recordings and transcripts, in the formats "
                        "of dataset_files: CSV, JSON lines, LibriSpeech folders")
    parser.add_argument("--output", default="vocab.txt", metavar="FILE", help="file to write (default: %(default)s)")
    parser.add_argument("--lower_case", action="store_true", help="convert transcripts to lower case")
    parser.add_argument("--unicode_form", choices=["NFC", "NFD", "NFKC", "NFKD"], help="Unicode normalisation")
    parser.add_argument("--remove_characters", default="", metavar="CHARACTERS",
                        help="characters to remove from the transcripts")
    return parser.parse_args(argv)


def count_characters(utterances: Iterable[Utterance], normalize: Callable[[str], str],
                     ) -> tuple[Counter[str], dict[str, str]]:
    """Returns how often each character occurs, and the list and line where it first occurs.

    Raises:
      DataError: a transcript has several lines.
    """
    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    for utterance in utterances:
        text = normalize(utterance.text or "")
        if "\n" in text or "\r" in text:
            raise DataError(f"{utterance.place}: the transcript contains a line break, which cannot be in an alphabet: "
                            "write the transcript on one line.")
        counts.update(text)
        for character in text:
            places.setdefault(character, utterance.place)
    return counts, places


def describe(counts: Counter[str], places: dict[str, str]) -> list[str]:
    """Returns one line for each of the rarest characters, the rarest first, and one for the number of the others."""
    rarest = sorted(counts, key=lambda character: (counts[character], character))
    lines = [f"{counts[c]:>9,}  {c!r}  U+{ord(c):04X} {unicodedata.name(c, '(no name)')}, first in {places[c]}"
             for c in rarest[:_SHOWN]]
    return lines + ([f"and {len(rarest) - _SHOWN:,} more frequent characters"] if len(rarest) > _SHOWN else [])


def main(argv: list[str] | None = None) -> None:
    """Writes the alphabet."""
    args = parse_args(argv)
    check_no_input([args.output], args.lists)
    utterances = read_manifests(args.lists, None, True)
    counts, places = count_characters(utterances, text_normalizer(vars(args)))
    if not counts:
        raise DataError(f"All transcripts in {', '.join(args.lists)} are empty, so there is no alphabet to write.")
    write_lines(args.output, sorted(counts, key=lambda character: (character != " ", character)))
    deco_print(f"{args.output}: {len(counts):,} characters from {len(utterances):,} transcripts, the rarest first:")
    for line in describe(counts, places):
        deco_print(line, offset=1)
    if any(character.lower() != character and character.lower() in counts for character in counts):
        deco_print("Some letters occur in upper and lower case: --lower_case merges them.")


if __name__ == "__main__":
    run_script(main)
