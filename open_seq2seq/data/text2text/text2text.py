"""Parallel text: a source file and a target file whose lines belong together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, DATA
from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.text2text.corpus import INDEX_FROM_BYTES, TokenCorpus, corpus_of_lines, load_corpus
from open_seq2seq.data.text2text.tokenizers import make_tokenizers
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.disk import process_folder
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.given_files import check_given, one_text

__all__ = ["ParallelTextDataLayer", "SpecialTextTokens", "max_length_param", "shared_params"]

PATH = (str, type(None))


class ParallelTextDataLayer(DataLayer):
    """Sentence pairs from two text files, one sentence a line.

    A sentence becomes ``[S] + tokens + [EOS]``, without S if ``use_start_token`` is False. In training, pairs with an
    empty side, or with more than ``max_length`` ids, are dropped and counted. In evaluation and inference, which keep
    the order of the input, longer sentences are cut and empty ones are only special tokens. Inference needs no target
    file.

    Lengths in a batch include special tokens, but not padding. The whole data set is shuffled by a permutation of
    example numbers (see ``data.batching``).

    Raises:
      ConfigError: parameters that are missing or contradict each other.
      DataError: files that are missing, empty, not UTF-8 or of different numbers of lines; no examples left.
    """

    length_limit = "max_length"

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self._params = MappingProxyType(self._completed(dict(self._params)))
        self._check()
        self._source_tokenizer, self._target_tokenizer = make_tokenizers(self.params, self.params_path)
        self._source: TokenCorpus | None = None
        self._target: TokenCorpus | None = None
        if self.mode != "interactive_infer":
            self._load()

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "source_file": Param(str, doc="Text file with one source sentence a line.", file=DATA),
            **max_length_param(),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(),
            **shared_params(),
            "use_targets": Param(bool, True, "Whether there is a target file; if not, sources are the targets."),
            "target_file": Param(PATH, None, "Text file with one target sentence a line; not read in inference.",
                                 file=DATA),
            "pad_lengths_to_eight": Param(bool, False, "Whether the padded length of a batch is a multiple of 8."),
            "shuffle_buffer_size": Param(int, -1, "Accepted for old configs: the whole data set is shuffled, whatever "
                                         "its size, without a buffer.", "examples", on_change=FREE),
            "use_start_token": Param(bool, True, "Whether sentences begin with the start token.", on_change=REFUSE),
        }

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters with those that depend on others filled in."""
        return params

    def _check(self) -> None:
        params, path, problems = self.params, self.params_path, []
        if params["max_length"] < 2 + self._num_special:
            problems.append(f"'{path}/max_length' is {params['max_length']} but has to be at least "
                            f"{2 + self._num_special}: special tokens count too.")
        if params["pad_lengths_to_eight"] and params["max_length"] % 8:
            problems.append(f"'{path}/max_length' is {params['max_length']} but has to be a multiple of 8, because "
                            "lengths are padded to one.")
        if self._reads_targets and not params["target_file"]:
            problems.append(f"'{path}/target_file' is missing: give the text file of the target sentences, or set "
                            "use_targets to False.")
        if problems:
            raise ConfigError(problems)

    @property
    def _reads_targets(self) -> bool:
        return self.params["use_targets"] and self.mode in ("train", "eval")

    @property
    def _num_special(self) -> int:
        return 1 + int(self.params["use_start_token"])

    @property
    def _max_tokens(self) -> int:
        return self.params["max_length"] - self._num_special

    def _load(self, thorough: bool = False) -> None:
        params, _ = self.params, self.fingerprints  # taken before the files are read
        threads = max(1, min(params["map_parallel_calls"], os.cpu_count() or 1))
        how = params["index_dir"], threads, thorough
        self._source = load_corpus(params["source_file"], self._source_tokenizer, *how)
        if self._reads_targets:
            self._target = load_corpus(params["target_file"], self._target_tokenizer, *how)
        elif self.mode in ("train", "eval"):
            self._target = self._source
        if self._target is not None and len(self._source) != len(self._target):
            raise DataError(f"{params['source_file']} has {len(self._source)} lines but {params['target_file']} has "
                            f"{len(self._target)}: line n of one has to be the translation of line n of the other.")
        sides = [self._source] if self._target is None else [self._source, self._target]
        self._select(np.stack([corpus.counts for corpus in sides], axis=1))

    def _select(self, counts: np.ndarray) -> None:
        """Drops lines that training cannot use.

        Args:
          counts: tokens of each line ``[lines, sides]``, without special ones.
        """
        empty, long = counts.min(axis=1) == 0, counts.max(axis=1) > self._max_tokens
        self._num_cut = int(long.sum()) if self.mode != "train" else 0
        self._num_empty = self._num_long = 0
        # The line (from 0) of each example, or None if all lines are examples.
        self._lines: np.ndarray | None = None
        if self.mode == "train":
            self._num_empty, self._num_long = int(empty.sum()), int((long & ~empty).sum())
            if self._num_empty or self._num_long:
                keep = ~(empty | long)
                self._lines, counts = np.flatnonzero(keep).astype(np.int32), counts[keep]
        if not len(counts):
            raise DataError(f"Nothing is left of the {self._num_empty + self._num_long} sentence pairs of "
                            f"{self.params['source_file']}: {self._num_empty} have an empty side, {self._num_long} are "
                            f"longer than max_length {self.params['max_length']}.")
        lengths = np.minimum(counts, self._max_tokens) + np.int32(self._num_special)
        lengths = -(-lengths // self._multiple) * self._multiple
        self._lengths = lengths[:, 0] if lengths.shape[1] == 1 else lengths

    @property
    def _multiple(self) -> int:
        return 8 if self.params["pad_lengths_to_eight"] else 1

    def _corpus(self) -> TokenCorpus:
        if self._source is None:
            raise DataError("Interactive inference has no examples: sentences are passed one by one.")
        return self._source

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """Number of ids of source and target ``[num_examples, 2]``; of the source ``[num_examples]`` in inference.

        Special tokens are included; lengths are multiples of eight with ``pad_lengths_to_eight``.
        """
        self._corpus()
        return self._lengths

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
        return batch

    def _side(self, corpus: TokenCorpus, lines: np.ndarray) -> list[np.ndarray]:
        return list(corpus.padded(lines, self._max_tokens, self.params["use_start_token"], self._multiple))

    def make_interactive_batch(self, inputs: Sequence[str]) -> dict[str, Any]:
        """Makes a batch of source sentences, cut to ``max_length``.

        Raises:
          DataError: no sentences, or values that are not strings.
        """
        lines = [inputs] if isinstance(inputs, str) else list(inputs)
        if not lines or not all(isinstance(line, str) for line in lines):
            raise DataError("Interactive inference takes a list of sentences, each one a string.")
        corpus = corpus_of_lines([" ".join(line.split("\n")) for line in lines], self._source_tokenizer)
        numbers = np.arange(len(corpus))
        return {"source_tensors": self._side(corpus, numbers), "ids": numbers}

    @property
    def fields(self) -> dict[str, Any]:
        side = [Field(tf.int32, (None, None), time=1, lengths=1), Field(tf.int32, (None,))]
        fields: dict[str, Any] = {"source_tensors": side, "ids": Field(tf.int64, (None,))}
        return {**fields, "target_tensors": side} if self.mode in ("train", "eval") else fields

    def line_number(self, example: int) -> int:
        """Returns the line of an example in its files, counted from 1."""
        return int(example if self._lines is None else self._lines[example]) + 1

    def describe_example(self, example: int) -> str:
        return f"{self.params['source_file']}:{self.line_number(example)}"

    def ids_to_text(self, ids: Any) -> str:
        """Returns the text of target ids ``[time]``, up to EOS and without special tokens."""
        return self._target_tokenizer.decode(ids)

    def source_to_text(self, ids: Any) -> str:
        """Returns the text of source ids ``[time]``, up to EOS and without special tokens."""
        return self._source_tokenizer.decode(ids)

    def reference_text(self, example: int) -> str:
        """Returns the text of an example's target file, detokenised if ``detokenize`` is set.

        Raises:
          DataError: there are no targets in inference.
        """
        if self._target is None:
            raise DataError("There are no reference texts in inference: no target file is read.")
        return self._target_tokenizer.to_text(self._target.line(self.line_number(example) - 1))

    def examine(self) -> list[str]:
        """Compares whole indexes with their checksums and with the texts; wrong ones are made again."""
        self._load(thorough=True)
        cut = [f"cut to max_length: {self._num_cut:,}"] if self._num_cut else []
        return cut + [f"the index of {corpus.path} was compared with the whole text"
                      for corpus in dict.fromkeys([self._source, self._target])
                      if corpus is not None and corpus.is_indexed]

    def report_dropped(self) -> dict[str, int]:
        """Returns how many training pairs were dropped, by reason."""
        reasons = {"an empty side": self._num_empty,
                   f"longer than max_length {self.params['max_length']}": self._num_long}
        return {reason: count for reason, count in reasons.items() if count}

    @property
    def num_cut(self) -> int:
        """Number of pairs of an evaluation or inference set that are cut to ``max_length``."""
        return self._num_cut

    def assets(self) -> dict[str, str]:
        """Returns the vocabulary files, or the SentencePiece models: asset name → path."""
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
        """Returns the parameters with which inference reads text files one after another, one sentence a line.

        Raises:
          UserError: a file does not exist, or standard input is empty.
          DataError: one of several files is empty or not UTF-8.
        """
        check_given(files)
        path = one_text(files)
        # No index is left behind in the user's folder, nor in that of the config.
        index_dir = process_folder() if os.path.getsize(path) >= INDEX_FROM_BYTES else None
        return {"source_file": path, "target_file": None, "index_dir": index_dir}


def max_length_param() -> dict[str, Any]:
    """The parameter ``max_length``, which every text-to-text layer requires."""
    return {"max_length": Param(int, doc="Longest sentence, special tokens included: training drops longer pairs, "
                                "evaluation and inference cut them.", unit="tokens", minimum=1, maximum=10**6)}


def shared_params() -> dict[str, Any]:
    """The optional parameters that all text-to-text layers have."""
    return {
        "src_vocab_file": Param(PATH, None, "Source vocabulary, one token a line; not used with SentencePiece.",
                                file=ASSET),
        "tgt_vocab_file": Param(PATH, None, "Target vocabulary, one token a line; not used with SentencePiece.",
                                file=ASSET),
        "tokenizer": Param((dict, type(None)), None, "How lines become tokens: {'type': 'delimiter'} (the default), or "
                           "{'type': 'sentencepiece', 'model': path} (or source_model and target_model) for raw text.",
                           file={"model": ASSET, "source_model": ASSET, "target_model": ASSET}, on_change=REFUSE),
        "delimiter": Param(str, " ", "What separates tokens in a line.", on_change=REFUSE),
        "detokenize": Param(bool, False, "Whether texts in SentencePiece pieces are joined to plain text in results.",
                            on_change=FREE),
        "special_tokens_already_in_vocab": Param(bool, True, "Whether vocabulary files begin with PAD, EOS, S and UNK; "
                                                 "if not, ids 0 to 3 are put before them.", on_change=REFUSE),
        "pad_vocab_to_eight": Param(bool, False, "Whether vocabulary sizes are rounded up to a multiple of 8."),
        "index_dir": Param(PATH, None, "Folder for tokenised text. By default large files have theirs in .os2s_index "
                           "beside them, and small ones none.", on_change=FREE),
        "map_parallel_calls": Param(int, 8, "Threads that tokenise, where the tokenizer can use them.", "threads",
                                    minimum=1, maximum=1024, on_change=FREE),
        "prefetch_buffer_size": Param((int, type(None)), None, "Batches made ahead of the step; without it, or if "
                                      "negative, as many as all data layers have.", "batches", maximum=10**4,
                                      on_change=FREE),
    }
