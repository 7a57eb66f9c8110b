"""Results of inference with text and their files: translations with scores and alignments, or scores of targets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoding.n_best import Candidate, scored_candidate
from open_seq2seq.models.confusion import has_matplotlib, matrix_figure, without_font_warnings
from open_seq2seq.models.results import ResultWriter, report_inputs
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import beside

_START, _END = (SpecialTextTokens.to_string(token) for token in (SpecialTextTokens.S_ID, SpecialTextTokens.EOS_ID))


@dataclass(frozen=True)
class Alignment:
    """Which source tokens a translation attends to.

    Attributes:
      source: the source tokens, special tokens included.
      target: the tokens of the translation, without special tokens.
      attention: ``[target, source]`` FP32.
      hard: for each target token, the index of the source token with the most attention, special tokens excluded; empty
        if the source consists of special tokens.
    """

    source: list[str]
    target: list[str]
    attention: np.ndarray
    hard: list[int]


class Translation(NamedTuple):
    """A hypothesis.

    Attributes:
      score: its score; see ``BeamResult``.
      text: its text.
    """

    score: float
    text: str


class Translations(list[Translation]):
    """The hypotheses for one sentence, best first: a list of ``Translation``.

    Args:
      hypotheses: the hypotheses.
      lengths: number of tokens of each hypothesis, including EOS.
      alignment: the alignment of the best hypothesis, if it is known.
    """

    def __init__(self, hypotheses: Iterable[Translation], lengths: Sequence[int], alignment: Alignment | None) -> None:
        super().__init__(hypotheses)
        self.lengths, self.alignment = list(lengths), alignment


class TargetScore(NamedTuple):
    """The score of a given translation.

    Attributes:
      log_prob: natural logarithm of the translation's probability, including EOS.
      tokens: number of tokens, including EOS.
    """

    log_prob: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(-log_prob / tokens); infinity if that is too large for a float."""
        try:
            return math.exp(-self.log_prob / max(self.tokens, 1))
        except OverflowError:
            return math.inf


def aligned(layer: Any, words: list[str], ids: np.ndarray, attention: np.ndarray) -> Alignment:
    """Returns the alignment of a hypothesis.

    Args:
      layer: the data layer.
      words: tokens of the source, without special tokens.
      ids: the hypothesis, ``[time]``.
      attention: ``[time, source]``.
    """
    starts = [_START] if layer.params["use_start_token"] else []
    source = [*starts, *words, _END]
    weights = attention[positions_of_text(ids), :len(source)]
    inner = weights[:, len(starts):len(starts) + len(words)]
    hard = (inner.argmax(axis=1) + len(starts)).tolist() if words else []
    return Alignment(source, layer.target_tokens(ids), weights, hard)


def positions_of_text(ids: np.ndarray) -> list[int]:
    """Returns the positions of the ids ``[time]`` that are part of the text: those before EOS, without PAD and S."""
    ends = np.flatnonzero(ids == SpecialTextTokens.EOS_ID)
    shown = ids[:ends[0]] if len(ends) else ids
    return np.flatnonzero((shown != SpecialTextTokens.PAD_ID) & (shown != SpecialTextTokens.S_ID)).tolist()


def with_unknowns_replaced(ids: np.ndarray, alignment: Alignment) -> list[str]:
    """Returns the tokens of a hypothesis ``[time]``, unknown ones replaced by the source tokens they are aligned to."""
    unknown = ids[positions_of_text(ids)] == SpecialTextTokens.UNK_ID
    if not alignment.hard:
        return alignment.target
    return [alignment.source[place] if replace else token
            for token, replace, place in zip(alignment.target, unknown, alignment.hard, strict=True)]


_ALIGNMENTS = "alignments.jsonl"
_SCORES_HEADER = ("line", "rank", "score", "tokens", "text")


