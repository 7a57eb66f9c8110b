"""The data layer for several parallel corpora, in one or several target languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from open_seq2seq.config.files import ASSET, DATA
from open_seq2seq.config.params import REFUSE, SAY, Param, check_params
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.text2text.text2text import FIXED, ParallelTextDataLayer
from open_seq2seq.data.text2text.text_layer import PATH, max_length_param, shared_params
from open_seq2seq.data.text2text.token_table import Column, TokenTable
from open_seq2seq.data.text2text.tokenizers import make_tokenizers
from open_seq2seq.utils.errors import ConfigError

_FILES = {"source_file": DATA, "target_file": DATA, "tgt_vocab_file": ASSET, "target_model": ASSET}
_ASSETS = [name for name, kind in _FILES.items() if kind == ASSET]
_MOST_PASSES = 50
_TOLERANCE = 0.01
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class MultiCorpusDataLayer(ParallelTextDataLayer):
    """Sentence pairs from several parallel corpora, mixed in given proportions, for one or several target languages.

    ``corpora`` is a dict of name → ``{"source_file": …, "target_file": …}``. These further entries are optional:

    * ``language``: the target language; by default the corpus's name;
    * ``tgt_vocab_file``, or ``target_model`` for SentencePiece: the vocabulary of that language; by default the one
      that the layer's own parameters name;
    * ``ratio``: the corpus's share of the training examples, relative to the ratios of the other corpora.

    In training, a corpus is read a whole number of times per epoch: once without ``ratio`` and ``temperature``,
    otherwise as often as its share requires (see ``repetitions``). A batch can contain examples of all corpora.
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

    _is_labelled = True

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
        inherited = ParallelTextDataLayer.get_optional_params()
        return {
            **DataLayer.get_optional_params(),
            **shared_params(),
            **{name: inherited[name] for name in ("cut_long", "pad_lengths_to_eight", "use_start_token")},
            "temperature": Param((float, type(None)), None, "If set, the share of a corpus in training is proportional "
                                 "to (number of examples)^(1 / temperature), so that small corpora occur more often; "
                                 "cannot be combined with ratio.", minimum=1.0, maximum=1000.0),
            "source_file": Param(PATH, None, "Text file with one source sentence per line, for inference.", file=DATA),
        }

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**params, "source_file": None}

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, **FIXED}

    def _path(self, corpus: str) -> str:
        return f"{self.params_path}/corpora/{corpus}"

    def _problems(self) -> list[str]:
        self._corpora, problems = self._checked_corpora()
        self.languages = list(dict.fromkeys(entry["language"] for entry in self._corpora.values()))
        return problems or super()._problems()

    def _checked_corpora(self) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """Returns the entries of ``corpora`` with all their keys, and one sentence for each problem."""
        corpora, path = self.params["corpora"], self.params_path
        optional = {**dict.fromkeys(_FILES, Param(PATH)), "language": Param(PATH),
                    "ratio": Param((float, type(None)), above=0.0)}
        checked, problems = {}, [] if corpora else [f"'{path}/corpora' is empty: name at least one corpus."]
        for name, entry in corpora.items():
            if not isinstance(entry, Mapping):
                problems.append(f"'{self._path(name)}' must be a dict with source_file and target_file, got {entry!r}.")
                continue
            checked[name], problems_of_entry = check_params(entry, {}, optional, self._path(name))
            checked[name]["language"] = checked[name].get("language") or name
            problems += problems_of_entry
        problems += [f"'{path}/corpora' has the language {entry['language']!r}, but the names of languages must "
                     "consist of letters, digits, '_' and '-', and begin with a letter or digit."
                     for entry in checked.values() if not _NAME.fullmatch(str(entry["language"]))]
        return checked, problems + (self._ratio_problems(checked) or self._vocabulary_problems(checked))

    def _missing(self) -> list[str]:
        if self.mode == "infer" and self.params["source_file"] is None:
            return [f"'{self.params_path}/source_file' is missing: name the text file with the sentences for "
                    "inference, or use --infer_files."]
        return [f"'{self._path(corpus)}/{name}' is missing: name a text file with one sentence per line."
                for corpus, entry in self._corpora.items() for name in ("source_file", "target_file")
                if self._has_targets and not entry[name]]

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

    def _prepare(self) -> None:
        first, *others = self.languages
        self._source_tokenizer, self._target_tokenizer = make_tokenizers(self._vocabularies_of(first), self.params_path)
        self._tokenizers = {first: self._target_tokenizer, **{
            language: make_tokenizers(self._vocabularies_of(language), self.params_path, ["target"])[0]
            for language in others}}

    def _vocabularies_of(self, language: str) -> dict[str, Any]:
        """Returns the layer's parameters with the target vocabulary, or the target model, of a language."""
        params = dict(self.params)
        entry = next(entry for entry in self._corpora.values() if entry["language"] == language)
        if entry["target_model"]:
            params["tokenizer"] = {**(params["tokenizer"] or {"type": "sentencepiece"}),
                                   "target_model": entry["target_model"]}
        return {**params, "tgt_vocab_file": entry["tgt_vocab_file"] or params["tgt_vocab_file"]}

    def _columns(self, corpus: str | None = None) -> list[Column]:
        if not self._has_targets:
            return super()._columns()
        entry = self._corpora[corpus or next(iter(self._corpora))]
        return [Column("source", self._source_tokenizer, entry["source_file"]),
                Column("target", self._tokenizers[entry["language"]], entry["target_file"])]

    def _read(self, thorough: bool) -> list[TokenTable]:
        if not self._has_targets:
            return super()._read(thorough)
        return [self._table_of_files(self._columns(name), thorough, name=name,
                                     labels=self.languages.index(entry["language"]))
                for name, entry in self._corpora.items()]

    def _repetitions(self, sizes: Sequence[int]) -> list[int]:
        ratios = [entry["ratio"] for entry in self._corpora.values()]
        if self.mode == "train" and ratios[0] is not None:
            return repetitions(sizes, ratios)
        if self.mode == "train" and self.params["temperature"] is not None:
            return repetitions(sizes, temperature_shares(sizes, self.params["temperature"]).tolist())
        return super()._repetitions(sizes)

    @property
    def repetitions(self) -> dict[str, int]:
        """How many times an epoch reads each corpus."""
        return {table.name: times for table, times in zip(self._tables, self._loaded.times, strict=True)}

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
        if len({tokenizer.fingerprint for tokenizer in self._tokenizers.values()}) > 1:
            raise ConfigError([f"'{self.params_path}/corpora' has target languages with different vocabularies "
                               f"({', '.join(self.languages)}), but the model has only one decoder: use the base_model "
                               "MultiDecoderModel, or one vocabulary for all."])
        return super().target_vocab_size

    def language_of(self, example: int) -> str:
        """Returns the target language of an example."""
        table, inside = self._located(example)
        return self.languages[0 if table.labels is None else int(table.labels[inside])]

    def tokenizer_of(self, language: str) -> Any:
        """Returns the tokenizer of a target language."""
        return self._tokenizers[language]

    def ids_to_text(self, ids: Any, language: str | None = None) -> str:
        """Returns the text of target ids ``[time]`` up to EOS; ``language`` is needed if vocabularies differ."""
        return self.tokenizer_of(language or self.languages[0]).decode(ids)

    def examine(self) -> list[str]:
        """Examines all corpora, and returns the share of each in the examples."""
        lines, examples = super().examine(), self._loaded
        shares = examples.sizes * examples.times / len(examples.lengths)
        rows = zip(self._tables, examples.times, shares, strict=True)
        return lines + [f"{table.name}: {len(table):,} examples, read {times}×, {share:.1%} of an epoch"
                        for table, times, share in rows if table.name]

    def assets(self) -> dict[str, str]:
        """Returns a dict of asset name → path of the vocabularies or SentencePiece models of both sides."""
        of_corpora = {f"corpora_{name}_{key}": entry[key] for name, entry in self._corpora.items()
               for key in _ASSETS if entry[key]}
        return {**super().assets(), **of_corpora}

    def data_files(self, *kinds: str) -> dict[str, str]:
        """Returns a dict of name → path of the text files."""
        if kinds and DATA not in kinds:
            return {}
        if not self._has_targets:
            return super().data_files(*kinds)
        return {f"{name} {key}": entry[key] for name, entry in self._corpora.items()
                for key in ("source_file", "target_file") if entry[key]}

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        changed = super().params_with_assets(params, paths)
        corpora = {}
        for name, entry in (params.get("corpora") or {}).items():
            moved = {key: paths[f"corpora_{name}_{key}"] for key in _ASSETS if f"corpora_{name}_{key}" in paths}
            corpora[name] = {**entry, **moved} if moved else entry
        return {**changed, "corpora": corpora}


