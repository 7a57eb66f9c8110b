"""The data layer for parallel text: a source file and a target file whose lines correspond."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import DATA
from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.text2text.corpus import INDEX_FROM_BYTES, TokenCorpus, corpus_of_lines, load_corpus
from open_seq2seq.data.text2text.counting import CountingDataLayer
from open_seq2seq.data.text2text.given_targets import (
    ColumnTokenizer,
    check_given_targets,
    column_of,
    given_target_params,
    given_target_problems,
    load_given_targets,
    prefixes,
)
from open_seq2seq.data.text2text.side_remarks import Side, side_remarks
from open_seq2seq.data.text2text.text_params import PATH, max_length_param, shared_params
from open_seq2seq.data.text2text.tokenizers import make_tokenizers
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.disk import process_folder
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.given_files import check_given, one_text

__all__ = ["ParallelTextDataLayer", "SpecialTextTokens"]


class ParallelTextDataLayer(CountingDataLayer):
    """Sentence pairs from two text files with one sentence per line.

    A sentence becomes ``[S] + tokens + [EOS]``, without S if ``use_start_token`` is False. In training, pairs are
    dropped if a side is empty or has more than ``max_length`` ids. In evaluation and inference, no pair is dropped:
    longer sentences are truncated, and empty ones become special tokens only, for which models return empty results.
    Inference needs no target file.

    Lengths in a batch include special tokens, but not padding. Shuffling permutes the whole data set, without a buffer
    (see ``data.batching``).

    Raises:
      ConfigError: parameters are missing or contradict each other.
      DataError: a file is missing, empty or not UTF-8, the files' numbers of lines differ, or no examples are left.
    """

    length_limit = "max_length"
    parallel_files: Sequence[str] = ("source_file", "target_file")
    reads_lines = True

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self._params = MappingProxyType(self._completed(dict(self._params)))
        self._check()
        self._source_tokenizer, self._target_tokenizer = make_tokenizers(self.params, self.params_path)
        self._source: TokenCorpus | None = None
        self._target: TokenCorpus | None = None
        self._prefix: TokenCorpus | None = None
        self._newest_lines: list[str] = []
        if self.mode != "interactive_infer":
            self._load()

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
            "pad_lengths_to_eight": Param(bool, False, "Whether to pad the length of a batch to a multiple of 8."),
            "shuffle_buffer_size": Param(int, -1, "Ignored; accepted so that old configs load. The whole data set is "
                                         "shuffled, without a buffer.", "examples", on_change=FREE),
            "use_start_token": Param(bool, True, "Whether to put the start token before each sentence.",
                                     on_change=REFUSE),
        }

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return params if params.get("use_targets", True) else {**params, "target_file": None}

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters after deriving some from others; for subclasses to override."""
        return params

    def _check(self) -> None:
        params, path, problems = self.params, self.params_path, []
        if params["max_length"] < 2 + self.num_special:
            problems.append(f"'{path}/max_length' is {params['max_length']}, but must be at least "
                            f"{2 + self.num_special}, special tokens included.")
        if params["pad_lengths_to_eight"] and params["max_length"] % 8:
            problems.append(f"'{path}/max_length' is {params['max_length']}, but must be a multiple of 8, because "
                            "lengths are padded to multiples of 8.")
        if self._reads_targets and not params["target_file"]:
            problems.append(f"'{path}/target_file' is missing: name the text file with the target sentences, or set "
                            "use_targets to False.")
        problems += given_target_problems(params, path)
        if problems:
            raise ConfigError(problems)

    @property
    def _reads_targets(self) -> bool:
        return self.params["use_targets"] and self.mode in ("train", "eval")

    @property
    def num_special(self) -> int:
        """Number of special tokens in each sentence; a source sentence of this length is empty."""
        return 1 + int(self.params["use_start_token"])

    @property
    def _max_tokens(self) -> int:
        return self.params["max_length"] - self.num_special

    def _load(self, thorough: bool = False) -> None:
        params, _ = self.params, self.fingerprints  # computed before the files are read, to detect later changes
        threads = max(1, min(params["map_parallel_calls"], os.cpu_count() or 1))
        how = params["index_dir"], threads, thorough
        self._source = load_corpus(params["source_file"], self._of_column(self._source_tokenizer, 0), *how)
        if self.mode == "infer":
            self._target, self._prefix = load_given_targets(
                params, self._source, self._target_tokenizer, self._max_tokens, how)
        elif self._reads_targets:
            self._target = load_corpus(params["target_file"], self._target_tokenizer, *how)
        else:
            self._target = self._source
        if self._target is not None and len(self._source) != len(self._target):
            raise DataError(f"{params['source_file']} has {len(self._source)} lines, but {params['target_file']} has "
                            f"{len(self._target)}: line n of one file must be the translation of line n of the other.")
        sides = [corpus for corpus in (self._source, self._target, self._prefix) if corpus is not None]
        self._select(np.stack([corpus.counts for corpus in sides], axis=1))

    @property
    def _has_prefix_column(self) -> bool:
        return self.params["prefix_column"] and self.mode in ("infer", "interactive_infer")

    def _of_column(self, tokenizer: Any, column: int) -> Any:
        return ColumnTokenizer(tokenizer, column) if self._has_prefix_column else tokenizer

    def _select(self, counts: np.ndarray) -> None:
        """Chooses the lines that are examples (all, except in training), and computes the examples' lengths.

        Args:
          counts: number of tokens in each line ``[lines, sides]``, without special tokens.
        """
        empty, long = counts.min(axis=1) == 0, counts.max(axis=1) > self._max_tokens
        self._cut = np.flatnonzero(long if self.mode != "train" else ())
        self._num_empty_sources = int((counts[:, 0] == 0).sum())
        self._num_empty = self._num_long = 0
        # Line number (from 0) of each example; None if all lines are examples.
        self._lines: np.ndarray | None = None
        if self.mode == "train":
            self._num_empty, self._num_long = int(empty.sum()), int((long & ~empty).sum())
            if self._num_empty or self._num_long:
                keep = ~(empty | long)
                self._lines, counts = np.flatnonzero(keep).astype(np.int32), counts[keep]
        if not len(counts):
            raise DataError(f"All {self._num_empty + self._num_long} sentence pairs of {self.params['source_file']} "
                            f"were dropped: {self._num_empty} have an empty side, {self._num_long} are longer than "
                            f"max_length {self.params['max_length']}.")
        lengths = np.minimum(counts, self._max_tokens) + np.int32(self.num_special)
        lengths = -(-lengths // self._multiple) * self._multiple
        self._lengths = lengths[:, 0] if lengths.shape[1] == 1 else lengths

    @property
    def _multiple(self) -> int:
        return 8 if self.params["pad_lengths_to_eight"] else 1

    def _corpus(self) -> TokenCorpus:
        if self._source is None:
            raise DataError("Interactive inference has no data set: pass sentences to make_interactive_batch.")
        return self._source

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of ids of source and target ``[num_examples, 2]``, special tokens included.

        In inference, prefixes or translations to score take the place of targets; without them, the shape is
        ``[num_examples]``. With ``pad_lengths_to_eight``, lengths are rounded up to multiples of 8.
        """
        self._corpus()
        return self._lengths

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

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        corpus = self._corpus()
        lines = examples if self._lines is None else self._lines[examples]
        batch = {"source_tensors": self._side(corpus, lines),
                 "ids": np.asarray(examples, np.int64)}
        if self._target is not None:
            batch["target_tensors"] = self._side(self._target, lines)
        if self._prefix is not None:
            batch["prefix_tensors"] = prefixes(self._prefix, lines)
        return batch

    def _side(self, corpus: TokenCorpus, lines: np.ndarray) -> list[np.ndarray]:
        return list(corpus.padded(lines, self._max_tokens, self.params["use_start_token"], self._multiple))

    def make_interactive_batch(self, inputs: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of source sentences, truncated to ``max_length``.

        With ``prefix_column``, the beginning of the translation may follow the sentence after a tab.

        Raises:
          DataError: there are no sentences, or one is not a string.
        """
        corpus = self._typed(inputs)
        self._note_typed(corpus.counts, self._max_tokens)
        numbers = np.arange(len(corpus))
        batch = {"source_tensors": self._side(corpus, numbers), "ids": numbers}
        if self._has_prefix_column:
            given = corpus_of_lines(self._newest_lines, self._of_column(self._target_tokenizer, 1))
            check_given_targets(given, corpus, self._max_tokens, "prefix")
            batch["prefix_tensors"] = prefixes(given, numbers)
        return batch

    def make_scoring_batch(self, inputs: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of source sentences, truncated to ``max_length``, and their given translations.

        Raises:
          DataError: an input is not a string, or a translation has more tokens than ``max_length`` allows.
        """
        source = self._typed(inputs)
        self._note_typed(source.counts, self._max_tokens)
        given = corpus_of_lines([" ".join(str(line).split("\n")) for line in targets], self._target_tokenizer)
        check_given_targets(given, source, self._max_tokens, "translation")
        numbers = np.arange(len(source))
        return {"source_tensors": self._side(source, numbers), "target_tensors": self._side(given, numbers),
                "ids": numbers}

    @property
    def scoring_signature(self) -> dict[str, Any]:
        signature = self.input_signature
        return {name: signature["source_tensors" if name == "target_tensors" else name]
                for name in ("source_tensors", "target_tensors", "ids")}

    def interactive_lengths(self, inputs: Sequence[str]) -> np.ndarray:
        return np.minimum(self._typed(inputs).counts, self._max_tokens) + self.num_special

    def _typed(self, inputs: Sequence[str]) -> TokenCorpus:
        lines = [inputs] if isinstance(inputs, str) else list(inputs)
        if not lines or not all(isinstance(line, str) for line in lines):
            raise DataError("The input of interactive inference must be a non-empty list of strings.")
        self._newest_lines = [" ".join(line.split("\n")) for line in lines]
        return corpus_of_lines(self._newest_lines, self._of_column(self._source_tokenizer, 0))

    @property
    def fields(self) -> dict[str, Any]:
        side = [Field(tf.int32, (None, None), time=1, lengths=1), Field(tf.int32, (None,))]
        fields: dict[str, Any] = {"source_tensors": side, "ids": Field(tf.int64, (None,))}
        if self._target is not None or self.mode in ("train", "eval"):
            fields["target_tensors"] = side
        if self._prefix is not None or (self._has_prefix_column and self.mode == "interactive_infer"):
            fields["prefix_tensors"] = side
        return fields

    def _line(self, example: int) -> int:
        """Returns the index, in the source and target corpora, of an example's sentences."""
        return int(example if self._lines is None else self._lines[example])

    def line_number(self, example: int) -> int:
        """Returns the line number of an example in its files, from 1."""
        return self._line(example) + 1

    def describe_example(self, example: int) -> str:
        return f"{shown(self.params['source_file'])}:{self.line_number(example)}"

    def ids_to_text(self, ids: Any) -> str:
        """Returns the text of target ids ``[time]`` up to EOS, without special tokens."""
        return self._target_tokenizer.decode(ids)

    def source_to_text(self, ids: Any) -> str:
        """Returns the text of source ids ``[time]`` up to EOS, without special tokens."""
        return self._source_tokenizer.decode(ids)

    def source_tokens(self, example: int, row: int) -> list[str]:
        """Returns the tokens of a source sentence as text, at most as many as ``max_length`` allows.

        Tokens that the vocabulary does not contain are returned as they are in the sentence.

        Args:
          example: index of the example; not used in interactive inference.
          row: for interactive inference, the row in the newest batch.
        """
        line = self._newest_lines[row] if self._source is None else self._source.line(self._line(example))
        line = column_of(line, 0) if self._has_prefix_column else line
        return self._source_tokenizer.split(line)[:self._max_tokens]

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
        if self._target is None:
            raise DataError("Reference texts are not available in inference, because target_file is not read.")
        return self._target_tokenizer.to_text(self._target.line(self._line(example)))

    def examine(self) -> list[str]:
        """Verifies the checksums of all indexes and compares the indexes with the texts; rebuilds those that differ."""
        self._load(thorough=True)
        return [f"the index of {corpus.path} was compared with the whole text"
                for corpus in dict.fromkeys([self._source, self._target])
                if corpus is not None and corpus.is_indexed]

    def remarks(self) -> list[str]:
        """Returns lines about how the texts and their vocabularies fit."""
        return [] if self._source is None else side_remarks(self._sides(), self.params)

    def _sides(self) -> list[Side]:
        own_target = self._target if self._target is not self._source else None
        return [Side(self._corpus(), self._of_column(self._source_tokenizer, 0), "source"),
                *([] if own_target is None else [Side(own_target, self._target_tokenizer, "target")])]

    def report_dropped(self) -> dict[str, int]:
        """Returns the number of training pairs that were dropped for each reason."""
        reasons = {"an empty side": self._num_empty,
                   f"longer than max_length {self.params['max_length']}": self._num_long}
        return {reason: count for reason, count in reasons.items() if count}

    def _describe_cut(self, example: int) -> str:
        file = "source_file" if self._corpus().counts[example] > self._max_tokens else "target_file"
        return f"{shown(self.params[file])}:{self.line_number(example)}"

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
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the given text files in order, one sentence per line.

        Raises:
          UserError: a file does not exist or is a folder, or stdin is empty or a device.
          DataError: one of several files is empty or not UTF-8.
        """
        check_given(files)
        path = one_text(files)
        # A large file's index is written to a temporary folder, not beside the user's file or to the config's folder.
        index_dir = process_folder() if os.path.getsize(path) >= INDEX_FROM_BYTES else None
        return {"source_file": path, "target_file": None, "index_dir": index_dir}
