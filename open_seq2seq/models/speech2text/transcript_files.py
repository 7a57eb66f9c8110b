"""Writers of inference results for recordings: transcripts, word times, n-best lists, logits."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from open_seq2seq.decoding.ctc import n_best
from open_seq2seq.decoding.ctc.logits_file import LogitsFile, is_pickle
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import beside

_SHOWN = 10  # number of transcripts that are also printed


class SpokenWord(NamedTuple):
    """A word and its time.

    Attributes:
      text: the word.
      start: start time in seconds.
      end: end time in seconds.
      confidence: from 0 to 1.
    """

    text: str
    start: float
    end: float
    confidence: float


class _RecordingsWriter(ResultWriter):
    """Base class of writers that write each result with the name of its recording."""

    def __init__(self, output_file: str, name_of: Callable[[int], str]) -> None:
        super().__init__()
        self._output, self._name_of = output_file, name_of
        self._count = 0

    def write(self, example: int, result: Any) -> None:
        self._count += 1
        self._write(self._name_of(example), result)

    def _write(self, name: str, result: Any) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        if not self._count:
            raise DataError("No recording could be used: there is nothing to write.")


class TranscriptWriter(_RecordingsWriter):
    """Writes transcripts as CSV (columns wav_filename and predicted_transcript), and prints the first ones at the end.

    Args:
      output_file: path of the CSV file.
      name_of: function that returns the name of an example's recording.
      words: whether to write ``<output>.words.csv``, with each word's start and end in seconds and its confidence.
      lists: whether to write ``<output>.n_best.tsv``, with the best hypotheses; see ``decoding.ctc.n_best``.
    """

    def __init__(self, output_file: str, name_of: Callable[[int], str], words: bool, lists: bool) -> None:
        super().__init__(output_file, name_of)
        self._with_words, self._with_lists = words, lists
        self._first: list[tuple[str, str]] = []

    def begin(self) -> None:
        self._texts = self._table(self._output, ("wav_filename", "predicted_transcript"))
        if self._with_words:
            self._words = self._table(beside(self._output, ".words.csv"),
                                      ("wav_filename", "word", "start_time", "end_time", "confidence"))
        if self._with_lists:
            self._lists = self._table(beside(self._output, ".n_best.tsv"), n_best.HEADER, "\t")

    def _table(self, path: str, header: Sequence[str], delimiter: str = ",") -> Any:
        writer = csv.writer(self.outputs.open(path, newline=""), delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        return writer

    def _write(self, name: str, result: Any) -> None:
        self._texts.writerow((name, result.text))
        if self._with_words:
            self._words.writerows((name, word.text, f"{word.start:.3f}", f"{word.end:.3f}", f"{word.confidence:.4f}")
                                  for word in result.words or ())
        if self._with_lists:
            self._lists.writerows(n_best.rows_of(name, result.n_best or ()))
        if len(self._first) < _SHOWN:
            self._first.append((name, result.text))

    def finish(self) -> None:
        super().finish()
        for name, text in self._first:
            deco_print(f"{name}: {text}", offset=1)


class DumpWriter(_RecordingsWriter):
    """Writes logits; see ``decoding.ctc.logits_file``.

    Args:
      output_file: path of the file; with the suffix ``.pickle`` or ``.pkl``, a pickled dict is written, otherwise an
        ``.npz`` archive.
      name_of: function that returns the name of an example's recording, which must be unique.
      labels: the alphabet without the blank.
      step_seconds: time between two frames of the logits, in seconds.
      normalization: the data layer's parameters for normalising transcripts.
    """

    def __init__(self, output_file: str, name_of: Callable[[int], str], labels: Sequence[str], step_seconds: float,
                 normalization: Mapping[str, Any]) -> None:
        super().__init__(output_file, name_of)
        self._described = labels, step_seconds, normalization

    def begin(self) -> None:
        self._dump = LogitsFile(self.outputs.open(self._output, "wb"), is_pickle(self._output))

    def _write(self, name: str, result: Any) -> None:
        self._dump.write(name, result.logits)

    def finish(self) -> None:
        super().finish()
        self._dump.finish(*self._described)
