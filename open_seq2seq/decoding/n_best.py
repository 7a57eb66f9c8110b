"""N-best lists, their files, and rescoring them with another language model.

Beam dumps of NVIDIA's OpenSeq2Seq are lists in the order of the utterances, without their names. The list of each
utterance is between the lines ``B=>>>>>>>>`` and ``E=>>>>>>>>``. Each hypothesis is a line with its score, two zeros
and its text.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from open_seq2seq.decoding.ctc.decoder import Transcript
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles

Name = TypeVar("Name")


class Candidate(NamedTuple):
    """One hypothesis of an n-best list, with scores in nats: ``score`` = ``acoustic`` + ``lm``."""

    text: str
    score: float
    acoustic: float
    lm: float


def score_of(text: str) -> float:
    """Converts a score in nats from a file; it may be -infinity, the score of what is impossible.

    Raises:
      ValueError: the text is not a number, or it is NaN or infinity.
    """
    number = float(text)
    if not number < math.inf:
        raise ValueError(f"The score is {number}.")
    return number


def scored_candidate(score: str, text: str) -> Candidate:
    """Returns a hypothesis of a file that contains only total scores: ``acoustic`` is the score, and ``lm`` is 0.

    Raises:
      ValueError: the score is not one.
    """
    number = score_of(score)
    return Candidate(text, number, number, 0.0)


HEADER = ("wav_filename", "rank", "score", "acoustic", "lm", "transcript")


def rows_of(name: str, transcripts: Sequence[Transcript | Candidate]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of one utterance for an n-best file."""
    return ((name, rank, f"{t.score:.6f}", f"{t.acoustic:.6f}", f"{t.lm:.6f}", t.text)
            for rank, t in enumerate(transcripts))


def best_choices(lists: Sequence[Sequence[Transcript | Candidate]], count: int) -> list[tuple[int, ...]]:
    """Returns the choices of one hypothesis from each list whose sums of scores are highest, best first.

    Args:
      lists: lists of at least one hypothesis, best first.
      count: most choices that are returned.

    Returns:
      Choices, each of them the rank in every list.
    """
    choices: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for candidates in lists:
        longer = [(score + candidate.score, (*ranks, rank)) for score, ranks in choices
                  for rank, candidate in enumerate(candidates)]
        choices = sorted(longer, key=lambda choice: -choice[0])[:count]
    return [ranks for _, ranks in choices]


def write_n_best(path: str, n_best: Mapping[str, Sequence[Transcript | Candidate]]) -> None:
    """Writes n-best lists as tab-separated values with a header: utterance, rank from 0, three scores, text."""
    with OutputFiles() as outputs:
        writer = csv.writer(outputs.open(path, newline=""), delimiter="\t", lineterminator="\n")
        writer.writerow(HEADER)
        for name, transcripts in n_best.items():
            writer.writerows(rows_of(name, transcripts))


def read_n_best(path: str) -> dict[str, list[Candidate]]:
    """Reads a file written by ``write_n_best``.

    Raises:
      DataError: the file cannot be read, or a line is invalid.
    """
    found: dict[str, list[Candidate]] = {}
    try:
        reader = csv.reader((line + "\n" for line in read_lines(path, "The n-best list")), delimiter="\t")
        if tuple(next(reader, ())) != HEADER:
            raise DataError(f"{path} is not an n-best list: its first line must consist of these names, separated "
                            f"by tabs: {' '.join(HEADER)}.")
        for row in reader:
            try:
                name, _, *scores, text = row
                score, acoustic, lm = map(score_of, scores)
                found.setdefault(name, []).append(Candidate(text, score, acoustic, lm))
            except ValueError:
                raise DataError(f"{path}, line {reader.line_num}: expected an utterance, a rank, three scores and a "
                                "text.") from None
    except csv.Error as error:
        raise DataError(f"The n-best list {path} cannot be read: {error}.") from error
    return found


def rescore(n_best: Mapping[Name, Sequence[Candidate]], log_prob: Callable[[str], float], alpha: float,
            beta: float = 0.0) -> dict[Name, list[Candidate]]:
    """Returns the lists with alpha · log_prob(text) + beta · words added to ``score`` and ``lm``, sorted best first.

    Args:
      n_best: the lists.
      log_prob: function that returns the natural log probability of a text under any model.
      alpha: weight of ``log_prob``.
      beta: bonus for each word.
    """
    result = {}
    for name, candidates in n_best.items():
        gains = [alpha * log_prob(candidate.text) + beta * len(candidate.text.split()) for candidate in candidates]
        changed = [c._replace(score=c.score + gain, lm=c.lm + gain) for c, gain in zip(candidates, gains, strict=True)]
        result[name] = sorted(changed, key=lambda candidate: -candidate.score)
    return result


_BEGIN, _END = "B=>>>>>>>>", "E=>>>>>>>>"


def is_beam_dump(path: str) -> bool:
    """Returns whether a file is a beam dump, judged by its first line.

    Raises:
      DataError: the file cannot be read.
    """
    return next(read_lines(path, "The n-best list"), "").strip() == _BEGIN


def write_beam_dump(path: str, n_best: Iterable[Sequence[Any]]) -> None:
    """Writes the lists of hypotheses, objects with the attributes ``score`` and ``text``, in order."""
    with OutputFiles() as outputs:
        file = outputs.open(path)
        for candidates in n_best:
            lines = (f"{candidate.score:.6f} 0.0 0.0 {candidate.text}" for candidate in candidates)
            file.write("\n".join((_BEGIN, *lines, _END)) + "\n")


def read_beam_dump(path: str) -> list[list[Candidate]]:
    """Reads the lists of a beam dump, in order; runs of white space in texts become single spaces.

    Raises:
      DataError: the file cannot be read, a line is invalid, or a list is empty or incomplete.
    """
    found: list[list[Candidate]] = []
    is_open = False
    for number, line in enumerate(read_lines(path, "The beam dump"), 1):
        place = f"{shown(path)}:{number}"
        if line.strip() in (_BEGIN, _END):
            if is_open == (line.strip() == _BEGIN) or (is_open and not found[-1]):
                raise DataError(f"{place}: {line.strip()} is not expected here: the list of each utterance has to be "
                                f"between {_BEGIN} and {_END}, and not empty.")
            is_open = not is_open
            if is_open:
                found.append([])
        elif is_open:
            found[-1].append(_candidate(line, place))
        else:
            raise DataError(f"{place}: expected {_BEGIN}, the line that begins the list of each utterance.")
    if is_open:
        raise DataError(f"{shown(path)} ends before the last list is complete: its last line has to be {_END}.")
    return found


def _candidate(line: str, place: str) -> Candidate:
    try:
        score, _, _, *words = line.split()
        return scored_candidate(score, " ".join(words))
    except ValueError:
        raise DataError(f"{place}: expected a score, two further numbers and a text.") from None
