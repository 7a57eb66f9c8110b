"""Writers of inference results with text: translations, scores and alignments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from open_seq2seq.decoding.n_best import Candidate, scored_candidate
from open_seq2seq.models.confusion import has_matplotlib, matrix_figure, without_font_warnings
from open_seq2seq.models.results import ResultWriter, report_inputs
from open_seq2seq.models.text2text.translations import Alignment, TargetScore, Translations
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.output_file import beside

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
            if self._pictures:
                check_pictures()

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


def check_pictures() -> None:
    """Raises UserError if matplotlib is missing."""
    if not has_matplotlib():
        raise UserError("Pictures of alignments need matplotlib: run `pip install matplotlib`, or set "
                        "alignment_pictures to 0.")


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
