"""The data layer for text classification: texts with one label each, from a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from open_seq2seq.config.files import ASSET, DATA
from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.tables import COLUMN, Table, column_problems, table_params
from open_seq2seq.data.text2text.corpus import Layout
from open_seq2seq.data.text2text.text_layer import PATH, TextDataLayer, max_length_param, shared_params
from open_seq2seq.data.text2text.token_table import Column, TokenTable
from open_seq2seq.data.text2text.tokenizers import make_tokenizers
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import ConfigError, DataError, did_you_mean
from open_seq2seq.utils.unicode_text import TextIds

_TEXT_PARAMS = ("src_vocab_file", "tokenizer", "delimiter", "special_tokens_already_in_vocab", "pad_vocab_to_eight",
                "map_parallel_calls", "prefetch_buffer_size")


class LabelledTextDataLayer(TextDataLayer):
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

    needs_all_classes = True
    _is_labelled = True
    _cuts_in_training = True
    _empty_example = "an empty text"

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

    def _problems(self) -> list[str]:
        params, path, problems = self.params, self.params_path, super()._problems()
        problems += column_problems(path, {name: params[name] for name in ("label_column", "text_column")})
        if self._has_labels and (params["text_column"] is None or params["label_column"] is None):
            problems.append(f"'{path}/text_column' and '{path}/label_column' must not be None in training and "
                            "evaluation: give the columns of the text and its label.")
        return problems

    def _missing(self) -> list[str]:
        return [] if (self.params["labels"] is None) != (self.params["label_file"] is None) else [
            f"'{self.params_path}' must have exactly one of 'labels', a list of the classes, and 'label_file', a file "
            "with one class per line."]

    def _prepare(self) -> None:
        self.labels = self._read_labels()
        self.tokenizer = self._make_tokenizer()

    def _read_labels(self) -> list[str]:
        """Returns the names of the classes.

        Raises:
          ConfigError: a class occurs twice, or there are fewer than two.
        """
        labels, where = self.params["labels"], f"'{self.params_path}/labels'"
        if labels is None:
            where = shown(self.params["label_file"])
            labels = [line.strip() for line in read_lines(self.params["label_file"], "The label file") if line.strip()]
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
        return make_tokenizers(self.params, self.params_path, ["source"])[0]

    @property
    def _layout(self) -> Layout:
        return super()._layout._replace(keep_end=self.params["truncate"] == "start")

    def _columns(self) -> list[Column]:
        return [Column("source", self.tokenizer)]

    def _read_rows(self) -> list[tuple[int, list[str]]]:
        """Returns (line number from 1, [text, label] or, in inference, [text]) for each example."""
        return list(self._table(self.params["text_file"]).rows())

    def _table(self, path: str) -> Table:
        """Returns a table of texts and labels; in inference, only texts are read."""
        params = self.params
        return Table(path, [params["text_column"], params["label_column"]], params["format"], params["has_header"],
                     2 if self._has_labels else 1)

    def _load(self, thorough: bool = False) -> None:
        super()._load(thorough)
        counts = self._class_counts()
        if self.mode == "train" and self.needs_all_classes and not counts.all():
            missing = self.labels[int(counts.argmin())]
            raise DataError(f"{shown(self._source_name)} has no example of the class '{missing}', which therefore "
                            f"cannot be learned: add examples, or remove the class in '{self.params_path}'.")

    def _class_counts(self) -> np.ndarray:
        labels = self._tables[0].labels
        return np.bincount([] if labels is None else labels, minlength=len(self.labels))

    def _read(self, thorough: bool) -> list[TokenTable]:
        rows, labels = self._checked_rows()
        return [self._table_of_rows(rows, self._source_name, labels=labels)]

    def _checked_rows(self) -> tuple[list[tuple[int, list[str]]], np.ndarray | None]:
        """Returns the rows, and the index of the label of each ``[rows]``; in inference, None.

        Raises:
          DataError: there are no rows, or a label is unknown.
        """
        rows, file = self._read_rows(), shown(self._source_name)
        if not rows:
            raise DataError(f"{file} contains no examples: correct the path, or add texts.")
        if not self._has_labels:
            return rows, None
        label_ids = TextIds({label: number for number, label in enumerate(self.labels)}, -1)
        for line, (_, label) in rows:
            if label_ids[label.strip()] < 0:
                raise DataError(f"{file}:{line}: the label {label.strip()[:60]!r} is not one of the classes "
                                f"{', '.join(self.labels)[:200]}: correct the line, label_column, or the classes in "
                                f"'{self.params_path}'.{did_you_mean(label.strip(), self.labels)}")
        return rows, np.array([label_ids[label.strip()] for _, (_, label) in rows], np.int32)

    def _nothing_left(self, table: TokenTable) -> str:
        return f"All {table.num_empty} texts of {shown(self._source_name)} are empty."

    @property
    def source_vocab_size(self) -> int:
        """Size of the vocabulary."""
        return self.tokenizer.vocab_size

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.labels)

    def source_to_text(self, ids: Any) -> str:
        """Returns the text of ids ``[time]`` up to EOS, without special tokens."""
        return self.tokenizer.decode(ids)

    def examine(self) -> list[str]:
        """Returns the number of examples of each class; the examples were checked when they were read."""
        rows = zip(self.labels, self._class_counts(), strict=True) if self._has_labels else ()
        return [f"{label}: {count:,} examples" for label, count in rows]

    @classmethod
    def _params_for_file(cls, path: str) -> dict[str, Any]:
        return {"text_file": path, "text_column": None, "has_header": False}
