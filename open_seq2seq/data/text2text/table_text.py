"""The data layer for pairs in one file: a table with columns for the target and for one or several sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import DATA
from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.fields import Field
from open_seq2seq.data.tables import COLUMN, Table, column_problems, table_params
from open_seq2seq.data.text2text.corpus import TokenCorpus, corpus_of_lines
from open_seq2seq.data.text2text.side_remarks import Side
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer
from open_seq2seq.data.text2text.text_params import max_length_param
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import ConfigError, DataError, UserError

# Parameters of ParallelTextDataLayer that are fixed here instead of declared; _completed then replaces target_file.
_NOT_OF_TABLES = {"target_file": None, "use_targets": True, "prefix_file": None, "prefix_column": False,
                  "score_file": None}


class TableTextDataLayer(ParallelTextDataLayer):
    """Pairs of texts from one TSV or CSV file: questions and answers, texts and summaries, or any others.

    Texts are tokenised, dropped and truncated as by ``ParallelTextDataLayer``. If ``source_column`` is a list, each
    example has several sources, which share the source vocabulary, for a ``MultiEncoder``; ``source_tensors`` are then
    ``[ids, lengths]`` of the first source, followed by those of the second, and so on.

    Raises:
      ConfigError: parameters are missing or contradict each other.
      DataError: the file is missing, empty or not UTF-8, a line has too few columns, or no examples are left.
    """

    parallel_files = ()

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "source_file": Param(str, doc="TSV or CSV file with the sources and the target of one example per line.",
                                 file=DATA),
            **max_length_param(),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        inherited = ParallelTextDataLayer.get_optional_params()
        return {
            **{name: spec for name, spec in inherited.items() if name not in _NOT_OF_TABLES},
            **table_params(),
            "source_column": Param((*COLUMN, list), 1, "Column of the source: its number, counted from 1, or its name "
                                   "in the first line; a list for several sources.", minimum=1,
                                   on_change={"": REFUSE}),
            "target_column": Param(COLUMN, 2, "Column of the target, given like source_column; not read in inference.",
                                   minimum=1, on_change=REFUSE),
            "only_sources": Param(bool, False, "Whether each line contains only the sources, separated by tabs and in "
                                  "the order of source_column, without a header; set by --infer_files."),
        }

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, **_NOT_OF_TABLES, "target_file": params["source_file"]}

    def _check(self) -> None:
        super()._check()
        params, path = self.params, self.params_path
        columns = {f"source_column{f'/{number}' if self.num_sources > 1 else ''}": column
                   for number, column in enumerate(self._source_columns)}
        problems = column_problems(path, {**columns, "target_column": params["target_column"]})
        if not columns:
            problems.append(f"'{path}/source_column' is an empty list: give at least one column.")
        if not all(isinstance(column, (int, str)) for column in self._source_columns):
            problems.append(f"'{path}/source_column' is {params['source_column']!r}, but columns must be numbers or "
                            "names.")
        if params["only_sources"] and self._reads_targets:
            problems.append(f"'{path}/only_sources' is True, but training and evaluation need targets: set "
                            "only_sources to False.")
        if problems:
            raise ConfigError(problems)

    @property
    def _source_columns(self) -> list[Any]:
        column = self.params["source_column"]
        return list(column) if isinstance(column, (list, tuple)) else [column]

    @property
    def num_sources(self) -> int:
        """Number of sources of each example."""
        return len(self._source_columns)

    def _load(self, thorough: bool = False) -> None:
        path, _ = self.params["source_file"], self.fingerprints  # computed before the file is read
        rows = list(self._rows())
        if not rows:
            raise DataError(f"The file {shown(path)} has no examples.")
        self._numbers = np.array([number for number, _ in rows], np.int32)
        sides = [corpus_of_lines([" ".join(row[place].split("\n")) for _, row in rows], tokenizer, path)
                 for place, tokenizer in enumerate(self._tokenizers())]
        self._source, self._more = sides[0], sides[1:self.num_sources]
        self._target = sides[-1] if self._reads_targets else None
        counts = np.stack([corpus.counts for corpus in sides], axis=1)
        self._select(counts)
        self._num_empty_sources = int((counts[:, :self.num_sources].max(axis=1) == 0).sum())

    def _sides(self) -> list[Side]:
        more = [Side(corpus, self._source_tokenizer, "source") for corpus in self._more]
        return [*super()._sides(), *more]

    def _tokenizers(self) -> list[Any]:
        return [self._source_tokenizer] * self.num_sources + [self._target_tokenizer] * self._reads_targets

    def _rows(self) -> Any:
        params = self.params
        if params["only_sources"]:
            lines = enumerate(read_lines(params["source_file"], "The text file"), 1)
            return ((number, self._split(line, f"{shown(params['source_file'])}:{number}")) for number, line in lines)
        columns = [*self._source_columns, *([params["target_column"]] if self._reads_targets else [])]
        return Table(params["source_file"], columns, params["format"], params["has_header"]).rows()

    def _split(self, line: str, where: str) -> list[str]:
        """Returns the sources in a line; an empty line gives empty sources."""
        if not line.strip():
            return [""] * self.num_sources
        sources = line.split("\t") if self.num_sources > 1 else [line]
        if len(sources) != self.num_sources:
            raise DataError(f"{where}: the line has {len(sources)} source{'s' * (len(sources) > 1)}, but the model "
                            f"needs {self.num_sources}: give one line with all sources of each example, separated by "
                            "tabs.")
        return sources

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        batch = super().make_batch(examples)
        lines = examples if self._lines is None else self._lines[examples]
        batch["source_tensors"] += [array for corpus in self._more for array in self._side(corpus, lines)]
        return batch

    def make_interactive_batch(self, inputs: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of sources, truncated to ``max_length``; several sources are separated by tabs.

        Raises:
          DataError: there are no lines, a line is not a string, or a line does not have ``num_sources`` sources.
        """
        if self.num_sources == 1:
            return super().make_interactive_batch(inputs)
        corpora = self._typed_sources(inputs)
        self._note_typed(np.max([corpus.counts for corpus in corpora], axis=0), self._max_tokens)
        numbers = np.arange(len(corpora[0]))
        return {"source_tensors": [array for corpus in corpora for array in self._side(corpus, numbers)],
                "ids": numbers}

    @property
    def scoring_signature(self) -> dict[str, Any]:
        if self.num_sources > 1:
            raise UserError("Given targets cannot be scored if examples have several sources.")
        return super().scoring_signature

    def interactive_lengths(self, inputs: Sequence[str]) -> np.ndarray:
        counts = np.max([corpus.counts for corpus in self._typed_sources(inputs)], axis=0)
        return np.minimum(counts, self._max_tokens) + self.num_special

    def _typed_sources(self, inputs: Sequence[str]) -> list[TokenCorpus]:
        """Returns the corpus of each source in lines that a user typed."""
        lines = [inputs] if isinstance(inputs, str) else list(inputs)
        split = [self._split(str(line), "The input") for line in lines]
        corpora = [self._typed([sources[place] for sources in split]) for place in range(self.num_sources)]
        self._newest_lines = [sources[0] for sources in split]
        return corpora

    @property
    def fields(self) -> dict[str, Any]:
        sources = [field for number in range(self.num_sources) for field in (
            Field(tf.int32, (None, None), time=1, lengths=2 * number + 1), Field(tf.int32, (None,)))]
        return {**super().fields, "source_tensors": sources}

    def line_number(self, example: int) -> int:
        return int(self._numbers[self._line(example)])

    def examine(self) -> list[str]:
        """Reads the file again."""
        self._load()
        return []

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the given files: lines of sources, separated by tabs.

        Raises:
          UserError, DataError: see ``ParallelTextDataLayer``.
        """
        found = super().params_for_files(files)
        return {"source_file": found["source_file"], "index_dir": found["index_dir"], "only_sources": True}
