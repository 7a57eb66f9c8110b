"""Word and character error rates of transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from open_seq2seq.utils.console import format_count
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import composed

_MARKS = {"replace": "S", "delete": "D", "insert": "I"}
_RESAMPLES = 1000  # draws of the bootstrap


class Step(NamedTuple):
    """One step of an alignment between a reference and a hypothesis.

    Attributes:
      kind: ``=`` for a match, ``S`` for a substitution, ``D`` for a deletion, ``I`` for an insertion.
      reference: the word (or character) of the reference; empty for an insertion.
      hypothesis: the word (or character) of the hypothesis; empty for a deletion.
    """

    kind: str
    reference: str
    hypothesis: str


class ErrorCounts(NamedTuple):
    """Error counts of one or more utterances, in units that are either words or characters.

    Add two counts with ``plus``, because ``a + b`` concatenates the tuples.

    Attributes:
      substitutions: number of units of the reference that were replaced.
      deletions: number of units of the reference that are missing.
      insertions: number of units of the hypothesis that are not in the reference.
      reference: number of units in the reference.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    reference: int = 0

    @property
    def errors(self) -> int:
        """Number of errors of all three kinds: the edit distance."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors divided by the length of the reference; if that is 0, infinity with errors and 0 without."""
        if not self.reference:
            return 0.0 if not self.errors else float("inf")
        return self.errors / self.reference

    def plus(self, other: ErrorCounts) -> ErrorCounts:
        """Returns the sum of two error counts."""
        return ErrorCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Utterance(NamedTuple):
    """An utterance: its name, the reference and hypothesis transcripts, and the counts of its errors in words."""

    name: str
    reference: str
    hypothesis: str
    words: ErrorCounts


class ErrorRates(NamedTuple):
    """Error counts of a corpus.

    Attributes:
      words: counts of errors in words, which are separated by white space.
      characters: counts of errors in characters, including single spaces between words.
      worst: the utterances with the most word errors, in descending order; ties are sorted by descending rate, and
        utterances without errors are left out.
    """

    words: ErrorCounts
    characters: ErrorCounts
    worst: list[Utterance]

    @property
    def wer(self) -> float:
        """Word error rate: word errors divided by reference words; may exceed 1."""
        return self.words.rate

    @property
    def cer(self) -> float:
        """Character error rate: character errors divided by reference characters; may exceed 1."""
        return self.characters.rate


def count_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> ErrorCounts:
    """Counts the errors of an alignment with the fewest errors, between two lists of words or two strings."""
    from rapidfuzz.distance import Levenshtein

    kinds = [step.tag for step in Levenshtein.editops(reference, hypothesis)]
    return ErrorCounts(kinds.count("replace"), kinds.count("delete"), kinds.count("insert"), len(reference))


def rate_interval(counts: Sequence[ErrorCounts], seed: int = 0) -> tuple[float, float]:
    """Returns the 95 % interval of the error rate of some utterances, by drawing utterances with replacement."""
    import numpy as np

    errors, lengths = np.asarray([(one.errors, one.reference) for one in counts]).T
    rows = np.random.default_rng(seed).integers(0, len(counts), [_RESAMPLES, len(counts)])
    low, high = np.percentile(errors[rows].sum(1) / np.maximum(lengths[rows].sum(1), 1), [2.5, 97.5])
    return float(low), float(high)


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Step]:
    """Returns the steps of an alignment with the fewest errors, between two lists of words or two strings."""
    from rapidfuzz.distance import Levenshtein

    steps = []
    for block in Levenshtein.opcodes(reference, hypothesis):
        mark = _MARKS.get(block.tag, "=")
        ours, theirs = reference[block.src_start:block.src_end], hypothesis[block.dest_start:block.dest_end]
        count = max(len(ours), len(theirs))
        steps += [Step(mark, ours[i] if len(ours) else "", theirs[i] if len(theirs) else "") for i in range(count)]
    return steps


def alignment_text(reference: str, hypothesis: str) -> str:
    """Returns three lines for the terminal, aligned word by word: the reference, the hypothesis and the error kinds.

    Asterisks stand for the missing word of an insertion or a deletion.
    """
    steps = align(composed(reference).split(), composed(hypothesis).split())
    widths = [max(len(step.reference), len(step.hypothesis), 1) for step in steps]
    rows = ([step.reference or "*" * width for step, width in zip(steps, widths, strict=True)],
            [step.hypothesis or "*" * width for step, width in zip(steps, widths, strict=True)],
            [" " if step.kind == "=" else step.kind for step in steps])
    names = ("REF: ", "HYP: ", "     ")
    return "\n".join(name + " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                     for name, row in zip(names, rows, strict=True))


def error_rates(references: Sequence[str], hypotheses: Sequence[str], names: Sequence[str] | None = None,
                worst: int = 10) -> ErrorRates:
    """Returns the error rates of a corpus; composed and decomposed letters are equal.

    Args:
      references: the true transcripts; words are separated by any white space.
      hypotheses: the recognised transcripts, in the same order.
      names: names of the utterances; by default, their indices.
      worst: maximum number of utterances in ``ErrorRates.worst``.

    Raises:
      ValueError: the arguments differ in length.
      DataError: there are no utterances.
    """
    if not references:
        raise DataError("WER cannot be computed, because the evaluation set is empty after filtering: check its files "
                        "and filters.")
    names = names if names is not None else [str(number) for number in range(len(references))]
    words, characters, judged = ErrorCounts(), ErrorCounts(), []
    for name, reference, hypothesis in zip(names, references, hypotheses, strict=True):
        ours, theirs = composed(reference).split(), composed(hypothesis).split()
        counts = count_errors(ours, theirs)
        words = words.plus(counts)
        characters = characters.plus(count_errors(" ".join(ours), " ".join(theirs)))
        if counts.errors:
            judged.append(Utterance(name, reference, hypothesis, counts))
    judged.sort(key=lambda utterance: (-utterance.words.errors, -utterance.words.rate))
    return ErrorRates(words, characters, judged[:worst])


def report(rates: ErrorRates) -> list[str]:
    """Returns lines for the terminal: both error rates, the errors by kind, and alignments of the worst utterances."""
    lines = [f"{name}: {counts.rate:.2%}  ({counts.substitutions} substitutions, {counts.deletions} deletions, "
             f"{counts.insertions} insertions in {counts.reference} {unit})"
             for name, counts, unit in (("WER", rates.words, "words"), ("CER", rates.characters, "characters"))]
    for utterance in rates.worst:
        counts = utterance.words
        lines.append(f"{utterance.name}: {format_count(counts.errors, 'error')} in "
                     f"{format_count(counts.reference, 'word')}")
        lines += alignment_text(utterance.reference, utterance.hypothesis).split("\n")
    return lines
