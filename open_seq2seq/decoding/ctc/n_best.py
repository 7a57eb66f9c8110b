"""Files with the n-best lists of recordings."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from open_seq2seq.decoding.ctc.decoder import Transcript
from open_seq2seq.decoding.n_best import Candidate, score_of
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles

HEADER = ("wav_filename", "rank", "score", "acoustic", "lm", "transcript")


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
