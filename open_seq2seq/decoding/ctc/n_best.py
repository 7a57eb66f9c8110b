"""N-best lists: reading, writing, and rescoring with another language model."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from open_seq2seq.decoding.ctc.decoder import Transcript
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles

HEADER = ("wav_filename", "rank", "score", "acoustic", "lm", "transcript")


class Candidate(NamedTuple):
    """One hypothesis of an n-best list, with scores in nats: ``score`` = ``acoustic`` + ``lm``."""

    text: str
    score: float
    acoustic: float
    lm: float


def rows_of(name: str, transcripts: Sequence[Transcript | Candidate]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of one utterance for an n-best file."""
    return ((name, rank, f"{t.score:.6f}", f"{t.acoustic:.6f}", f"{t.lm:.6f}", t.text)
            for rank, t in enumerate(transcripts))


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
            raise DataError(f"{path} is not an n-best list: its first line must be {' '.join(HEADER)}.")
        for row in reader:
            try:
                name, _, score, acoustic, lm, text = row
                found.setdefault(name, []).append(Candidate(text, float(score), float(acoustic), float(lm)))
            except ValueError:
                raise DataError(f"{path}, line {reader.line_num}: expected an utterance, a rank, three scores and a "
                                "text.") from None
    except csv.Error as error:
        raise DataError(f"The n-best list {path} cannot be read: {error}.") from error
    return found


def rescore(n_best: Mapping[str, Sequence[Candidate]], log_prob: Callable[[str], float], alpha: float,
            beta: float = 0.0) -> dict[str, list[Candidate]]:
    """Adds alpha · log_prob(text) + beta · words to all scores and sorts each list, best first.

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
