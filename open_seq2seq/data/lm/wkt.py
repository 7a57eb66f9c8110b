"""The data layer of language models: running text, cut into chunks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.lm.params import (
    PATH,
    VOCABULARY,
    build_vocabulary,
    make_tokenizer,
    other_vocabulary,
    tokenizer_kind,
    tokenizer_params,
    vocabulary_path,
    with_model_params,
)
from open_seq2seq.data.lm.random_lengths import SHORTEST_BASE, chunk_offsets, num_random_chunks
from open_seq2seq.data.lm.tokenizers import PieceTokenizer
from open_seq2seq.data.lm.vocabulary import UNKNOWN, LMVocabulary
from open_seq2seq.data.text2text.corpus import INDEX_FROM_BYTES, TokenCorpus, corpus_of_lines, load_corpus
from open_seq2seq.data.text_remarks import (
    changed_remarks,
    count_ids,
    reserved_remarks,
    unknown_in_prompts,
    unknown_remarks,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.disk import process_folder
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.given_files import check_given, one_text

_FILES = {"train": ("train.txt", "wiki.train.tokens", "wiki.train.raw"),
          "eval": ("valid.txt", "wiki.valid.tokens", "wiki.valid.raw")}
_SMALL = {"train": 9004, "eval": 200}  # tokens


class WKTDataLayer(DataLayer):
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

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(with_model_params(params, model), model, name, mode)
        tokenizer_kind(self.params, self.params_path)
        self._check_random_lengths()
        if self.params["processed_data_folder"] is None:
            self._params = MappingProxyType({**self._params, "processed_data_folder": "wkt-processed_data"})
        self.tokenizer = make_tokenizer(
            self.params, self.params_path, None if self.mode in ("infer", "interactive_infer") else self._build)
        self._corpus: TokenCorpus | None = None
        self._prompts: TokenCorpus | None = None
        self._has_reported_unknown = False
        if self.mode == "infer":
            self._load_prompts()
        elif self.mode != "interactive_infer":
            self._load_text()

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

    @property
    def contiguous(self) -> bool:  # type: ignore[override]
        """Whether each chunk continues the previous one, so that states can be carried."""
        return bool(self.params["carry_state"]) and self.mode in ("train", "eval")

    @property
    def _has_random_lengths(self) -> bool:
        return self.params["random_bptt"] and self.mode == "train"

    @property
    def _shifted_size(self) -> int:
        """Number of tokens from the latest possible start of the first chunk to the end of the text."""
        return self._size - self._shifts + 1

    def _check_random_lengths(self) -> None:
        path, bptt = self.params_path, self.params["bptt"]
        if self._has_random_lengths and not self.params["carry_state"]:
            raise ConfigError([f"'{path}/random_bptt' is True, but random lengths need chunks that each continue the "
                               "previous one: set carry_state to True."])
        if self._has_random_lengths and bptt < SHORTEST_BASE:
            raise ConfigError([f"'{path}/bptt' is {bptt}, which is too short for random_bptt: raise it to at least "
                               f"{SHORTEST_BASE}, or set random_bptt to False."])

    def _text_path(self, mode: str) -> str:
        """Returns the path of the text of ``train`` or ``eval``."""
        params, path = self.params, self.params_path
        if mode == self.mode and params["text_file"]:
            return params["text_file"]
        if not params["data_root"]:
            raise ConfigError([f"'{path}/data_root' is missing: name the folder that contains {_FILES[mode][0]}, or "
                               "name the text itself as text_file."])
        found = [os.path.join(params["data_root"], name + packed) for name in _FILES[mode] for packed in ("", ".gz")]
        return next((file for file in found if os.path.exists(file)), found[0])

    def _build(self, split: Any) -> LMVocabulary:
        """Returns the vocabulary of the training text."""
        path = self._text_path("train")
        return build_vocabulary(self.params, (split(line) for line in read_lines(path, "The text file")), path)

    def _load_text(self) -> None:
        _ = self.fingerprints  # computed before the file is read, to detect later changes
        self._corpus = corpus = self._load(self._text_path(self.mode))
        self._size = len(corpus.tokens)
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
            raise DataError(f"{corpus.path} has {self._size} tokens, too few for a chunk of bptt {bptt} tokens with "
                            "rand_start or random_bptt: lower bptt, give a longer text, or set both to False.")

    def _load(self, path: str) -> TokenCorpus:
        threads = max(1, min(self.params["map_parallel_calls"], os.cpu_count() or 1))
        large = os.path.exists(path) and os.path.getsize(path) >= INDEX_FROM_BYTES
        folder = None if not large else (
            process_folder() if self.mode == "infer" else self.params["processed_data_folder"])
        return load_corpus(path, self.tokenizer, folder, threads)

    def _load_prompts(self) -> None:
        file = self.params["text_file"]
        if file is None:
            self._prompts = corpus_of_lines(self.params["seed_tokens"].split() or [""], self.tokenizer)
        else:
            self._prompts = self._load(file)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.tokenizer.vocab_size

    @property
    def tokens(self) -> Sequence[str]:
        """The tokens in the order of their ids."""
        return self.tokenizer.tokens

    @property
    def end_id(self) -> int:
        """The id that ends every line."""
        return self.tokenizer.end_id

    @property
    def num_examples(self) -> int:
        return len(self._prompts) if self._prompts is not None else self._chunks

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each line in inference; otherwise 1, because all chunks have the same width."""
        return self._prompts.counts if self._prompts is not None else np.ones(self._chunks, np.int64)

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        if self._prompts is not None:
            return {"source_tensors": list(self._lines(self._prompts, examples)), "ids": np.asarray(examples, np.int64)}
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
        assert self._corpus is not None
        # Chunks are not wider than the text.
        places = begins[:, np.newaxis] + np.arange(-1, min(int(lengths.max()), self._size))
        tokens = self._corpus.tokens_at(np.clip(places, 0, self._size - 1).reshape(-1)).reshape(places.shape)
        tokens = np.where(places < 0, self.end_id, tokens).astype(np.int32)
        lengths = np.minimum(lengths, self._size - begins).astype(np.int32)
        return {"source_tensors": [tokens[:, :-1], lengths], "target_tensors": [tokens[:, 1:], lengths],
                "ids": examples}

    def _lines(self, corpus: TokenCorpus, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids ``[batch, time]`` of lines, with the end token in front instead of at the end, and lengths."""
        begin, counts = corpus.offsets[lines], corpus.counts[lines]
        columns = np.arange(int(counts.max(initial=1)))
        places = begin[:, np.newaxis] + columns - 1
        held = (columns > 0) & (columns < counts[:, np.newaxis])
        ids = np.full(places.shape, self.end_id, np.int32)
        ids[held] = corpus.tokens_at(places[held])
        return ids, counts.astype(np.int32)

    def make_interactive_batch(self, inputs: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of texts to continue or to score."""
        corpus = self._typed(inputs)
        self._report_unknown(corpus)
        numbers = np.arange(len(corpus))
        return {"source_tensors": list(self._lines(corpus, numbers)), "ids": numbers}

    def interactive_lengths(self, inputs: Sequence[str]) -> np.ndarray:
        return self._typed(inputs).counts

    def _typed(self, inputs: Sequence[str]) -> TokenCorpus:
        lines = [inputs] if isinstance(inputs, str) else list(inputs)
        if not lines or not all(isinstance(line, str) for line in lines):
            raise DataError("The input of interactive inference must be a non-empty list of strings.")
        return corpus_of_lines([" ".join(line.split("\n")) for line in lines], self.tokenizer)

    def _report_unknown(self, corpus: TokenCorpus) -> None:
        """Prints the number of unknown tokens in texts of interactive use, for the first texts that have any."""
        for line in [] if self._has_reported_unknown else unknown_in_prompts(corpus, self.tokenizer, UNKNOWN):
            self._has_reported_unknown = True
            deco_print(line)

    @property
    def fields(self) -> dict[str, Any]:
        lengths, ids = Field(tf.int32, (None,)), Field(tf.int64, (None,))
        if self.mode in ("infer", "interactive_infer"):
            return {"source_tensors": [Field(tf.int32, (None, None), time=1, lengths=1), lengths], "ids": ids}
        fixed = Field(tf.int32, (None, min(self.params["bptt"], self._size)))
        side = [Field(tf.int32, (None, None), time=1, lengths=1) if self._has_random_lengths else fixed, lengths]
        return {"source_tensors": side, "target_tensors": side, "ids": ids}

    def describe_example(self, example: int) -> str:
        if self._prompts is not None:
            return f"{shown(self.params['text_file'] or 'seed_tokens')}:{example + 1}"
        if self._has_random_lengths:
            row, position = divmod(example, self._chunks // self.training_rows)
            return f"Chunk {position + 1:,} of row {row + 1:,} of {self._text_path(self.mode)}"
        begin = example * self.params["bptt"]
        return f"Tokens {begin:,} to {begin + self.params['bptt']:,} of {self._text_path(self.mode)}"

    def ids_to_text(self, ids: Any) -> str:
        """Returns the text of ids."""
        return self.tokenizer.decode(ids)

    def prompt_text(self, example: int) -> str:
        """Returns the text of an example in inference, as it is in the file or in ``seed_tokens``."""
        assert self._prompts is not None
        if self.params["text_file"] is None:
            return self.params["seed_tokens"].split()[example] if self.params["seed_tokens"].split() else ""
        return self._prompts.line(example)

    def text_size(self) -> tuple[int, int] | None:
        """Returns the numbers of words and of bytes in the text; None if only a part of the text is read.

        Words are separated by white space; each line end counts as a word and as a byte, too.
        """
        if self._corpus is None or self.params["small"] or (self._shifts > 1):
            return None
        words = num_bytes = 0
        for line in read_lines(self._corpus.path, "The text file"):
            words, num_bytes = words + len(line.split()) + 1, num_bytes + len(line.encode()) + 1
        return words, num_bytes

    @property
    def num_unknown(self) -> int:
        """Number of unknown tokens in the text."""
        return 0 if self._corpus is None else count_ids(self._corpus.tokens[:self._size], self.tokenizer.unknown_id)

    def remarks(self) -> list[str]:
        """Returns the numbers of unknown tokens and of ``<eos>`` in the text, or in the prompts, if there are any."""
        if self._prompts is not None:
            return unknown_in_prompts(self._prompts, self.tokenizer, UNKNOWN)
        if self._corpus is None:
            return []
        text = self._corpus, self._size
        return [*unknown_remarks(*text, self.tokenizer, other_vocabulary(self.params), self._corpus.path),
                *reserved_remarks(*text, {self.end_id: self.tokens[self.end_id]}, self._corpus.path, self.end_id),
                *self._changed_lines(self._corpus)]

    def _changed_lines(self, corpus: TokenCorpus) -> list[str]:
        if not isinstance(self.tokenizer, PieceTokenizer):
            return []
        return changed_remarks(map(corpus.line, range(len(corpus))), self.tokenizer.normalized,
                               self.params["tokenizer"]["model"], corpus.path)

    def data_files(self, *kinds: str) -> dict[str, str]:
        """Returns the text of this mode."""
        return {"text": self._text_path(self.mode)} if self.mode in ("train", "eval") else {}

    def assets(self) -> dict[str, str]:
        """Returns the vocabulary file, or the SentencePiece model."""
        file = vocabulary_path(self.params)
        words = (self.params["tokenizer"] or {}).get("type") != "sentencepiece"
        return {VOCABULARY: file} if words and file else super().assets()

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        changed = super().params_with_assets(params, paths)
        return {**changed, "lm_vocab_file": paths[VOCABULARY]} if VOCABULARY in paths else changed

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the lines of the given text files, in order.

        Raises:
          UserError: a file does not exist or is a folder, or stdin is empty or a device.
          DataError: one of several files is empty or not UTF-8.
        """
        check_given(files)
        return {"text_file": one_text(files)}
