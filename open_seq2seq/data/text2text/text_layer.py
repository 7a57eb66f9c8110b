"""Base class of the data layers of text: files and typed lines become tables of tokens, from which batches are made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, DATA
from open_seq2seq.config.params import FREE, REFUSE, CheckedParams, Param, with_change
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.text2text.corpus import Layout, TokenCorpus, load_corpus
from open_seq2seq.data.text2text.graph_tokenizers import whole_texts
from open_seq2seq.data.text2text.token_table import Column, MixedTables, TokenTable
from open_seq2seq.data.text_remarks import column_remarks
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.given_files import check_given, one_text

PATH = (str, type(None))


def max_length_param(what: str = "sentence", longer: str = "Training drops pairs with a longer sentence; evaluation "
                     "and inference truncate it.") -> dict[str, Any]:
    """Returns the parameter ``max_length``, which every layer of text requires.

    Args:
      what: what an example is called in the description.
      longer: sentence of the description that says what happens to longer examples.
    """
    return {"max_length": Param(int, doc=f"Maximum length of a {what}, special tokens included. {longer}",
                                unit="tokens", minimum=1, maximum=10**6)}


def shared_params() -> dict[str, Any]:
    """Returns the optional parameters that all text-to-text layers share."""
    return {
        "src_vocab_file": Param(PATH, None, "Source vocabulary, one token per line; not used with SentencePiece.",
                                file=ASSET),
        "tgt_vocab_file": Param(PATH, None, "Target vocabulary, one token per line; not used with SentencePiece.",
                                file=ASSET),
        "tokenizer": Param((dict, type(None)), None, "Tokenizer: {'type': 'delimiter'} (the default) for tokenised "
                           "text; {'type': 'sentencepiece', 'model': path} for raw text, with source_model and "
                           "target_model instead of model if the two sides have different models.",
                           file={"model": ASSET, "source_model": ASSET, "target_model": ASSET}, on_change=REFUSE),
        "delimiter": Param(str, " ", "Separator of tokens in a line.", on_change=REFUSE),
        "detokenize": Param(bool, False, "With the tokenizer delimiter: whether to join tokens that are SentencePiece "
                            "pieces to plain text in results.", on_change=FREE),
        "special_tokens_already_in_vocab": Param(bool, True, "Whether vocabulary files begin with PAD, EOS, S and UNK; "
                                                 "if False, these tokens are added as ids 0 to 3.", on_change=REFUSE),
        "pad_vocab_to_eight": Param(bool, False, "Whether to round vocabulary sizes up to a multiple of 8."),
        "index_dir": Param(PATH, None, "Folder for indexes of tokenised text. By default, the index of a large file is "
                           "in .os2s_index beside the file, or in the user's cache folder if that is not writable; "
                           "small files have no index.", on_change=FREE),
        "map_parallel_calls": Param(int, 8, "Number of threads for tokenising, if the tokenizer supports threads.",
                                    "threads", minimum=1, maximum=1024, on_change=FREE),
        "prefetch_buffer_size": Param((int, type(None)), None, "Number of batches to make in advance; 8 if None or not "
                                      "positive.", "batches", maximum=10**4,
                                      on_change=FREE),
    }


def given_target_params() -> dict[str, Any]:
    """Returns the parameters that name texts of the target side for inference."""
    return with_change(FREE, {
        "prefix_file": Param(PATH, None, "For inference: text file with the beginning of each translation, one line "
                             "for each source sentence; an empty line prescribes no beginning.", file=DATA),
        "prefix_column": Param(bool, False, "For inference: whether each line of source_file may have a second column, "
                               "after a tab, with the beginning of the translation."),
        "score_file": Param(PATH, None, "For inference: text file with a translation of each source sentence. "
                            "Inference then computes the log probabilities of these translations and does not "
                            "translate.", file=DATA),
    })


class TextDataLayer(DataLayer):
    """Base class of data layers of text, whose examples are rows of token columns (see ``token_table``).

    A subclass makes its tokenizers in ``_prepare``, and defines the columns and, if necessary, their layout. In
    training, lines with an empty text or, unless ``_cuts_in_training`` or the parameter ``cut_long``, a text that is
    too long are left out; evaluation and inference keep all lines and cut texts that are too long.

    Attributes:
      newest_cut: indices of the inputs that were cut in the newest batch of interactive inference.
    """

    length_limit: str | None = "max_length"
    reads_lines = True
    newest_cut = np.zeros(0, np.int64)
    _data: MixedTables | None = None  # the examples; None in interactive inference
    _tables: Sequence[TokenTable] = ()
    _num_empty_typed = 0
    _is_labelled = False  # whether training and evaluation have labels
    _cuts_in_training = False
    _least_tokens = 1  # for which max_length must leave room
    _empty_example = "an empty side"  # why an example is left out

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self._params = CheckedParams(self._completed(dict(self._params)), self.params_path)
        problems = self._problems()
        if problems:
            raise ConfigError(problems)
        self._prepare()
        if self.mode != "interactive_infer":
            self._load()

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters after deriving some from others."""
        return params

    def _problems(self) -> list[str]:
        """Returns one sentence for each parameter that is missing or contradicts others."""
        length, least = self.params["max_length"], self.num_special + self._least_tokens
        return [*([] if length >= least else [
            f"'{self.params_path}/max_length' is {length}, but must be at least {least}, special tokens included."]),
            *self._missing()]

    def _missing(self) -> list[str]:
        """Returns one sentence for each parameter that this mode needs but that is missing."""
        return []

    def _prepare(self) -> None:
        """Makes the tokenizers, after the parameters have been checked."""
        raise NotImplementedError("A data layer of text must define _prepare.")

    @property
    def num_special(self) -> int:
        """Number of special tokens in each text; a text of this length is empty."""
        return 1 + int(self.params["use_start_token"])

    @property
    def _layout(self) -> Layout:
        """How texts are laid out in batches."""
        layout = Layout(self.params["max_length"] - self.num_special)
        return layout if self.params["use_start_token"] else layout._replace(start=None)

    def _columns(self) -> list[Column]:
        """Returns the columns that this mode reads, sources first."""
        raise NotImplementedError("A data layer of text must define _columns.")

    @property
    def _has_labels(self) -> bool:
        """Whether the tables have labels."""
        return self._is_labelled and self._has_targets

    def _index_dir(self, path: str) -> str | None:
        """Returns the folder for the index of a file; None for the usual one."""
        return None

    def _load(self, thorough: bool = False) -> None:
        """Reads the examples; ``thorough`` verifies the indexes of large files."""
        _ = self.fingerprints  # computed before the files are read, to detect later changes
        self._tables = tuple(self._read(thorough))
        for table in self._tables:
            if not len(table):
                raise DataError(self._nothing_left(table))
        self._data = MixedTables(self._tables, self._repetitions([len(table) for table in self._tables]))

    def _read(self, thorough: bool) -> list[TokenTable]:
        """Returns the tables of this mode."""
        return [self._table_of_files(self._columns(), thorough)]

    def _table_of_files(self, columns: list[Column], thorough: bool, **options: Any) -> TokenTable:
        corpora = [self._corpus(column, thorough) for column in columns]
        self._check_corpora(columns, corpora)
        return TokenTable(columns, corpora, self._layout, **self._selection, **options)

    def _table_of_rows(self, rows: Sequence[tuple[int, Sequence[str]]], path: str, **options: Any) -> TokenTable:
        """Returns the table of rows (line number, text of each column) that were read from a file."""
        numbers = np.array([number for number, _ in rows], np.int32)
        return TokenTable.of_texts(self._columns(), [texts for _, texts in rows], self._layout, path, self._threads,
                                   line_numbers=numbers, **self._selection, **options)

    def _corpus(self, column: Column, thorough: bool) -> TokenCorpus:
        """Reads the file of a column."""
        return load_corpus(column.path, column, self._index_dir(column.path), self._threads, thorough)

    @property
    def _threads(self) -> int:
        """Number of threads for tokenising."""
        return max(1, min(self.params["map_parallel_calls"], os.cpu_count() or 1))

    @property
    def _selection(self) -> dict[str, Any]:
        """Says which lines of a table are left out."""
        training = self.mode == "train"
        cuts = self._cuts_in_training or self.params.get("cut_long", False)
        return {"drop_empty": training, "drop_long": training and not cuts}

    def _check_corpora(self, columns: Sequence[Column], corpora: Sequence[TokenCorpus]) -> None:
        """Raises DataError if the texts of the columns do not fit together."""

    def _nothing_left(self, table: TokenTable) -> str:
        """Returns the error message for a table without examples."""
        raise NotImplementedError("A data layer that leaves out lines must define _nothing_left.")

    def _repetitions(self, sizes: Sequence[int]) -> list[int]:
        """Returns how often an epoch reads each table, given their numbers of examples."""
        return [1] * len(sizes)

    @property
    def _loaded(self) -> MixedTables:
        if self._data is None:
            raise DataError("Interactive inference has no data set: pass texts to make_interactive_batch.")
        return self._data

    def _located(self, example: int) -> tuple[TokenTable, int]:
        """Returns the table of an example, and the example's number in it."""
        numbers, inside = self._loaded.locate(np.array([example]))
        return self._loaded.tables[int(numbers[0])], int(inside[0])

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of ids, special tokens included: ``[num_examples]``, or ``[num_examples, columns]`` for several.

        The columns are the sources, then the target, prefix or translation to score. If batches are padded to multiples
        of some length, the lengths are rounded up to multiples, too.
        """
        return self._loaded.lengths

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        return self._loaded.batch(examples)

    def make_interactive_batch(self, inputs: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of texts, cut to the maximum length.

        Several sources, or a source and the beginning of its target, are separated by tabs.

        Raises:
          DataError: there are no texts, one is not a string, or one does not have the fields that the layer needs.
        """
        table = self._noted(self._typed(inputs))
        return table.batch(np.arange(len(table)))

    def graph_batch(self, texts: tf.Tensor, tokenizer: Any) -> list[tf.Tensor]:
        """Returns the ``source_tensors`` of ``make_interactive_batch`` as operations, for exported models.

        Args:
          texts: ``[batch]`` strings.
          tokenizer: the graph form of the tokenizer of the sources; see ``graph_tokenizers``.
        """
        layout, rows = self._layout, tf.shape(texts)[0]
        ids = tokenizer.ids_of(whole_texts(texts))
        ids = ids[:, -layout.max_tokens:] if layout.keep_end else ids[:, :layout.max_tokens]
        parts = [None if end is None else tf.fill([rows, 1], end) for end in (layout.start, layout.end)]
        ids = tf.concat([part for part in (parts[0], ids, parts[1]) if part is not None], 1)
        return [ids.to_tensor(layout.padding), tf.cast(ids.row_lengths(), tf.int32)]

    def interactive_examples(self, count: int) -> list[Any]:
        columns = [number for number, column in enumerate(self._tables[0].columns) if column.side == "source"]
        places = [self._located(example) for example in range(min(count, self.num_examples))]
        return ["\t".join(table.text(column, inside) for column in columns) for table, inside in places]

    def interactive_lengths(self, inputs: Sequence[str]) -> np.ndarray:
        table = self._typed(inputs)
        counts = [corpus.counts for column, corpus in zip(table.columns, table.corpora, strict=True)
                  if column.side == "source"]
        return self._layout.lengths(np.max(counts, axis=0))

    def _typed(self, inputs: Sequence[str]) -> TokenTable:
        """Returns the table of lines that a user typed."""
        lines = [inputs] if isinstance(inputs, str) else list(inputs)
        if not lines or not all(isinstance(line, str) for line in lines):
            raise DataError("The input of interactive inference must be a non-empty list of strings.")
        columns = [column for column in self._columns() if column.side == "source" or column.field is not None]
        table = TokenTable.of_texts(columns, self._rows_of(lines, len(columns)), self._layout)
        self._check_corpora(table.columns, table.corpora)
        return table

    def _rows_of(self, lines: Sequence[str], columns: int) -> list[list[str]]:
        """Returns the lines of each column for each line that a user typed."""
        return [[line] * columns for line in lines]

    def _noted(self, table: TokenTable) -> TokenTable:
        """Returns a table of typed lines, after noting which of them are empty or cut."""
        self._num_empty_typed += table.num_empty_sources
        self.newest_cut = table.cut
        return table

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"source_tensors": [], "ids": Field(tf.int64, (None,))}
        for column in self._columns():
            side = fields.setdefault(f"{column.side}_tensors", [])
            side += [Field(tf.int32, (None, None), time=1, lengths=len(side) + 1), Field(tf.int32, (None,))]
        if self._has_labels:
            fields.setdefault("target_tensors", []).append(Field(tf.int32, (None,)))
        return fields

    def describe_example(self, example: int) -> str:
        return self._place(*self._located(example))

    def _place(self, table: TokenTable, example: int, column: int = 0) -> str:
        return f"{shown(table.corpora[column].path)}:{table.line_number(example)}"

    @property
    def num_empty_sources(self) -> int:
        """Number of lines without a source token, those passed to interactive inference so far included."""
        return sum(table.num_empty_sources for table in self._tables) + self._num_empty_typed

    def cut_remark(self) -> str:
        """Returns a line for each table about the examples that are cut, with the first of them; "" for none."""
        layout, lines = self._layout, []
        for table in (table for table in self._tables if len(table.cut)):
            example = int(table.cut[0])
            line = table.line(example)
            column = next(number for number, corpus in enumerate(table.corpora)
                          if corpus.counts[line] > layout.max_tokens)
            lines.append(f"Longer than max_length {self.params['max_length']}, so only the "
                         f"{'end' if layout.keep_end else 'beginning'} is read: {len(table.cut):,} of {len(table):,} "
                         f"lines, the first is {self._place(table, example, column)}")
        return "\n".join(lines)

    def examine(self) -> list[str]:
        """Verifies the indexes of all files and compares them with the texts; rebuilds those that differ."""
        self._load(thorough=True)
        return list(dict.fromkeys(f"the index of {corpus.path} was compared with the whole text"
                                  for table in self._tables for corpus in table.corpora if corpus.is_indexed))

    def remarks(self) -> list[str]:
        """Returns lines about how the texts and their vocabularies fit."""
        sides = ("source", "target") if self.params.get("use_targets", True) else ("source",)
        return [line for table in self._tables for column, corpus in zip(table.columns, table.corpora, strict=True)
                if column.side in sides for line in column_remarks(corpus, column, self._remedy(column))]

    def _remedy(self, column: Column) -> str:
        """Returns what to do if the vocabulary of a column does not fit its text."""
        name = {"source": "src_vocab_file", "target": "tgt_vocab_file"}[column.side]
        return f"correct {name}, or change the text as that of {name}"

    def report_dropped(self) -> dict[str, int]:
        """Returns the number of training examples that were left out of each table, for each reason."""
        reasons = {f"{reason}{f' ({table.name})' if table.name else ''}": count for table in self._tables
                   for reason, count in ((self._empty_example, table.num_empty),
                                         (f"longer than max_length {self.params.get('max_length')}", table.num_long))}
        return {reason: count for reason, count in reasons.items() if count}

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the given text files in order, one text per line.

        Raises:
          UserError: a file does not exist or is a folder, or stdin is empty or a device.
          DataError: one of several files is empty or not UTF-8.
        """
        check_given(files)
        return cls._params_for_file(one_text(files))

    @classmethod
    def _params_for_file(cls, path: str) -> dict[str, Any]:
        raise NotImplementedError("A data layer of text must define _params_for_file.")
