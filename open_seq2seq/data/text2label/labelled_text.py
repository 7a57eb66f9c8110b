"""The data layer for text classification: texts with one label each, from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, DATA
from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.tables import COLUMN, Table, column_problems, table_params
from open_seq2seq.data.text2text.corpus import TokenCorpus, corpus_of_lines
from open_seq2seq.data.text2text.counting import CountingDataLayer
from open_seq2seq.data.text2text.text_params import PATH, max_length_param, shared_params
from open_seq2seq.data.text2text.tokenizers import make_tokenizer, other_vocabulary
from open_seq2seq.data.text_remarks import unknown_remarks
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import ConfigError, DataError, did_you_mean
from open_seq2seq.utils.given_files import check_given, one_text
from open_seq2seq.utils.unicode_text import TextIds

_TEXT_PARAMS = ("src_vocab_file", "tokenizer", "delimiter", "special_tokens_already_in_vocab", "pad_vocab_to_eight",
                "map_parallel_calls", "prefetch_buffer_size")


class LabelledTextDataLayer(CountingDataLayer):
    """Texts with one label each, from a TSV or CSV file; by default, lines ``label<TAB>text``.

    A text becomes ``tokens + [EOS]``, preceded by the start token S if ``use_start_token`` is True. Longer texts are
    truncated to ``max_length``; in training, empty texts are dropped. A label becomes its index in ``labels`` or in
    the lines of ``label_file``. Inference does not read labels.

    A batch has ``source_tensors`` ``[ids [batch, time], lengths [batch]]`` and ``target_tensors`` ``[labels [batch]]``.

    Attributes:
      labels: names of the classes, in the order of their indices.
      needs_all_classes: whether training needs an example of each class.

    Raises:
      ConfigError: parameters are missing or contradict each other.
      DataError: a file cannot be read, a line has too few columns or an unknown label, a class has no training
        examples, or no examples are left.
    """

    length_limit = "max_length"
    needs_all_classes = True
    reads_lines = True

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self.labels = self._checked_labels()
        self._tokenizer = self._make_tokenizer()
        self._corpus: TokenCorpus | None = None
        self._num_empty = 0
        self._keeps = "end" if self.params["truncate"] == "start" else "beginning"
        if self.mode != "interactive_infer":
            self._load()

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "text_file": Param(str, doc="TSV or CSV file with one text and its label per line.", file=DATA),
            **max_length_param("text", "Longer texts are truncated."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        shared = shared_params()
        return {
            **DataLayer.get_optional_params(),
            **{name: shared[name] for name in _TEXT_PARAMS},
            **table_params(),
            "labels": Param((list, type(None)), None, "Names of the classes; alternatively, give label_file.",
                            on_change=REFUSE),
            "label_file": Param(PATH, None, "Text file with the name of one class per line.", file=ASSET,
                                on_change=REFUSE),
            "label_column": Param((*COLUMN, type(None)), 1, "Column of the label: its number, counted from 1, or its "
                                  "name in the first line. Not read in inference."),
            "text_column": Param((*COLUMN, type(None)), 2, "Column of the text: its number, counted from 1, or its "
                                 "name in the first line. None: each line is a text."),
            "truncate": Param(["end", "start"], "end", "Which end of a text longer than max_length is cut off."),
            "use_start_token": Param(bool, False, "Whether to put the start token before each text.",
                                     on_change=REFUSE),
        }

    def _param_problems(self) -> list[str]:
        """Returns a message for each invalid column or length."""
        params, path = self.params, self.params_path
        problems = column_problems(path, {name: params[name] for name in ("label_column", "text_column")})
        if params["max_length"] <= self.num_special:
            problems.append(f"'{path}/max_length' is {params['max_length']}, but must be at least "
                            f"{self.num_special + 1}, special tokens included.")
        if self._reads_labels and (params["text_column"] is None or params["label_column"] is None):
            problems.append(f"'{path}/text_column' and '{path}/label_column' must not be None in training and "
                            "evaluation: give the columns of the text and its label.")
        return problems

    def _checked_labels(self) -> list[str]:
        """Returns the names of the classes; raises ConfigError if they or other parameters are invalid."""
        params, path, problems = self.params, self.params_path, self._param_problems()
        if (params["labels"] is None) == (params["label_file"] is None):
            problems.append(f"'{path}' must have exactly one of 'labels', a list of the classes, and 'label_file', a "
                            "file with one class per line.")
        if problems:
            raise ConfigError(problems)
        where = f"'{path}/labels'"
        labels = params["labels"]
        if labels is None:
            where = shown(params["label_file"])
            labels = [line.strip() for line in read_lines(params["label_file"], "The label file") if line.strip()]
        labels = [str(label) for label in labels]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ConfigError([f"{where} has the class '{twice}' more than once: remove the duplicate."])
        if len(labels) < 2:
            raise ConfigError([f"{where} must name at least two classes, but names {len(labels)}."])
        return labels

    @property
    def _source_name(self) -> str:
        """The file or folder of the examples, for messages."""
        return self.params["text_file"]

    def _make_tokenizer(self) -> Any:
        return make_tokenizer(self.params, self.params_path)

    @property
    def _reads_labels(self) -> bool:
        return self.mode in ("train", "eval")

    @property
    def num_special(self) -> int:
        """Number of special tokens in each text: EOS, and S if ``use_start_token`` is True."""
        return 1 + int(self.params["use_start_token"])

    @property
    def _max_tokens(self) -> int:
        return self.params["max_length"] - self.num_special

    def _read_rows(self) -> list[tuple[int, list[str]]]:
        """Returns (line number from 1, [text, label] or, in inference, [text]) for each example."""
        params = self.params
        if params["text_column"] is None:
            return [(number, [line]) for number, line in enumerate(read_lines(params["text_file"], "The file"), 1)]
        columns = [params["text_column"], params["label_column"]][:2 if self._reads_labels else 1]
        return list(Table(params["text_file"], columns, params["format"], params["has_header"]).rows())

    def _load(self) -> None:
        _ = self.fingerprints  # computed before the file is read, to detect later changes
        numbers, texts, labels = self._read()
        self._select(corpus_of_lines(texts, self._tokenizer), numbers, labels)

    def _read(self) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Returns the line numbers ``[examples]``, the texts without line breaks, and the labels ``[examples]``.

        In inference, there are no labels.

        Raises:
          DataError: there are no examples, or a label is unknown.
        """
        rows = self._read_rows()
        if not rows:
            raise DataError(f"{shown(self._source_name)} contains no examples: correct the path, or add texts.")
        texts = [row[0].replace("\n", " ") for _, row in rows]
        labels = self._numbered([(number, row[1]) for number, row in rows] if self._reads_labels else [])
        return np.array([number for number, _ in rows], np.int32), texts, labels

    def _numbered(self, rows: list[tuple[int, str]]) -> np.ndarray:
        known = TextIds({label: number for number, label in enumerate(self.labels)}, -1)
        file = shown(self._source_name)
        for line, label in rows:
            if known[label.strip()] < 0:
                raise DataError(f"{file}:{line}: the label {label.strip()[:60]!r} is not one of the classes "
                                f"{', '.join(self.labels)[:200]}: correct the line, label_column, or the classes in "
                                f"'{self.params_path}'.{did_you_mean(label.strip(), self.labels)}")
        return np.array([known[label.strip()] for _, label in rows], np.int32)

    def _select(self, corpus: TokenCorpus, lines: np.ndarray, labels: np.ndarray) -> None:
        """Drops empty texts from training, and checks that each class has examples."""
        counts = corpus.counts
        self._rows = np.arange(len(counts)) if self.mode != "train" else np.flatnonzero(counts)
        self._num_empty = len(counts) - len(self._rows)
        self._cut = np.flatnonzero(counts[self._rows] > self._max_tokens)
        self._num_empty_sources = int((counts == 0).sum())
        file = shown(self._source_name)
        if not len(self._rows):
            raise DataError(f"All {len(counts)} texts of {file} are empty.")
        self._corpus, self._lines = corpus, lines[self._rows]
        if self._reads_labels:
            self._numbers = labels[self._rows]
            found = np.bincount(self._numbers, minlength=len(self.labels))
            if self.mode == "train" and self.needs_all_classes and not found.all():
                missing = self.labels[int(found.argmin())]
                raise DataError(f"{file} has no example of the class '{missing}', which therefore cannot be learned: "
                                f"add examples, or remove the class in '{self.params_path}'.")
        lengths = np.minimum(counts[self._rows], self._max_tokens) + self.num_special
        self._lengths = lengths.astype(np.int32)

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of ids ``[num_examples]``, special tokens included."""
        if self._corpus is None:
            raise DataError("Interactive inference has no data set: pass texts to make_interactive_batch.")
        return self._lengths

    @property
    def source_vocab_size(self) -> int:
        """Size of the vocabulary."""
        return self._tokenizer.vocab_size

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.labels)

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        assert self._corpus is not None
        batch = {"source_tensors": self._padded(self._corpus, self._rows[examples]),
                 "ids": np.asarray(examples, np.int64)}
        return {**batch, "target_tensors": [self._numbers[examples]]} if self._reads_labels else batch

    def _padded(self, corpus: TokenCorpus, rows: np.ndarray) -> list[np.ndarray]:
        return list(corpus.padded(rows, self._max_tokens, self.params["use_start_token"],
                                  keep_end=self.params["truncate"] == "start"))

    def make_interactive_batch(self, inputs: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of texts, truncated to ``max_length``.

        Raises:
          DataError: there are no texts, or one is not a string.
        """
        corpus = self._typed(inputs)
        self._note_typed(corpus.counts, self._max_tokens)
        rows = np.arange(len(corpus))
        return {"source_tensors": self._padded(corpus, rows), "ids": rows}

    def interactive_lengths(self, inputs: Sequence[str]) -> np.ndarray:
        return np.minimum(self._typed(inputs).counts, self._max_tokens) + self.num_special

    def _typed(self, inputs: Sequence[str]) -> TokenCorpus:
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        if not texts or not all(isinstance(text, str) for text in texts):
            raise DataError("The input of interactive inference must be a non-empty list of strings.")
        return corpus_of_lines([" ".join(text.split("\n")) for text in texts], self._tokenizer)

    @property
    def fields(self) -> dict[str, Any]:
        source = [Field(tf.int32, (None, None), time=1, lengths=1), Field(tf.int32, (None,))]
        fields: dict[str, Any] = {"source_tensors": source, "ids": Field(tf.int64, (None,))}
        return {**fields, "target_tensors": [Field(tf.int32, (None,))]} if self._reads_labels else fields

    def describe_example(self, example: int) -> str:
        return f"{shown(self.params['text_file'])}:{int(self._lines[example])}"

    def source_to_text(self, ids: Any) -> str:
        """Returns the text of ids ``[time]`` up to EOS, without special tokens."""
        return self._tokenizer.decode(ids)

    def remarks(self) -> list[str]:
        """Returns the share of unknown tokens in the texts, if there are any."""
        if self._corpus is None:
            return []
        return unknown_remarks(self._corpus, len(self._corpus.tokens), self._tokenizer, self._other_vocabulary(),
                               self._source_name)

    def _other_vocabulary(self) -> str:
        return other_vocabulary(self.params, "source")

    def report_dropped(self) -> dict[str, int]:
        """Returns the number of training texts that were dropped because they are empty."""
        return {"an empty text": self._num_empty} if self._num_empty else {}

    def examine(self) -> list[str]:
        """Returns the number of examples of each class; the examples were checked when they were read."""
        if not self._reads_labels:
            return []
        found = np.bincount(self._numbers, minlength=len(self.labels))
        return [f"{label}: {count:,} examples" for label, count in zip(self.labels, found, strict=True)]

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the given text files in order, one text per line.

        Raises:
          UserError: a file does not exist or is a folder, or stdin is empty or a device.
          DataError: one of several files is empty or not UTF-8.
        """
        check_given(files)
        return {"text_file": one_text(files), "text_column": None, "has_header": False}
