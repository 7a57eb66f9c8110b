"""The beam dumps of NVIDIA's OpenSeq2Seq: n-best lists in the order of the utterances, without their names.

The list of each utterance is between the lines ``B=>>>>>>>>`` and ``E=>>>>>>>>``. Each hypothesis is a line with its
score, two zeros and its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from open_seq2seq.decoding.n_best import Candidate, scored_candidate
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles

BEGIN, END = "B=>>>>>>>>", "E=>>>>>>>>"


def is_beam_dump(path: str) -> bool:
    """Returns whether a file is a beam dump, judged by its first line.

    Raises:
      DataError: the file cannot be read.
    """
    return next(read_lines(path, "The n-best list"), "").strip() == BEGIN


def write_beam_dump(path: str, n_best: Iterable[Sequence[Any]]) -> None:
    """Writes the lists of hypotheses, objects with the attributes ``score`` and ``text``, in order."""
    with OutputFiles() as outputs:
        file = outputs.open(path)
        for candidates in n_best:
            lines = (f"{candidate.score:.6f} 0.0 0.0 {candidate.text}" for candidate in candidates)
            file.write("\n".join((BEGIN, *lines, END)) + "\n")


def read_beam_dump(path: str) -> list[list[Candidate]]:
    """Reads the lists of a beam dump, in order; runs of white space in texts become single spaces.

    Raises:
      DataError: the file cannot be read, a line is invalid, or a list is empty or incomplete.
    """
    found: list[list[Candidate]] = []
    is_open = False
    for number, line in enumerate(read_lines(path, "The beam dump"), 1):
        place = f"{shown(path)}:{number}"
        if line.strip() in (BEGIN, END):
            if is_open == (line.strip() == BEGIN) or (is_open and not found[-1]):
                raise DataError(f"{place}: {line.strip()} is not expected here: the list of each utterance has to be "
                                f"between {BEGIN} and {END}, and not empty.")
            is_open = not is_open
            if is_open:
                found.append([])
        elif is_open:
            found[-1].append(_candidate(line, place))
        else:
            raise DataError(f"{place}: expected {BEGIN}, the line that begins the list of each utterance.")
    if is_open:
        raise DataError(f"{shown(path)} ends before the last list is complete: its last line has to be {END}.")
    return found


def _candidate(line: str, place: str) -> Candidate:
    try:
        score, _, _, *words = line.split()
        return scored_candidate(score, " ".join(words))
    except ValueError:
        raise DataError(f"{place}: expected a score, two further numbers and a text.") from None