class TranslationWriter(ResultWriter):
    """Writes translations in the order of the source sentences.

    Args:
      output_file: path of the file.
      in_lines: whether to write a line ``number<TAB>score<TAB>text`` for each hypothesis, where ``number`` is the index
        of the sentence, from 0; otherwise, one line with the best text is written for each sentence.
      scores: whether to write ``<output>.scores.tsv``, with the score and the length of each hypothesis.
      pictures: number of sentences, from the first, whose alignments are also drawn; None to write no alignments at
        all. Alignments are written to the folder ``<output>.alignments``.
      data_layer: data layer whose empty and truncated lines are reported at the end.
    """

    def __init__(self, output_file: str, in_lines: bool, scores: bool, pictures: int | None,
                 data_layer: Any) -> None:
        super().__init__()
        self._data_layer = data_layer
        self._name, self._in_lines, self._with_scores, self._pictures = output_file, in_lines, scores, pictures
        self._line = 0

    def begin(self) -> None:
        self._file = self.outputs.open(self._name)
        if self._with_scores:
            self._scores = self.outputs.open(beside(self._name, ".scores.tsv"), newline="\n")
            self._scores.write("\t".join(_SCORES_HEADER) + "\n")
        if self._pictures is not None:
            self._folder = self.outputs.folder(beside(self._name, ".alignments"))
            self._alignments = open(self._folder / _ALIGNMENTS, "x", encoding="utf-8")
            if self._pictures and not has_matplotlib():
                raise UserError("Pictures of alignments need matplotlib: run `pip install matplotlib`, or set "
                                "alignment_pictures to 0.")

    def write(self, example: int, result: Translations) -> None:
        self._line = example + 1
        if self._in_lines:
            self._file.write("".join(f"{example}\t{score:.6f}\t{text}\n" for score, text in result))
        else:
            self._file.write(result[0].text + "\n")
        if self._with_scores:
            self._scores.write("".join(
                f"{self._line}\t{rank}\t{score:.6f}\t{length}\t{text}\n"
                for rank, ((score, text), length) in enumerate(zip(result, result.lengths, strict=True), 1)))
        if self._pictures is not None and result.alignment is not None:
            self._write_alignment(result.alignment)

    def _write_alignment(self, alignment: Alignment) -> None:
        row = {"line": self._line, "source": alignment.source, "target": alignment.target,
               "hard": [[target, source] for target, source in enumerate(alignment.hard)],
               "attention": [[round(float(weight), 4) for weight in weights] for weights in alignment.attention]}
        self._alignments.write(json.dumps(row, ensure_ascii=False) + "\n")
        if self._line <= (self._pictures or 0) and alignment.target:
            draw_alignment(alignment, self._folder / f"{self._line}.png")

    def finish(self) -> None:
        if self._pictures is not None:
            self._alignments.close()
        report_inputs(self._data_layer)


def read_scores(path: str) -> dict[int, list[Candidate]]:
    """Reads a file ``<output>.scores.tsv``: the hypotheses for each line of the source, numbered from 1.

    Raises:
      DataError: the file cannot be read, a line of it is invalid, or a line of the source is missing.
    """
    candidates: dict[int, list[Candidate]] = {}
    for number, row in enumerate(read_lines(path, "The table of scores"), 1):
        fields = tuple(row.split("\t"))
        if number == 1:
            if fields != _SCORES_HEADER:
                raise DataError(f"{shown(path)} is not a table of scores: its first line has to contain "
                                f"{', '.join(_SCORES_HEADER)}, separated by tabs, as save_scores writes it.")
            continue
        try:
            line, _, score, _, text = fields
            candidates.setdefault(int(line), []).append(scored_candidate(score, text))
        except ValueError:
            raise DataError(f"{shown(path)}:{number}: expected line, rank, score, tokens and text, separated by "
                            "tabs.") from None
    if list(candidates) != list(range(1, len(candidates) + 1)):
        raise DataError(f"{shown(path)} lacks lines of the source, or is not in their order: give the table that "
                        "inference has written.")
    return candidates


def draw_alignment(alignment: Alignment, path: Path) -> None:
    """Draws an alignment as a PNG: one row per target token, darker cells for more attention, and ``hard`` as dots."""
    figure, axes = matrix_figure(alignment.attention, alignment.target, alignment.source, ("target", "source"))
    axes.scatter(alignment.hard, range(len(alignment.hard)), s=9, c="tab:red")
    with without_font_warnings(), open(path, "xb") as file:
        figure.savefig(file, format="png", dpi=72)


class ScoreWriter(ResultWriter):
    """Writes ``log probability<TAB>perplexity<TAB>tokens`` for each line, and prints the perplexity of all lines.

    Args:
      output_file: path of the file.
    """

    def __init__(self, output_file: str) -> None:
        super().__init__()
        self._name = output_file
        self._log_prob, self._tokens = 0.0, 0

    def begin(self) -> None:
        self._file = self.outputs.open(self._name)

    def write(self, example: int, result: TargetScore) -> None:
        self._file.write(f"{result.log_prob:.6f}\t{result.perplexity:.6f}\t{result.tokens}\n")
        self._log_prob += result.log_prob
        self._tokens += result.tokens

    def finish(self) -> None:
        total = TargetScore(self._log_prob, self._tokens)
        deco_print(f"Log probability: {total.log_prob:.4f}, perplexity: {total.perplexity:.4f}, tokens: "
                   f"{total.tokens:,}", offset=1)
