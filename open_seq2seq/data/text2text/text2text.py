"""The data layers for pairs of texts: two files whose lines correspond, of any model or of Transformers, or a table."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from open_seq2seq.config.files import DATA
from open_seq2seq.config.params import FREE, REFUSE, Param, without_effect
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.tables import COLUMN, Table, column_problems, table_params
from open_seq2seq.data.text2text.corpus import INDEX_FROM_BYTES, Layout, TokenCorpus, corpus_of_lines
from open_seq2seq.data.text2text.text_layer import (
    PATH,
    TextDataLayer,
    given_target_params,
    max_length_param,
    shared_params,
)
from open_seq2seq.data.text2text.token_table import Column, TokenTable
from open_seq2seq.data.text2text.tokenizers import make_tokenizers
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.disk import process_folder
from open_seq2seq.utils.errors import ConfigError, DataError, UserError

__all__ = ["ParallelTextDataLayer", "SpecialTextTokens", "TableTextDataLayer", "TransformerDataLayer"]

FIXED = {"target_file": None, "use_targets": True, "prefix_file": None, "prefix_column": False, "score_file": None}
"""Parameters that data layers of tables and of several corpora fix instead of declaring them."""


class ParallelTextDataLayer(TextDataLayer):
    """Sentence pairs from two text files with one sentence per line.

    A sentence becomes ``[S] + tokens + [EOS]``, without S if ``use_start_token`` is False. In training, pairs are
    dropped if a side is empty or, unless ``cut_long``, has more than ``max_length`` ids. In evaluation and inference,
    no pair is dropped: longer sentences are truncated, and empty ones become special tokens only, for which models
    return empty results. Inference needs no target file.

    Lengths in a batch include special tokens, but not padding. Shuffling permutes the whole data set, without a buffer
    (see ``data.batching``).

    Raises:
      ConfigError: parameters are missing or contradict each other.
      DataError: a file is missing, empty or not UTF-8, the files' numbers of lines differ, or no examples are left.
    """

    parallel_files: Sequence[str] = ("source_file", "target_file")
    _least_tokens = 2

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "source_file": Param(str, doc="Text file with one source sentence per line.", file=DATA),
            **max_length_param(),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(),
            **shared_params(),
            **given_target_params(),
            "use_targets": Param(bool, True, "Whether to read target_file; if False, the source sentences are also the "
                                 "targets."),
            "target_file": Param(PATH, None, "Text file with one target sentence per line; not read in inference.",
                                 file=DATA),
            "cut_long": Param(bool, False, "Whether training cuts sentences that are longer than max_length, instead "
                              "of dropping their pairs."),
            "pad_lengths_to_eight": Param(bool, False, "Whether to pad the length of a batch to a multiple of 8."),
            "shuffle_buffer_size": Param(int, -1, "Ignored; accepted so that old configs load. The whole data set is "
                                         "shuffled, without a buffer.", "examples", on_change=FREE),
            "use_start_token": Param(bool, True, "Whether to put the start token before each sentence.",
                                     on_change=REFUSE),
        }

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return params if params.get("use_targets", True) else {**params, "target_file": None}

    def _problems(self) -> list[str]:
        params, path, problems = self.params, self.params_path, super()._problems()
        if params["pad_lengths_to_eight"] and params["max_length"] % 8:
            problems.append(f"'{path}/max_length' is {params['max_length']}, but must be a multiple of 8, because "
                            "lengths are padded to multiples of 8.")
        if params["prefix_file"] and params["prefix_column"]:
            problems.append(f"'{path}/prefix_file' is set, but prefix_column is True, so prefixes are read from "
                            "source_file: leave out prefix_file or prefix_column.")
        if params["score_file"] and (params["prefix_file"] or params["prefix_column"]):
            problems.append(f"'{path}/score_file' is set, so inference scores translations, and prefixes have no "
                            "meaning: leave out score_file, or prefix_file and prefix_column.")
        return problems

    def _missing(self) -> list[str]:
        return [f"'{self.params_path}/target_file' is missing: name the text file with the target sentences, or set "
                "use_targets to False."] \
            if self._has_targets and self.params["use_targets"] and not self.params["target_file"] else []

    def _prepare(self) -> None:
        self._source_tokenizer, self._target_tokenizer = make_tokenizers(self.params, self.params_path)

    @property
    def _layout(self) -> Layout:
        return super()._layout._replace(multiple=8 if self.params["pad_lengths_to_eight"] else 1)

    def _index_dir(self, path: str) -> str | None:
        return self.params["index_dir"]

    def _columns(self) -> list[Column]:
        params, source, target = self.params, self._source_tokenizer, self._target_tokenizer
        file = params["source_file"]
        if self._has_targets:
            return [Column("source", source, file), Column("target", target, params["target_file"])
                    if params["use_targets"] else Column("target", source, file)]
        if params["prefix_column"]:
            return [Column("source", source, file, field=0), Column("prefix", target, file, field=1)]
        files = {} if self.mode == "interactive_infer" else {
            "target": params["score_file"], "prefix": params["prefix_file"]}
        return [Column("source", source, file), *(Column(side, target, path) for side, path in files.items() if path)]

    def _check_corpora(self, columns: Sequence[Column], corpora: Sequence[TokenCorpus]) -> None:
        source, most = corpora[0], self._layout.max_tokens
        for column, corpus in zip(columns, corpora, strict=True):
            if column.side == "source":
                continue
            what = "prefix" if column.side == "prefix" else "translation"
            if len(corpus) != len(source):
                raise DataError(f"{source.path} has {len(source)} lines, but {corpus.path} has {len(corpus)}: line n "
                                + ("of one file must be the translation of line n of the other." if self._has_targets
                                   else f"has to be the {what} for line n of the source."))
            long = np.flatnonzero(corpus.counts > most)
            if len(long) and not self._has_targets:  # an error, because it must not be truncated
                raise DataError(f"{corpus.path or 'input'}:{long[0] + 1}: the {what} has {corpus.counts[long[0]]} "
                                f"tokens, but max_length allows {most}: set a larger max_length for inference.")

    def _nothing_left(self, table: TokenTable) -> str:
        return (f"All {table.num_empty + table.num_long} sentence pairs of {table.corpora[0].path} were dropped: "
                f"{table.num_empty} have an empty side, {table.num_long} are longer than max_length "
                f"{self.params['max_length']}.")

    @property
    def tokenizers(self) -> tuple[Any, Any]:
        """The tokenizers of source and target; the same object twice if they use the same file."""
        return self._source_tokenizer, self._target_tokenizer

    @property
    def source_vocab_size(self) -> int:
        """Size of the source vocabulary."""
        return self._source_tokenizer.vocab_size

    @property
    def target_vocab_size(self) -> int:
        """Size of the target vocabulary."""
        return self._target_tokenizer.vocab_size

    def make_scoring_batch(self, inputs: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of source sentences, truncated to ``max_length``, and their given translations.

        Raises:
          DataError: an input is not a string, or a translation has more tokens than ``max_length`` allows.
        """
        sources = self._noted(self._typed(inputs))
        columns = [sources.columns[0], Column("target", self._target_tokenizer)]
        corpora = [sources.corpora[0], corpus_of_lines([" ".join(str(line).split("\n")) for line in targets],
                                                       self._target_tokenizer)]
        self._check_corpora(columns, corpora)
        return TokenTable(columns, corpora, self._layout).batch(np.arange(len(sources)))

    @property
    def scoring_signature(self) -> dict[str, Any]:
        signature = self.input_signature
        return {name: signature["source_tensors" if name == "target_tensors" else name]
                for name in ("source_tensors", "target_tensors", "ids")}

    def ids_to_text(self, ids: Any) -> str:
        """Returns the text of target ids ``[time]`` up to EOS, without special tokens."""
        return self._target_tokenizer.decode(ids)

    def source_to_text(self, ids: Any) -> str:
        """Returns the text of source ids ``[time]`` up to EOS, without special tokens."""
        return self._source_tokenizer.decode(ids)

    def source_tokens(self, example: int, typed: str | None = None) -> list[str]:
        """Returns the tokens of a source sentence as text, at most as many as ``max_length`` allows.

        Tokens that the vocabulary does not contain are returned as they are in the sentence.

        Args:
          example: index of the example; not used in interactive inference.
          typed: for interactive inference, the line that the user typed.
        """
        table, inside = self._located(example) if typed is None else (self._typed([typed]), 0)
        return self._source_tokenizer.split(table.text(0, inside))[:self._layout.max_tokens]

    def target_tokens(self, ids: Any) -> list[str]:
        """Returns the tokens of target ids ``[time]`` up to EOS, without special tokens."""
        return self._target_tokenizer.tokens_of(ids)

    def tokens_to_text(self, tokens: Sequence[str]) -> str:
        """Joins target tokens to a text, as ``ids_to_text`` does."""
        return self._target_tokenizer.join(tokens)

    def reference_text(self, example: int) -> str:
        """Returns an example's line of the target file, detokenised if ``detokenize`` is set.

        Raises:
          DataError: the layer is used for inference, where target_file is not read.
        """
        table, inside = self._located(example)
        for number, column in enumerate(table.columns):
            if column.side == "target":
                return column.tokenizer.to_text(table.text(number, inside))
        raise DataError("Reference texts are not available in inference, because target_file is not read.")

    def assets(self) -> dict[str, str]:
        """Returns a dict of asset name → path of the vocabulary files or of the SentencePiece models."""
        pieces = (self.params["tokenizer"] or {}).get("type") == "sentencepiece"
        return {name: path for name, path in super().assets().items() if name.startswith("tokenizer_") == pieces}

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        changed = super().params_with_assets(params, paths)
        if changed.get("tokenizer") and not params.get("tokenizer"):
            changed["tokenizer"]["type"] = "sentencepiece"
        return changed

    @classmethod
    def _params_for_file(cls, path: str) -> dict[str, Any]:
        # A large file's index is written to a temporary folder, not beside the user's file or to the config's folder.
        index_dir = process_folder() if os.path.getsize(path) >= INDEX_FROM_BYTES else None
        targets = {"target_file": None} if "target_file" in cls.get_optional_params() else {}
        return {"source_file": path, "index_dir": index_dir, **targets}


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
            **{name: spec for name, spec in inherited.items() if name not in FIXED},
            **without_effect("index_dir", reason=", because tables have no index"),
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
        return {**params, **FIXED, "target_file": params["source_file"]}

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
        if params["only_sources"] and self._has_targets:
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
        return Table(params["source_file"], [*self._source_columns, params["target_column"]], params["format"],
                     params["has_header"], self.num_sources + int(self._has_targets)).rows()

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


