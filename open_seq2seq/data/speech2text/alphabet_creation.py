"""Creates the alphabet of a speech recogniser from transcripts."""

from __future__ import annotations

import argparse
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from open_seq2seq.data.speech2text.alphabet import describe_characters
from open_seq2seq.data.speech2text.manifests import Utterance
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import APOSTROPHES


def add_spelling_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that change the transcripts; their names are those of the data layer's parameters."""
    parser.add_argument("--unicode_form", choices=["NFC", "NFD", "NFKC", "NFKD"], default="NFC",
                        help="Unicode normalisation (default: %(default)s, which composes letters and their accents)")
    parser.add_argument("--lower_case", action="store_true", help="convert transcripts to lower case")
    parser.add_argument("--remove_characters", default="", metavar="CHARACTERS",
                        help="characters to remove from the transcripts")


def write_alphabet(path: str, utterances: Sequence[Utterance], normalize: Callable[[str], str], shown: int,
                   place: str | None = None) -> None:
    """Writes each character of the transcripts once, the space first, the others sorted.

    If there are ASCII and typographic apostrophes, only the ASCII one is written; transcripts are then read as if they
    had it (see ``Alphabet.spelled``).

    Prints how often the rarest characters occur and where each first occurs, because these are often typing errors.

    Args:
      path: the file to write.
      utterances: recordings with transcripts.
      normalize: the function that normalises a transcript.
      shown: maximum number of characters to print.
      place: path that the file will get; None if it is ``path``.

    Raises:
      DataError: all transcripts are empty, or one has several lines.
    """
    counts, first_uses = _count_characters(utterances, normalize)
    if not counts:
        lists = ", ".join(dict.fromkeys(utterance.source for utterance in utterances))
        raise DataError(f"All transcripts in {lists} are empty, so there is no alphabet to write.")
    _merge_apostrophes(counts)
    write_lines(path, sorted(counts, key=lambda character: (character != " ", character)))
    deco_print(f"{place or path}: {len(counts):,} characters from {len(utterances):,} transcripts, the rarest first:")
    for line in _describe(counts, first_uses, shown):
        deco_print(line, offset=1)
    if any(character.lower() != character and character.lower() in counts for character in counts):
        deco_print("Some letters occur in upper and lower case: --lower_case merges them.")


def _merge_apostrophes(counts: Counter[str]) -> None:
    """Counts typographic apostrophes as ASCII ones if there are some of both, and prints how many."""
    usual = APOSTROPHES[0]
    for other in APOSTROPHES[1:]:
        if usual in counts and other in counts:
            counts[usual] += (number := counts.pop(other))
            deco_print(f"{describe_characters(other)} is read as {describe_characters(usual)}: "
                       f"{format_count(number, 'time')}")


def _count_characters(utterances: Sequence[Utterance], normalize: Callable[[str], str],
                      ) -> tuple[Counter[str], dict[str, str]]:
    """Returns how often each character occurs, and the file and line where it first occurs."""
    counts: Counter[str] = Counter()
    first_uses: dict[str, str] = {}
    for utterance in utterances:
        text = normalize(utterance.text or "")
        if "\n" in text or "\r" in text:
            raise DataError(f"{utterance.place}: the transcript contains a line break, which cannot be in an alphabet: "
                            "write the transcript on one line.")
        counts.update(text)
        for character in text:
            first_uses.setdefault(character, utterance.place)
    return counts, first_uses


def _describe(counts: Counter[str], places: dict[str, str], shown: int) -> list[str]:
    """Returns one line for each of the rarest characters, the rarest first, and one for the number of the others."""
    rarest = sorted(counts, key=lambda character: (counts[character], character))
    lines = [f"{counts[c]:>9,}  {c!r}  U+{ord(c):04X} {unicodedata.name(c, '(no name)')}, first in {places[c]}"
             for c in rarest[:shown]]
    return lines + ([f"and {len(rarest) - shown:,} more frequent characters"] if len(rarest) > shown else [])
