"""Functions for the scripts that prepare text: sentence pairs, cleaning, shuffling, and SentencePiece encoding."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from open_seq2seq.data.sentencepiece_models import load_sentencepiece
from open_seq2seq.data.text_files import write_lines, writing
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError

_LINES_AT_ONCE = 50_000


def read_pairs(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yields the sentence pairs of two files.

    Raises:
      DataError: the numbers of lines differ, or a file cannot be read (see ``read_lines``).
    """
    sources, targets = read_lines(source), read_lines(target)
    for number, (one, other) in enumerate(itertools.zip_longest(sources, targets)):
        if one is None or other is None:
            more = sum(1 for _ in itertools.chain(sources, targets)) + 1
            counts = (number, number + more) if one is None else (number + more, number)
            raise DataError(f"{source} has {counts[0]} lines, but {target} has {counts[1]}: line n of one file must be "
                            "the translation of line n of the other.")
        yield one, other


@dataclass
class Cleaning:
    """Filter for sentence pairs by their numbers of words, which are separated by white space.

    Attributes:
      min_length: minimum number of words on each side.
      max_length: maximum number of words on each side.
      max_ratio: maximum ratio of the longer side's number of words to the shorter side's.
      kept: number of pairs kept so far.
      dropped: number of pairs dropped so far.
    """

    min_length: int = 1
    max_length: int = 80
    max_ratio: float = 9.0
    kept: int = 0
    dropped: int = 0

    def fits(self, source: str, target: str) -> bool:
        """Returns whether a pair satisfies the limits."""
        shorter, longer = sorted((len(source.split()), len(target.split())))
        return self.min_length <= shorter and longer <= self.max_length and longer <= self.max_ratio * shorter

    def filter(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yields the pairs that satisfy the limits, with white space normalised, and updates the counts."""
        for source, target in pairs:
            if self.fits(source, target):
                self.kept += 1
                yield " ".join(source.split()), " ".join(target.split())
            else:
                self.dropped += 1


def write_pairs(pairs: Iterable[tuple[str, str]], source: str, target: str) -> int:
    """Writes sentence pairs to two text files and returns their number."""
    count = 0
    with writing(source) as one, writing(target) as other:
        for first, second in pairs:
            one.write(first.encode("utf-8") + b"\n")
            other.write(second.encode("utf-8") + b"\n")
            count += 1
    return count


def shuffle_files(inputs: Sequence[str], outputs: Sequence[str], seed: int = 0) -> None:
    """Writes the lines of parallel files in the same random order, which depends only on the seed.

    The files are memory-mapped, so they may be larger than the memory.

    Args:
      inputs: plain text files with the same number of lines; the last line must end with a newline, too.
      outputs: the files to write, one for each input.
      seed: seed of the random order.
    """
    order: np.ndarray | None = None
    for path, output in zip(inputs, outputs, strict=True):
        text = np.memmap(path, np.uint8, "r")
        ends = np.concatenate([np.flatnonzero(text[i:i + (1 << 24)] == ord("\n")) + i + 1
                               for i in range(0, len(text), 1 << 24)])
        starts = np.concatenate([[0], ends[:-1]])
        if order is None:
            order = np.random.Generator(np.random.Philox(seed)).permutation(len(ends))
        buffer = text.data
        with writing(output) as file:
            for begin in range(0, len(order), _LINES_AT_ONCE):
                some = order[begin:begin + _LINES_AT_ONCE]
                ranges = zip(starts[some].tolist(), ends[some].tolist(), strict=True)
                file.write(b"".join(buffer[first:last] for first, last in ranges))


def _converted(path: str, convert: Callable[[list[str]], list[str]]) -> Iterator[str]:
    lines = read_lines(path)
    while some := list(itertools.islice(lines, _LINES_AT_ONCE)):
        yield from convert(some)


def encode_file(model: str, text: str, output: str) -> int:
    """Converts a text file to SentencePiece pieces, separated by spaces; returns the number of lines."""
    processor = load_sentencepiece(model)
    threads = os.cpu_count() or 1

    def encode(lines: list[str]) -> list[str]:
        return [" ".join(pieces) for pieces in processor.encode(lines, out_type=str, num_threads=threads)]

    return write_lines(output, _converted(text, encode))


def decode_file(model: str, pieces: str, output: str) -> int:
    """Converts a file of SentencePiece pieces, separated by spaces, to plain text; returns the number of lines."""
    processor = load_sentencepiece(model)
    return write_lines(output, _converted(pieces, lambda lines: [processor.decode(line.split()) for line in lines]))