class TransformerDataLayer(ParallelTextDataLayer):
    """Sentence pairs as ``tokens + [EOS]``; by default, the batch size counts tokens.

    In NVIDIA's OpenSeq2Seq, the layer of this name read TFRecord files. This layer reads text: set ``source_file``
    and ``target_file``, which are relative to ``data_dir`` if that is set. ``tgt_vocab_file`` is by default the source
    vocabulary. ``batch_in_tokens`` and ``num_cpu_cores`` take the place of ``batch_size_unit`` and
    ``map_parallel_calls``, which are ignored.

    Raises:
      ConfigError: ``source_file`` is missing.
      DataError: ``data_dir`` and ``file_pattern`` name TFRecord files; see also ``ParallelTextDataLayer``.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return max_length_param()

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(),
            **shared_params(),
            **given_target_params(),
            "repeat": Param((bool, int, type(None)), None, "Ignored; accepted so that old configs load. Training "
                            "always repeats the data; evaluation never does.", on_change=FREE),
            "data_dir": Param(PATH, None, "Folder that source_file and target_file are relative to.", on_change=FREE),
            "file_pattern": Param(PATH, None, "Accepted for old configs, but TFRecord files are not read: write them "
                                  "as text by scripts/records_to_text.py.", on_change=FREE),
            "source_file": Param(PATH, None, "Text file with one source sentence per line.", file=DATA),
            "target_file": Param(PATH, None, "Text file with one target sentence per line; not read in inference.",
                                 file=DATA),
            "num_cpu_cores": Param(int, 2, "Number of threads for tokenising, if the tokenizer supports threads.",
                                   "threads", minimum=1, maximum=1024, on_change=FREE),
            "pad_data_to_eight": Param(bool, False, "Whether to pad the length of a batch to a multiple of 8."),
            "batch_in_tokens": Param(bool, True, "Whether the batch size counts tokens of the longer side, padding "
                                     "included; if False, it counts sentences."),
        }

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        folder = params.get("data_dir") or ""
        files = {side: params[side] for side in ("source_file", "target_file") if isinstance(params.get(side), str)}
        return {**params, **{side: os.path.join(folder, path) for side, path in files.items() if path}}

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        if not params["source_file"] and self.mode != "interactive_infer":
            pattern = os.path.join(params["data_dir"] or "", params["file_pattern"] or "")
            if records := sorted(glob.glob(pattern)) if params["file_pattern"] else []:
                raise DataError(f"The files of '{params['file_pattern']}', such as {records[0]}, are TFRecord files, "
                                "which this layer does not read: write them as text by scripts/records_to_text.py, "
                                "and set source_file and target_file to the text files.")
            raise ConfigError([f"'{self.params_path}/source_file' is missing: name a text file with one source "
                               "sentence per line (file_pattern is ignored, because TFRecord files are not read)."])
        for side in ("source_file", "target_file"):
            if params["data_dir"] and params[side]:
                params[side] = os.path.join(params["data_dir"], params[side])
        return {
            **params,
            "tgt_vocab_file": params["tgt_vocab_file"] or params["src_vocab_file"],
            "batch_size_unit": "tokens" if params["batch_in_tokens"] else "sentences",
            "pad_lengths_to_eight": params["pad_data_to_eight"],
            "map_parallel_calls": params["num_cpu_cores"],
            "use_start_token": False,
            "use_targets": True,
        }

    @classmethod
    def _params_for_file(cls, path: str) -> dict[str, Any]:
        return {**super()._params_for_file(path), "data_dir": None, "file_pattern": None}

