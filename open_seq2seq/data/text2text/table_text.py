"""The data layer for pairs in one file: a table with columns for the target and for one or several sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from open_seq2seq.config.files import DATA
from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.tables import COLUMN, Table, column_problems, table_params
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer
from open_seq2seq.data.text2text.text_params import max_length_param
from open_seq2seq.data.text2text.token_table import Column, TokenTable
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError

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

    def _problems(self) -> list[str]:
        params, path, sources = self.params, self.params_path, self._source_columns
        problems = super()._problems()
        columns = {f"source_column{f'/{number}' if len(sources) > 1 else ''}": column
                   for number, column in enumerate(sources)}
        problems += column_problems(path, {**columns, "target_column": params["target_column"]})
        if not sources:
            problems.append(f"'{path}/source_column' is an empty list: give at least one column.")
        if not all(isinstance(column, (int, str)) for column in sources):
            problems.append(f"'{path}/source_column' is {params['source_column']!r}, but columns must be numbers or "
                            "names.")
        if params["only_sources"] and self._reads_pairs:
            problems.append(f"'{path}/only_sources' is True, but training and evaluation need targets: set "
                            "only_sources to False.")
        return problems

    @property
    def _source_columns(self) -> list[Any]:
        column = self.params["source_column"]
        return list(column) if isinstance(column, (list, tuple)) else [column]

    @property
    def num_sources(self) -> int:
        """Number of sources of each example."""
        return len(self._source_columns)

    def _columns(self) -> list[Column]:
        source, *target = super()._columns()
        return [source] * self.num_sources + target

    def _read(self, thorough: bool) -> list[TokenTable]:
        path, rows = self.params["source_file"], list(self._rows())
        if not rows:
            raise DataError(f"The file {shown(path)} has no examples.")
        return [self._table_of_rows(rows, path)]

    def _rows(self) -> Any:
        params = self.params
        if params["only_sources"]:
            lines = enumerate(read_lines(params["source_file"], "The text file"), 1)
            return ((number, self._split(line, f"{shown(params['source_file'])}:{number}")) for number, line in lines)
        columns = [*self._source_columns, *([params["target_column"]] if self._reads_pairs else [])]
        return Table(params["source_file"], columns, params["format"], params["has_header"]).rows()

    def _rows_of(self, lines: Sequence[str], columns: int) -> list[list[str]]:
        return [self._split(line, "The input") for line in lines]

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

    @property
    def scoring_signature(self) -> dict[str, Any]:
        if self.num_sources > 1:
            raise UserError("Given targets cannot be scored if examples have several sources.")
        return super().scoring_signature

    @classmethod
    def _params_for_file(cls, path: str) -> dict[str, Any]:
        return {**super()._params_for_file(path), "only_sources": True}
