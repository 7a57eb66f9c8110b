"""Data layers of text classification with the vocabulary of a language model: any table, SST, IMDB."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from open_seq2seq.config.files import DATA
from open_seq2seq.config.params import FREE, Param, without_effect
from open_seq2seq.data.lm.params import PATH, LMTextDataLayer, build_vocabulary, make_tokenizer, tokenizer_params
from open_seq2seq.data.lm.reviews import rating_of, read_review, review_files
from open_seq2seq.data.lm.tokenizers import LMVocabulary, Split
from open_seq2seq.data.text2label.labelled_text import LabelledTextDataLayer
from open_seq2seq.data.text2text.corpus import Layout
from open_seq2seq.data.text2text.token_table import TokenTable
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError

_SENTIMENT = ["negative", "positive"]


class TextClassificationDataLayer(LMTextDataLayer, LabelledTextDataLayer):
    """Labelled texts from a TSV or CSV file, tokenised with the vocabulary of a language model.

    Without a language model, training builds the vocabulary from its texts, and writes it to ``processed_data_folder``.

    A text becomes ``[<eos>] + tokens + [<eos>]``, without the first ``<eos>`` if ``use_start_token`` is False. The
    tokenizer ``words`` splits raw text into words and punctuation. A word that the vocabulary lacks is looked up again
    in lower case.
    """

    _splits_periods = True  # with ``normalize``, whether every period is a token

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"max_length": LabelledTextDataLayer.get_required_params()["max_length"]}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        inherited = LabelledTextDataLayer.get_optional_params()
        return {
            **{name: spec for name, spec in inherited.items()
               if name not in ("src_vocab_file", "special_tokens_already_in_vocab")},
            **tokenizer_params(),
            "text_file": Param(PATH, None, "TSV or CSV file with one text and its label per line.", file=DATA),
            "use_start_token": Param(bool, True, "Whether to put <eos> before each text, as before the text of a "
                                     "language model."),
            "truncate": Param(["end", "start"], "start", "Which end of a text longer than max_length is cut off."),
            **without_effect("rand_start", "small", "get_stats", "num_classes"),
        }

    def _missing(self) -> list[str]:
        return super()._missing() if self.params["text_file"] or self.mode == "interactive_infer" else [
            f"'{self.params_path}/text_file' is missing: name a TSV or CSV file with one text and its label per line."]

    def _make_tokenizer(self) -> Any:
        return make_tokenizer(self.params, self.params_path, self._build if self.mode == "train" else None, fit=True,
                              periods=self._splits_periods)

    def _build(self, split: Split) -> LMVocabulary:
        """Returns the vocabulary of the training texts."""
        rows, _ = self._checked_rows()
        texts = (" ".join(text.split("\n")) for _, (text, _) in rows)
        return build_vocabulary(self.params, map(split, texts), self._source_name)

    @property
    def _layout(self) -> Layout:
        layout = super()._layout
        return layout._replace(start=None if layout.start is None else self.end_id, end=self.end_id,
                               padding=self.end_id)

    def source_to_text(self, ids: Any) -> str:
        """Returns the text of ids ``[time]`` without special tokens."""
        return super().source_to_text(ids).replace("\n", " ").strip()


class _Corpus(TextClassificationDataLayer):
    """Base of data layers that read the files of one particular corpus or, if ``text_file`` is given, that file."""

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        inherited = TextClassificationDataLayer.get_optional_params()
        return {
            **{name: spec for name, spec in inherited.items() if name not in ("labels", "label_file")},
            "data_root": Param(PATH, None, "Folder of the corpus.", on_change=FREE),
        }

    def _missing(self) -> list[str]:
        source = self.params["data_root"] or self.params["text_file"] or self.mode == "interactive_infer"
        return [] if source else [f"'{self.params_path}/data_root' is missing: name the folder of the corpus."]

    @property
    def _source_name(self) -> str:
        return self.params["text_file"] or self.params["data_root"]

    def _read_labels(self) -> list[str]:
        return list(_SENTIMENT)

    def _read_rows(self) -> list[tuple[int, list[str]]]:
        if self.params["text_file"]:
            return super()._read_rows()
        return [(number, row) for number, row in enumerate(self._examples(), 1)]

    def _examples(self) -> Iterator[list[str]]:
        """Yields [text, label] for each example of this mode."""
        raise NotImplementedError("A corpus must implement _examples().")

    def _place(self, table: TokenTable, example: int, column: int = 0) -> str:
        if self.params["text_file"]:
            return super()._place(table, example, column)
        return f"Text {table.line_number(example)} of {self.params['data_root']} ({self.mode})"


class SSTDataLayer(_Corpus):
    """Stanford Sentiment Treebank, two classes: CSV or TSV files of label and sentence, or trees.

    ``data_root`` contains train, val (or valid, dev) and test, each as ``.csv`` or ``.tsv`` (columns ``label_column``
    and ``text_column``; labels 0 and 1) or ``.txt`` (trees in parentheses, whose labels 0 to 4 become negative and
    positive; neutral ones are left out). Labels of ``text_file`` may be 0 and 1, too, instead of the names.
    """

    _splits_periods = False  # because its texts are already divided into words

    _names = {"train": ("train",), "eval": ("val", "valid", "dev"), "infer": ("test", "val", "valid", "dev")}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **_Corpus.get_optional_params(),
            "binary": Param([True], True, "Whether there are two classes, negative and positive; must be True."),
            "phrases": Param(bool, False, "Whether training also uses the labelled phrases of each sentence; it then "
                             "reads trees, even if there are tables."),
        }

    @property
    def _wants_phrases(self) -> bool:
        return self.params["phrases"] and self.mode == "train"

    def _problems(self) -> list[str]:
        problems = super()._problems()
        if self._wants_phrases and self.params["text_file"]:
            problems.append(f"'{self.params_path}/phrases' needs the trees of data_root, but text_file is a table: "
                            "leave 'text_file' out, or set 'phrases' to False.")
        return problems

    def _examples(self) -> Iterator[list[str]]:
        path = self._file()
        if path.endswith(".txt"):
            yield from _of_trees(path, self._wants_phrases)
            return
        for number, (text, *labels) in self._table(path).rows():
            label = labels[0].strip() if labels else ""
            if labels and label not in ("0", "1", *_SENTIMENT):
                raise DataError(f"{shown(path)}:{number}: the label is '{label[:60]}', but must be 0 (negative) or 1 "
                                "(positive): correct the line, label_column or has_header.")
            yield [text, label]

    def _file(self) -> str:
        """Returns the path of the first file of this mode that exists."""
        root = self.params["data_root"]
        names = [name + ending for name in self._names[self.mode]
                 for ending in ((".txt",) if self._wants_phrases else (".csv", ".tsv", ".txt"))]
        existing = next((name for name in names if os.path.exists(os.path.join(root, name))), None)
        if existing is not None:
            return os.path.join(root, existing)
        if self._wants_phrases:
            raise DataError(f"{shown(root)} has no {names[0]} with trees, from which '{self.params_path}/phrases' "
                            "takes the phrases: add it, or set 'phrases' to False.")
        raise DataError(f"{shown(root)} has none of the files {', '.join(names)}: correct "
                        f"'{self.params_path}/data_root'.")

    def _read_rows(self) -> list[tuple[int, list[str]]]:
        return [(number, [text, *map(_named, labels)]) for number, (text, *labels) in super()._read_rows()]


def _named(label: str) -> str:
    """Returns the name of the class 0 or 1; returns other labels as they are."""
    return _SENTIMENT[int(label)] if label.strip() in ("0", "1") else label


def _of_trees(path: str, phrases: bool) -> Iterator[list[str]]:
    for number, line in enumerate(read_lines(path, "The file"), 1):
        if not line.strip():
            continue
        stack: list[tuple[int, list[str]]] = []
        sentences: list[tuple[int, list[str]]] = []
        try:
            for label, word, close in re.findall(r"\(([0-4])\s|([^\s()]+)|(\))", line):
                if sentences and not stack:
                    raise DataError(f"{shown(path)}:{number}: the line goes on after the end of a tree: write one tree "
                                    "per line.")
                if label:
                    stack.append((int(label), []))
                elif word:
                    stack[-1][1].append(word)
                elif close:
                    sentences.append(stack.pop())
                    if stack:
                        stack[-1][1].extend(sentences[-1][1])
        except IndexError:
            sentences = []
        if stack or not sentences:
            raise DataError(f"{shown(path)}:{number}: the line must be a tree such as (3 (2 It) (4 works)).")
        for label, words in sentences if phrases else sentences[-1:]:
            if label != 2:
                yield [" ".join(words), _SENTIMENT[label > 2]]


class IMDBDataLayer(_Corpus):
    """Movie reviews of the folder aclImdb: train/pos, train/neg, test/pos and test/neg with one file per review.

    Evaluation uses ``num_validation`` reviews of the training set, drawn with a fixed random seed. Training leaves out
    these reviews. Inference reads the test set.
    """

    needs_all_classes = False  # no review has a rating of 5 or 6

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **_Corpus.get_optional_params(),
            "binary": Param(bool, True, "Whether there are two classes, negative and positive, instead of the ratings "
                            "1 to 10."),
            "num_validation": Param(int, 1000, "Number of reviews of the training set that are used for evaluation "
                                    "and left out of training.",
                                    "reviews", minimum=1),
        }

    def _read_labels(self) -> list[str]:
        return list(_SENTIMENT) if self.params["binary"] else [str(rating) for rating in range(1, 11)]

    def _examples(self) -> Iterator[list[str]]:
        split = os.path.join(self.params["data_root"], "test" if self.mode == "infer" else "train")
        files = [(path, label) for folder, label in (("neg", "negative"), ("pos", "positive"))
                 for path in review_files(os.path.join(split, folder))]
        if self.mode != "infer":
            count = self.params["num_validation"]
            if count >= len(files):
                raise DataError(f"{shown(split)} has {len(files)} reviews, and num_validation reserves {count} for "
                                "evaluation, so none are left for training: lower num_validation.")
            order = np.random.default_rng(1).permutation(len(files))
            files = [files[i] for i in np.sort(order[:count] if self.mode == "eval" else order[count:])]
        for path, label in files:
            yield [read_review(path), label if self.params["binary"] else rating_of(path)]
