"""The data layer of language models: running text, cut into chunks."""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.lm.params import PATH, LMTextDataLayer, build_vocabulary, make_tokenizer, tokenizer_params
from open_seq2seq.data.lm.tokenizers import UNKNOWN, LMVocabulary
from open_seq2seq.data.text2text.corpus import INDEX_FROM_BYTES, Layout, TokenCorpus
from open_seq2seq.data.text2text.token_table import Column, TokenTable
from open_seq2seq.data.text_remarks import column_remarks, count_ids, unknown_in_prompts
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.disk import process_folder
from open_seq2seq.utils.errors import ConfigError, DataError

_HALVED = 0.05  # probability that the mean of a length is half of the base length
_DEVIATION = 5.0  # standard deviation of the lengths, in tokens
_SHORTEST = 5
_PROMPT_WORDS = 4  # of the beginnings of lines in ``interactive_examples``

SHORTEST_BASE = 2 * _SHORTEST
"""Smallest allowed base length; half of it is the shortest length that is drawn."""


def num_random_chunks(tokens: int, base: int) -> int:
    """Returns into how many chunks of random lengths a text is cut: its length divided by the mean chunk length."""
    return int(tokens / ((1.0 - _HALVED / 2.0) * base))


@functools.lru_cache(maxsize=4)
def chunk_offsets(count: int, base: int, tokens: int, *seed: int) -> np.ndarray:
    """Draws the lengths of consecutive chunks and returns their offsets.

    A length has a normal distribution around ``base`` or, with a probability of 5 %, around half of it. Its standard
    deviation is 5 tokens, and lengths below 5 become 5. If the chunks together are longer than the text, all are
    shortened in proportion.

    Args:
      count: number of chunks.
      base: most probable length, in tokens.
      tokens: length of the text.
      seed: seeds of the random numbers.

    Returns:
      ``[count + 1]`` int64; chunk i comprises the tokens from offset i to before offset i + 1. The array is cached and
      must not be changed.
    """
    generator = np.random.default_rng(seed)
    means = np.where(generator.random(count) < _HALVED, base / 2.0, base)
    ends = np.cumsum(np.maximum(np.floor(generator.normal(means, _DEVIATION)), _SHORTEST))
    return np.append(0, np.floor(ends * min(1.0, tokens / ends[-1]))).astype(np.int64)


_FILES = {"train": ("train.txt", "wiki.train.tokens", "wiki.train.raw"),
          "eval": ("valid.txt", "wiki.valid.tokens", "wiki.valid.raw")}
_SMALL = {"train": 9004, "eval": 200}  # tokens