def temperature_shares(sizes: Sequence[int], temperature: float) -> np.ndarray:
    """Returns shares proportional to size^(1 / temperature), which sum to 1.

    Temperature 1 keeps the sizes' proportions; higher temperatures move the shares towards equal ones
    (Arivazhagan et al. 2019, https://arxiv.org/abs/1907.05019, section 4.2).
    """
    logs = np.log(np.asarray(sizes, np.float64)) / temperature
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def repetitions(sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """Returns how many times each corpus is read in one epoch.

    All examples of a corpus occur equally often. The corpus that is read least often is read from 1 to 50 times: the
    smallest number for which the shares of all corpora are correct to within 1 % of the share. If there is no such
    number, the one with the smallest error is used.

    Args:
      sizes: number of examples of each corpus, at least 1.
      shares: wanted share of each corpus in the examples of an epoch, above 0.
    """
    wanted = np.asarray(shares, np.float64) / np.sum(shares)
    rates = wanted / np.asarray(sizes, np.float64)
    best, error = np.ones(len(sizes), np.int64), np.inf
    for passes in range(1, _MOST_PASSES + 1):
        counts = np.maximum(1, np.rint(rates / rates.min() * passes)).astype(np.int64)
        read = counts * np.asarray(sizes, np.float64)
        off = float(np.abs(read / read.sum() / wanted - 1.0).max())
        if off < error:
            best, error = counts, off
        if error <= _TOLERANCE:
            break
    return best.tolist()
