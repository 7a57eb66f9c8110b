"""The data layer for several parallel corpora, in one or several target languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, DATA
from open_seq2seq.config.params import REFUSE, SAY, Param, check_params
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.text2text.mixing import joined, repetitions, temperature_shares
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer
from open_seq2seq.data.text2text.text_params import PATH, max_length_param, shared_params
from open_seq2seq.data.text2text.tokenizers import make_tokenizer
from open_seq2seq.utils.errors import ConfigError, DataError

_FILES = {"source_file": DATA, "target_file": DATA, "tgt_vocab_file": ASSET, "target_model": ASSET}
_ASSETS = [name for name, kind in _FILES.items() if kind == ASSET]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_OWN = ("corpora", "temperature", "source_file", "shuffle", "repeat", "length_buckets", "batch_size_unit")


class _Corpus(ParallelTextDataLayer):
    """The data layer of one corpus; messages name the corpus by its path in the config."""

    def __init__(self, params: Mapping[str, Any], path: str) -> None:
        self._path = path
        super().__init__(params)

    @property
    def params_path(self) -> str:
        return self._path


class MultiCorpusDataLayer(DataLayer):
    """Sentence pairs from several parallel corpora, mixed in given proportions, for one or several target languages.

    ``corpora`` is a dict of name → ``{"source_file": …, "target_file": …}``. These further entries are optional:

    * ``language``: the target language; by default the corpus's name;
    * ``tgt_vocab_file``, or ``target_model`` for SentencePiece: the vocabulary of that language; by default the one
      that the layer's own parameters name;
    * ``ratio``: the corpus's share of the training examples, relative to the ratios of the other corpora.

    In training, a corpus is read a whole number of times per epoch: once without ``ratio`` and ``temperature``,
    otherwise as often as its share requires (see ``mixing.repetitions``). A batch can contain examples of all corpora.
    Evaluation reads each corpus once. Inference reads the sentences of ``source_file``, in the source language that all
    corpora share.

    Batches are those of ``ParallelTextDataLayer``, but with a third target tensor: the index in ``languages`` of the
    language of each row ``[batch]``.

    Attributes:
      languages: the target languages, in the order in which the corpora first name them.

    Raises:
      ConfigError: parameters are missing or contradict each other.
      DataError: see ``ParallelTextDataLayer``.
    """

    length_limit = "max_length"
    parallel_files: Sequence[str] = ("source_file", "target_file")
    reads_lines = True

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self._corpora_params = self._checked_corpora()
        self.languages = list(dict.fromkeys(entry["language"] for entry in self._corpora_params.values()))
        self._tokenizers = {language: self._target_tokenizer(language) for language in self.languages}
        if self.mode in ("train", "eval"):
            self._parts = {corpus: _Corpus(self._params_of(corpus), self._path(corpus))
                           for corpus in self._corpora_params}
        else:
            self._parts = {"": _Corpus(self._params_of_inference(), self.params_path)}
        if self.mode != "interactive_infer":
            self._count()

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "corpora": Param(dict, doc="The corpora by name, each a dict with source_file and target_file, and "
                             "optionally language, tgt_vocab_file or target_model, and ratio.", file=_FILES,
                             on_change={"": REFUSE, "ratio": SAY}),
            **max_length_param(),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        own = ParallelTextDataLayer.get_optional_params()
        return {
            **DataLayer.get_optional_params(),
            **shared_params(),
            **{name: own[name] for name in ("pad_lengths_to_eight", "use_start_token")},
            "temperature": Param((float, type(None)), None, "If set, the share of a corpus in training is proportional "
                                 "to (number of examples)^(1 / temperature), so that small corpora occur more often; "
                                 "cannot be combined with ratio.", minimum=1.0, maximum=1000.0),
            "source_file": Param(PATH, None, "Text file with one source sentence per line, for inference.", file=DATA),
        }

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**params, "source_file": None}

    def _path(self, corpus: str) -> str:
        return f"{self.params_path}/corpora/{corpus}"

    def _checked_corpora(self) -> dict[str, dict[str, Any]]:
        given, path = self.params["corpora"], self.params_path
        optional = {**dict.fromkeys(_FILES, Param(PATH)), "language": Param(PATH),
                    "ratio": Param((float, type(None)), above=0.0)}
        checked, problems = {}, [] if given else [f"'{path}/corpora' is empty: name at least one corpus."]
        for name, entry in given.items():
            if not isinstance(entry, Mapping):
                problems.append(f"'{self._path(name)}' must be a dict with source_file and target_file, got {entry!r}.")
                continue
            checked[name], found = check_params(entry, {}, optional, self._path(name))
            checked[name]["language"] = checked[name].get("language") or name
            problems += found
        problems += [f"'{path}/corpora' has the language {entry['language']!r}, but the names of languages must "
                     "consist of letters, digits, '_' and '-', and begin with a letter or digit."
                     for entry in checked.values() if not _NAME.fullmatch(str(entry["language"]))]
        problems += self._ratio_problems(checked) or self._vocabulary_problems(checked)
        if problems:
            raise ConfigError(problems)
        return checked

    def _ratio_problems(self, corpora: Mapping[str, Any]) -> list[str]:
        with_ratio = [name for name, entry in corpora.items() if entry["ratio"] is not None]
        if with_ratio and self.params["temperature"] is not None:
            return [f"'{self.params_path}/temperature' and '{self._path(with_ratio[0])}/ratio' are both set: remove "
                    "one of them."]
        without = [name for name in corpora if name not in with_ratio]
        if with_ratio and without:
            return [f"'{self._path(without[0])}/ratio' is missing: give a ratio to all corpora or to none."]
        return []

    def _vocabulary_problems(self, corpora: Mapping[str, Any]) -> list[str]:
        problems = []
        for name, entry in corpora.items():
            first = next(other for other in corpora if corpora[other]["language"] == entry["language"])
            problems += [f"'{self._path(name)}/{key}' is {entry[key]!r}, but the corpus '{first}' of the same language "
                         f"has {corpora[first][key]!r}: give both corpora the same {key}, or different "
                         "languages."
                         for key in _ASSETS if entry[key] != corpora[first][key]]
        return problems

    def _vocabulary_of(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the parameters of vocabularies and tokenizers for a corpus: its own, or else those of the layer."""
        params = {name: self.params[name] for name in shared_params()}
        if entry["target_model"]:
            params["tokenizer"] = {**(params["tokenizer"] or {"type": "sentencepiece"}),
                                   "target_model": entry["target_model"]}
        return {**params, "tgt_vocab_file": entry["tgt_vocab_file"] or params["tgt_vocab_file"]}

    def _target_tokenizer(self, language: str) -> Any:
        name = next(name for name, entry in self._corpora_params.items() if entry["language"] == language)
        path = self._path(name) if self._corpora_params[name]["tgt_vocab_file"] else self.params_path
        return make_tokenizer(self._vocabulary_of(self._corpora_params[name]), path, "target")

    def _params_of(self, corpus: str) -> dict[str, Any]:
        entry = self._corpora_params[corpus]
        missing = [f"'{self._path(corpus)}/{name}' is missing: name a text file with one sentence per line."
                   for name in ("source_file", "target_file") if not entry[name]]
        if missing:
            raise ConfigError(missing)
        return {**self._common(), **self._vocabulary_of(entry), "source_file": entry["source_file"],
                "target_file": entry["target_file"]}

    def _params_of_inference(self) -> dict[str, Any]:
        file = self.params["source_file"]
        if file is None and self.mode == "infer":
            raise ConfigError([f"'{self.params_path}/source_file' is missing: name the text file with the sentences "
                               "for inference, or use --infer_files."])
        entry = next(iter(self._corpora_params.values()))
        return {**self._common(), **self._vocabulary_of(entry), "source_file": file or ""}

    def _common(self) -> dict[str, Any]:
        return {name: value for name, value in self.params.items() if name not in _OWN}

    @property
    def _first(self) -> _Corpus:
        """The first corpus or, in inference, the only one."""
        return next(iter(self._parts.values()))

    def _count(self) -> None:
        """Numbers the examples: first those of the first corpus, repeated as often as it is read, and so on."""
        sizes = [part.num_examples for part in self._parts.values()]
        times = [1] * len(sizes)
        if self.mode == "train":
            ratios = [entry["ratio"] for entry in self._corpora_params.values()]
            if ratios[0] is not None:
                times = repetitions(sizes, ratios)
            elif self.params["temperature"] is not None:
                times = repetitions(sizes, temperature_shares(sizes, self.params["temperature"]).tolist())
        self._sizes, self._times = np.array(sizes), times
        self._ends = np.cumsum(self._sizes * times)
        repeated = [np.concatenate([part.lengths] * n) for part, n in zip(self._parts.values(), times, strict=True)]
        self._lengths = np.concatenate(repeated)
        known = [self.languages.index(entry["language"]) for entry in self._corpora_params.values()]
        self._language_of_part = np.array(known if self.mode in ("train", "eval") else [0], np.int32)

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of ids of source and target ``[num_examples, 2]``; in inference, of the source ``[num_examples]``."""
        if self.mode == "interactive_infer":
            raise DataError("Interactive inference has no data set: pass sentences to make_interactive_batch.")
        return self._lengths

    @property
    def repetitions(self) -> dict[str, int]:
        """How many times an epoch reads each corpus."""
        return dict(zip(self._parts, self._times, strict=True))

    @property
    def source_vocab_size(self) -> int:
        """Size of the source vocabulary."""
        return self._first.source_vocab_size

    @property
    def target_vocab_sizes(self) -> dict[str, int]:
        """Size of the target vocabulary of each language."""
        return {language: tokenizer.vocab_size for language, tokenizer in self._tokenizers.items()}

    @property
    def target_vocab_size(self) -> int:
        """Size of the target vocabulary, which all languages must share.

        Raises:
          ConfigError: the languages have different vocabularies.
        """
        self._check_same_vocabulary()
        return next(iter(self.target_vocab_sizes.values()))

    def _check_same_vocabulary(self) -> None:
        if len({tokenizer.fingerprint for tokenizer in self._tokenizers.values()}) > 1:
            raise ConfigError([f"'{self.params_path}/corpora' has target languages with different vocabularies "
                               f"({', '.join(self.languages)}), but the model has only one decoder: use the base_model "
                               "MultiDecoderModel, or one vocabulary for all."])

    def _located(self, example: int) -> tuple[_Corpus, int, int]:
        """Returns (corpus, index of the example in the corpus, index of the corpus)."""
        number = int(np.searchsorted(self._ends, example, side="right"))
        begin = int(self._ends[number - 1]) if number else 0
        return list(self._parts.values())[number], (int(example) - begin) % int(self._sizes[number]), number

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        examples = np.asarray(examples, np.int64)
        numbers = np.searchsorted(self._ends, examples, side="right")
        inside = (examples - (self._ends - self._sizes * self._times)[numbers]) % self._sizes[numbers]
        made = [(np.flatnonzero(numbers == number), part.make_batch(inside[numbers == number]))
                for number, part in enumerate(self._parts.values()) if (numbers == number).any()]
        batch: dict[str, Any] = {"ids": examples}
        for side in ("source_tensors", "target_tensors"):
            if side in made[0][1]:
                batch[side] = joined([(rows, part[side]) for rows, part in made], len(examples))
        if "target_tensors" in batch:
            batch["target_tensors"].append(self._language_of_part[numbers])
        return batch

    def make_interactive_batch(self, inputs: Sequence[str]) -> dict[str, Any]:
        """Returns a batch of source sentences; see ``ParallelTextDataLayer``."""
        return self._first.make_interactive_batch(inputs)

    def interactive_lengths(self, inputs: Sequence[str]) -> np.ndarray:
        return self._first.interactive_lengths(inputs)

    def make_scoring_batch(self, inputs: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
        return self._first.make_scoring_batch(inputs, targets)

    @property
    def scoring_signature(self) -> dict[str, Any]:
        return self._first.scoring_signature

    @property
    def tokenizers(self) -> tuple[Any, Any]:
        """The tokenizers of source and target; all languages must share a vocabulary."""
        return self._first.tokenizers

    @property
    def num_special(self) -> int:
        """Number of special tokens in each sentence."""
        return self._first.num_special

    @property
    def num_empty_sources(self) -> int:
        """Number of source sentences without a token; see ``ParallelTextDataLayer``."""
        return sum(part.num_empty_sources for part in self._parts.values())

    @property
    def fields(self) -> dict[str, Any]:
        side = [Field(tf.int32, (None, None), time=1, lengths=1), Field(tf.int32, (None,))]
        fields: dict[str, Any] = {"source_tensors": side, "ids": Field(tf.int64, (None,))}
        if self.mode not in ("train", "eval"):
            return fields
        return {**fields, "target_tensors": [*side, Field(tf.int32, (None,))]}

    def describe_example(self, example: int) -> str:
        part, inside, _ = self._located(example)
        return part.describe_example(inside)

    def language_of(self, example: int) -> str:
        """Returns the target language of an example."""
        return self.languages[int(self._language_of_part[self._located(example)[2]])]

    def reference_text(self, example: int) -> str:
        """Returns an example's line of its target file; see ``ParallelTextDataLayer``."""
        part, inside, _ = self._located(example)
        return part.reference_text(inside)

    def ids_to_text(self, ids: Any, language: str | None = None) -> str:
        """Returns the text of target ids ``[time]`` up to EOS; ``language`` is needed if vocabularies differ."""
        return self._tokenizers[language or self.languages[0]].decode(ids)

    def source_to_text(self, ids: Any) -> str:
        """Returns the text of source ids ``[time]`` up to EOS, without special tokens."""
        return self._first.source_to_text(ids)

    def source_tokens(self, example: int, row: int) -> list[str]:
        """Returns the tokens of a source sentence in inference; see ``ParallelTextDataLayer``."""
        return self._first.source_tokens(example, row)

    def target_tokens(self, ids: Any) -> list[str]:
        """Returns the tokens of target ids ``[time]`` up to EOS; all languages must share a vocabulary."""
        return self._first.target_tokens(ids)

    def tokens_to_text(self, tokens: Sequence[str]) -> str:
        """Returns the text that target tokens form; all languages must share a vocabulary."""
        return self._first.tokens_to_text(tokens)

    def examine(self) -> list[str]:
        """Examines all corpora, and returns the share of each in the examples."""
        lines = [f"{name or 'source_file'}: {line}" for name, part in self._parts.items() for line in part.examine()]
        shares = self._sizes * self._times / self._ends[-1]
        rows = zip(self._parts, self._sizes, self._times, shares, strict=True)
        return lines + [f"{name}: {size:,} examples, read {times}×, {share:.1%} of an epoch"
                        for name, size, times, share in rows if name]

    def remarks(self) -> list[str]:
        """Returns lines about the unknown tokens of each corpus; see ``ParallelTextDataLayer``."""
        return [line for part in self._parts.values() for line in part.remarks()]

    def report_dropped(self) -> dict[str, int]:
        """Returns the number of training pairs that were dropped from each corpus, for each reason."""
        return {f"{reason} ({name})": count for name, part in self._parts.items()
                for reason, count in part.report_dropped().items()}

    @property
    def num_cut(self) -> int:
        """Number of pairs that are truncated to ``max_length``."""
        return sum(part.num_cut for part in self._parts.values())

    def cut_remark(self) -> str:
        """Returns a line about the pairs of each corpus that are truncated; see ``ParallelTextDataLayer``."""
        return "\n".join(filter(None, (part.cut_remark() for part in self._parts.values())))

    @property
    def newest_cut(self) -> np.ndarray:
        """Indices of the truncated inputs of the newest interactive batch."""
        return self._first.newest_cut

    def assets(self) -> dict[str, str]:
        """Returns a dict of asset name → path of the vocabularies or SentencePiece models of both sides."""
        own = {f"corpora_{name}_{key}": entry[key] for name, entry in self._corpora_params.items()
               for key in _ASSETS if entry[key]}
        return {**super().assets(), **own}

    def data_files(self, *kinds: str) -> dict[str, str]:
        """Returns a dict of name → path of the text files."""
        if kinds and DATA not in kinds:
            return {}
        if self.mode not in ("train", "eval"):
            return super().data_files(*kinds)
        return {f"{name} {key}": entry[key] for name, entry in self._corpora_params.items()
                for key in ("source_file", "target_file") if entry[key]}

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        changed = super().params_with_assets(params, paths)
        corpora = {}
        for name, entry in (params.get("corpora") or {}).items():
            known = {key: paths[f"corpora_{name}_{key}"] for key in _ASSETS if f"corpora_{name}_{key}" in paths}
            corpora[name] = {**entry, **known} if known else entry
        return {**changed, "corpora": corpora}

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the given text files; see ``ParallelTextDataLayer``."""
        found = ParallelTextDataLayer.params_for_files(files)
        return {name: found[name] for name in ("source_file", "index_dir")}