class WKTDataLayer(LMTextDataLayer):
    """Running text for language models, such as WikiText: chunks of ``bptt`` tokens; targets are the next tokens.

    Every line ends with the token ``<eos>``, which also precedes the first token of the text, so that each token of
    the text is predicted exactly once. Large texts are read through a memory-mapped index.

    With ``carry_state``, each chunk continues the previous one, and the model keeps its state. Otherwise chunks are
    separate examples, which training shuffles.

    In inference, an example is a line of text: the beginning of a text to generate, or a line to score.

    Raises:
      ConfigError: parameters are missing or contradict each other.
      DataError: a file is missing, empty or not UTF-8, or the text is too short.
    """

    length_limit = None
    reads_lines = False
    _text: TokenCorpus | None = None
    _has_reported_unknown = False

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"bptt": Param(int, doc="Length of a chunk, through which gradients are propagated.", unit="tokens",
                              minimum=1, maximum=10**5)}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(),
            **tokenizer_params(),
            "data_root": Param(PATH, None, "Folder of the text: train.txt, wiki.train.tokens or wiki.train.raw, and "
                               "valid.txt, wiki.valid.tokens or wiki.valid.raw.", on_change=FREE),
            "text_file": Param(PATH, None, "Text file to read instead of the one in data_root (give it in "
                               "train_params or eval_params, not for both); in inference, the lines to continue or to "
                               "score."),
            "carry_state": Param(bool, False, "Whether each chunk continues the previous one, so that the model's "
                                 "state is carried over from chunk to chunk; cannot be combined with shuffle."),
            "random_bptt": Param(bool, False, "Whether chunks have random lengths in training, as in AWD-LSTM. All "
                                 "chunks of an update have the same length, drawn around bptt or, in 5 % of the "
                                 "updates, around half of it, with a standard deviation of 5 tokens. The learning rate "
                                 "is multiplied by the length divided by bptt. Needs carry_state."),
            "rand_start": Param(bool, False, "Whether training begins each epoch at a random token of the first "
                                "chunk, so that the chunks differ between epochs."),
            "small": Param(bool, False, "Whether to read only the first 9,004 tokens in training and 200 in "
                           "evaluation, for a quick test."),
            "seed_tokens": Param(str, "The", "In inference without text_file: words separated by spaces, each the "
                                 "beginning of a generated text.", on_change=FREE),
        }

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        folder = params["processed_data_folder"]
        return {**params, "processed_data_folder": "wkt-processed_data" if folder is None else folder}

    def _prepare(self) -> None:
        self.tokenizer = make_tokenizer(self.params, self.params_path, self._build if self._has_targets else None)

    @property
    def contiguous(self) -> bool:  # type: ignore[override]
        """Whether each chunk continues the previous one, so that states can be carried."""
        return bool(self.params["carry_state"]) and self._has_targets

    @property
    def _has_random_lengths(self) -> bool:
        return self.params["random_bptt"] and self.mode == "train"

    @property
    def _shifted_size(self) -> int:
        """Number of tokens from the latest possible start of the first chunk to the end of the text."""
        return self._size - self._shifts + 1

    def _problems(self) -> list[str]:
        path, bptt = self.params_path, self.params["bptt"]
        if self._has_random_lengths and not self.params["carry_state"]:
            return [f"'{path}/random_bptt' is True, but random lengths need chunks that each continue the previous "
                    "one: set carry_state to True."]
        if self._has_random_lengths and bptt < SHORTEST_BASE:
            return [f"'{path}/bptt' is {bptt}, which is too short for random_bptt: raise it to at least "
                    f"{SHORTEST_BASE}, or set random_bptt to False."]
        return []

    def _text_path(self, mode: str) -> str:
        """Returns the path of the text of ``train`` or ``eval``."""
        params, path = self.params, self.params_path
        if mode == self.mode and params["text_file"]:
            return params["text_file"]
        if not params["data_root"]:
            raise ConfigError([f"'{path}/data_root' is missing: name the folder that contains {_FILES[mode][0]}, or "
                               "name the text itself as text_file."])
        paths = [os.path.join(params["data_root"], name + packed) for name in _FILES[mode] for packed in ("", ".gz")]
        return next((file for file in paths if os.path.exists(file)), paths[0])

    def _build(self, split: Any) -> LMVocabulary:
        """Returns the vocabulary of the training text."""
        path = self._text_path("train")
        return build_vocabulary(self.params, (split(line) for line in read_lines(path, "The text file")), path)

    @property
    def num_special(self) -> int:
        return 1

    @property
    def _layout(self) -> Layout:
        return Layout(np.iinfo(np.int32).max, start=self.end_id, end=None, padding=self.end_id)

    def _columns(self) -> list[Column]:
        if self._has_targets:
            return [Column("source", self.tokenizer, self._text_path(self.mode), line_end=self.end_id)]
        return [Column("source", self.tokenizer, self.params["text_file"] or "")]

    def _index_dir(self, path: str) -> str | None:
        if not os.path.exists(path) or os.path.getsize(path) < INDEX_FROM_BYTES:
            return None
        return self.params["processed_data_folder"] if self._has_targets else process_folder()

    def _read(self, thorough: bool) -> list[TokenTable]:
        if self.params["text_file"] is not None:
            return super()._read(thorough)
        words = self.params["seed_tokens"].split() or [""]
        return [self._table_of_rows([(number, [word]) for number, word in enumerate(words, 1)], "seed_tokens")]

    def _load(self, thorough: bool = False) -> None:
        if not self._has_targets:
            return super()._load(thorough)
        _ = self.fingerprints  # computed before the file is read, to detect later changes
        self._text = text = self._corpus(self._columns()[0], thorough)
        self._size = len(text.tokens)
        if self.params["small"]:
            self._size = min(self._size, _SMALL[self.mode])
        bptt = self.params["bptt"]
        shifts = self.params["rand_start"] and self.mode == "train"
        self._shifts = bptt if shifts else 1
        if self._has_random_lengths:
            self._chunks = num_random_chunks(self._shifted_size, bptt)
        else:
            # With a random start, the last tokens of the text are left out, so that all chunks have bptt tokens.
            self._chunks = self._shifted_size // bptt if shifts else -(-self._size // bptt)
        if self._chunks < 1:
            raise DataError(f"{text.path} has {self._size} tokens, too few for a chunk of bptt {bptt} tokens with "
                            "rand_start or random_bptt: lower bptt, give a longer text, or set both to False.")

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.tokenizer.vocab_size

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each line in inference; otherwise 1, because all chunks have the same width."""
        return np.ones(self._chunks, np.int64) if self._has_targets else super().lengths

    @property
    def costs(self) -> np.ndarray:
        """Number of tokens of each line or chunk; 1 if ``batch_size_unit`` counts examples."""
        return super().costs * (1 if self.counts_examples or not self._has_targets else self.params["bptt"])

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        if not self._has_targets:
            return super().make_batch(examples)
        examples, bptt = np.asarray(examples, np.int64), self.params["bptt"]
        begins = examples * bptt
        if self._has_random_lengths:
            # There are more random chunks than chunks of bptt tokens, so the last ones would begin after the text.
            begins = np.minimum(begins, max(0, self._size - bptt))
        return self._chunks_at(examples, begins, np.full(len(examples), bptt))

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        start = int(np.random.default_rng([self.seed, epoch]).integers(self._shifts))
        examples, bptt = np.asarray(examples, np.int64), self.params["bptt"]
        if not self._has_random_lengths:
            return self._chunks_at(examples, start + examples * bptt, np.full(len(examples), bptt))
        chunks_per_row, tokens_per_row = (size // self.training_rows for size in (self._chunks, self._shifted_size))
        rows, positions = np.divmod(examples, chunks_per_row)
        offsets = chunk_offsets(chunks_per_row, bptt, tokens_per_row, self.seed, epoch)
        begins = start + rows * tokens_per_row + offsets[positions]
        return self._chunks_at(examples, begins, np.diff(offsets)[positions])

    def rate_factor(self, batch: dict[str, Any]) -> float | None:
        """Returns the length of the chunks divided by ``bptt`` if it is random, else None."""
        if not self._has_random_lengths:
            return None
        return float(batch["source_tensors"][1].max()) / self.params["bptt"]

    def _chunks_at(self, examples: np.ndarray, begins: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
        """Returns the batch of some chunks, given their first tokens' positions in the text and their lengths."""
        assert self._text is not None
        # Chunks are not wider than the text.
        positions = begins[:, np.newaxis] + np.arange(-1, min(int(lengths.max()), self._size))
        tokens = self._text.tokens_at(np.clip(positions, 0, self._size - 1).reshape(-1)).reshape(positions.shape)
        tokens = np.where(positions < 0, self.end_id, tokens).astype(np.int32)
        lengths = np.minimum(lengths, self._size - begins).astype(np.int32)
        return {"source_tensors": [tokens[:, :-1], lengths], "target_tensors": [tokens[:, 1:], lengths],
                "ids": examples}

    def _noted(self, table: TokenTable) -> TokenTable:
        """Prints the number of unknown tokens in texts of interactive use, for the first texts that have any."""
        for line in [] if self._has_reported_unknown else self._unknown_in(table):
            self._has_reported_unknown = True
            deco_print(line)
        return table

    def _unknown_in(self, table: TokenTable) -> list[str]:
        return unknown_in_prompts(table.corpora[0], table.columns[0], UNKNOWN)

    @property
    def fields(self) -> dict[str, Any]:
        fields = super().fields
        side = fields["source_tensors"]
        if not self._has_targets:
            return fields
        if not self._has_random_lengths:
            side = [Field(tf.int32, (None, min(self.params["bptt"], self._size))), side[1]]
        return {**fields, "source_tensors": side, "target_tensors": side}

    def describe_example(self, example: int) -> str:
        if not self._has_targets:
            return super().describe_example(example)
        if self._has_random_lengths:
            row, position = divmod(example, self._chunks // self.training_rows)
            return f"Chunk {position + 1:,} of row {row + 1:,} of {self._text_path(self.mode)}"
        begin = example * self.params["bptt"]
        return f"Tokens {begin:,} to {begin + self.params['bptt']:,} of {self._text_path(self.mode)}"

    def ids_to_text(self, ids: Any) -> str:
        """Returns the text of ids."""
        return self.tokenizer.decode(ids)

    def interactive_examples(self, count: int) -> list[Any]:
        """Returns the beginnings of lines of the text, or the prompts."""
        if self._text is None:
            return super().interactive_examples(count)
        lines = (self._text.line(number).split() for number in range(len(self._text)))
        return [" ".join(words[:_PROMPT_WORDS]) for words in itertools.islice(filter(None, lines), count)]

    def prompt_text(self, example: int) -> str:
        """Returns the text of an example in inference, as it is in the file or in ``seed_tokens``."""
        table, inside = self._located(example)
        return table.text(0, inside)

    def text_size(self) -> tuple[int, int] | None:
        """Returns the numbers of words and of bytes in the text; None if only a part of the text is read.

        Words are separated by white space; each line end counts as a word and as a byte, too.
        """
        if self._text is None or self.params["small"] or (self._shifts > 1):
            return None
        words = num_bytes = 0
        for line in read_lines(self._text.path, "The text file"):
            words, num_bytes = words + len(line.split()) + 1, num_bytes + len(line.encode()) + 1
        return words, num_bytes

    @property
    def num_unknown(self) -> int:
        """Number of unknown tokens in the text."""
        return 0 if self._text is None else count_ids(self._text.tokens[:self._size], self.tokenizer.unknown_id)

    def remarks(self) -> list[str]:
        """Returns the numbers of unknown tokens and of ``<eos>`` in the text, or in the prompts, if there are any."""
        if self._text is None:
            return [line for table in self._tables for line in self._unknown_in(table)]
        column = self._columns()[0]
        return column_remarks(self._text, column, self._remedy(column), self._size)

    def data_files(self, *kinds: str) -> dict[str, str]:
        """Returns the text of this mode."""
        return {"text": self._text_path(self.mode)} if self._has_targets else {}

    @classmethod
    def _params_for_file(cls, path: str) -> dict[str, Any]:
        return {"text_file": path}
