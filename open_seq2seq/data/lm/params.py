"""Parameters and vocabularies of the data layers that use the vocabulary of a language model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from open_seq2seq.config.files import ASSET
from open_seq2seq.config.params import FREE, REFUSE, Param, check_params, without_effect
from open_seq2seq.data.lm.tokenizers import (
    FittingTokenizer,
    LMVocabulary,
    PieceTokenizer,
    ReviewTokenizer,
    Split,
    VocabularyTokenizer,
    count_tokens,
    review_words,
    split_characters,
    split_normalized_words,
    split_raw_words,
    split_words,
)
from open_seq2seq.data.text2text.text_layer import PATH, TextDataLayer, shared_params
from open_seq2seq.data.text2text.token_table import Column
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.unicode_text import composed, plain

VOCABULARY = "vocab.txt"
"""Name of the vocabulary in ``processed_data_folder``, and in a checkpoint's assets."""
_MODEL = "tokenizer_model"  # name of the SentencePiece model in a checkpoint's assets
_KINDS = ("words", "characters", "sentencepiece")


def tokenizer_params() -> dict[str, Any]:
    """Returns the parameters of the vocabulary and of the tokenizer."""
    shared = shared_params()
    return {
        "tokenizer": Param((dict, type(None)), None, "Tokenizer: {'type': 'words'} (the default) for words separated "
                           "by white space (in text classification, for raw text); {'type': 'characters'}; {'type': "
                           "'sentencepiece', 'model': path} for raw text.", file={"model": ASSET}, on_change=REFUSE),
        "normalize": Param(bool, False, "With the tokenizer words: whether to change the text as the published recipes "
                           "do: @-@ becomes -, every - becomes a word, and \"don 't\" becomes \"do n't\"; in text "
                           "classification, whether to divide it as they do, by the rules of the Penn Treebank.",
                           on_change=REFUSE),
        "lm_vocab_file": Param(PATH, None, "Vocabulary file of a language model; by default, vocab.txt in "
                               "processed_data_folder, which is built from the training text if it does not exist. "
                               "Not used with SentencePiece.", on_change=FREE),
        "min_count": Param((int, type(None)), None, "Rarer tokens of the training text become <unk> when the "
                           "vocabulary is built; by default 3 for words and 1 for characters. An existing vocabulary "
                           "that was built with another number is refused.", "occurrences",
                           minimum=1, on_change=FREE),
        "processed_data_folder": Param(PATH, None, "Folder of the vocabulary, and of indexes of large texts; "
                                       "WKTDataLayer uses wkt-processed_data by default.", on_change=FREE),
        **{name: shared[name] for name in ("map_parallel_calls", "prefetch_buffer_size")},
        **without_effect("delimiter", "shuffle_buffer_size", "use_targets", "pad_lengths_to_eight",
                         "pad_vocab_to_eight"),
    }


class LMTextDataLayer(TextDataLayer):
    """Base class of data layers that use the vocabulary of a language model.

    Attributes:
      tokenizer: the tokenizer.
    """

    tokenizer: Any

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        of_model = {} if model is None else {name: model.params.get(name) for name in ("lm_vocab_file",
                                                                                  "processed_data_folder")}
        missing = {name: value for name, value in of_model.items() if params.get(name) is None and value}
        super().__init__({**params, **missing}, model, name, mode)

    @property
    def tokens(self) -> Sequence[str]:
        """The tokens in the order of their ids."""
        return self.tokenizer.tokens

    @property
    def end_id(self) -> int:
        """The id that ends every line of running text; other texts may begin and end with it."""
        return self.tokenizer.end_id

    def _remedy(self, column: Column) -> str:
        return "if it is the wrong one, correct lm_vocab_file" if self.params["lm_vocab_file"] else (
            "if it was built from another one, remove it, or name another processed_data_folder")

    def assets(self) -> dict[str, str]:
        """Returns the vocabulary file or the SentencePiece model, and the list of classes, if there is one."""
        file = vocabulary_path(self.params)
        words = (self.params["tokenizer"] or {}).get("type") != "sentencepiece"
        return {**super().assets(), **({VOCABULARY: file} if words and file else {})}

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        changed = super().params_with_assets(params, paths)
        return {**changed, "lm_vocab_file": paths[VOCABULARY]} if VOCABULARY in paths else changed


def tokenizer_kind(params: Mapping[str, Any], path: str) -> str:
    """Returns the type of the tokenizer; raises ConfigError if its settings are invalid."""
    settings = dict(params["tokenizer"] or {"type": "words"})
    kind = settings.pop("type", None)
    problems = []
    if kind not in _KINDS:
        problems.append(f"'{path}/tokenizer/type' must be 'words', 'characters' or 'sentencepiece', got {kind!r}.")
    else:
        allowed = {"model": Param(PATH)} if kind == "sentencepiece" else {}
        problems += check_params(settings, {}, allowed, f"{path}/tokenizer")[1]
        if kind == "sentencepiece" and not settings.get("model"):
            problems.append(f"'{path}/tokenizer/model' is missing: name the SentencePiece model.")
        if kind != "words" and params["normalize"]:
            problems.append(f"'{path}/normalize' is True, which works only with the tokenizer words, but the type is "
                            f"{kind}: set normalize to False, or the type to words.")
    if problems:
        raise ConfigError(problems)
    return kind


def vocabulary_path(params: Mapping[str, Any]) -> str | None:
    """Returns the path of the vocabulary file, or None if no parameter names it."""
    folder = params["processed_data_folder"]
    return params["lm_vocab_file"] or (os.path.join(folder, VOCABULARY) if folder else None)


def tokens_in(assets: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the tokens of a checkpoint in the order of their ids, or None if it has no list of them.

    Args:
      assets: paths of the files in the checkpoint, by name.
    """
    if VOCABULARY in assets:
        return LMVocabulary.load(str(assets[VOCABULARY])).tokens
    return tuple(PieceTokenizer(str(assets[_MODEL])).tokens) if _MODEL in assets else None


def build_vocabulary(params: Mapping[str, Any], lines: Iterable[Sequence[str]], source: str) -> LMVocabulary:
    """Returns the vocabulary of a training text, without the tokens that are rarer than ``min_count``.

    Args:
      params: parameters declared by ``tokenizer_params``.
      lines: the tokens of each line.
      source: file or folder of the text, which is printed.
    """
    vocabulary = LMVocabulary.of_counts(count_tokens(lines), _settings(params)["min_count"])
    deco_print(f"Built the vocabulary {vocabulary_path(params)} with {len(vocabulary):,} tokens from {source}")
    return vocabulary


def _settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that decide which tokens a vocabulary has, by the names of their parameters."""
    kind = (params["tokenizer"] or {}).get("type", "words")
    return {"tokenizer/type": kind, "normalize": params["normalize"],
            "min_count": params["min_count"] or (3 if kind == "words" else 1)}


def _check_settings(vocabulary: LMVocabulary, params: Mapping[str, Any], path: str) -> None:
    """Raises ConfigError if a vocabulary is known to have been built with other settings."""
    problems = []
    for name, now in _settings(params).items():
        before = vocabulary.settings.get(name, now)
        if before != now and (name != "min_count" or params["min_count"] is not None):
            problems.append(f"'{path}/{name}' is {now!r}, but the vocabulary {shown(vocabulary.path)} was built with "
                            f"{before!r}: set it to {before!r}, or name another processed_data_folder, where a new "
                            "vocabulary will be built.")
    if problems:
        raise ConfigError(problems)


def make_tokenizer(params: Mapping[str, Any], path: str,
                   build: Callable[[Callable[[str], Any]], LMVocabulary] | None = None,
                   fit: bool = False, periods: bool = True) -> VocabularyTokenizer | PieceTokenizer:
    """Returns the tokenizer that parameters describe.

    Args:
      params: parameters declared by ``tokenizer_params``.
      path: path of the parameters in the config, for messages.
      build: function that takes the function that splits a line, and returns the vocabulary. It is called if
        lm_vocab_file is not set and processed_data_folder contains no vocabulary; the result is saved there. None if
        the file must exist.
      fit: whether the tokenizer ``words`` gets raw text, with punctuation and capitals; see ``FittingTokenizer``, and
        ``ReviewTokenizer`` with ``normalize``.
      periods: of raw text with ``normalize``, whether every period is a token.

    Raises:
      ConfigError: parameters are missing or invalid, or differ from those with which the vocabulary in
        processed_data_folder was built.
      DataError: the vocabulary or the model cannot be used.
    """
    kind = tokenizer_kind(params, path)
    if kind == "sentencepiece":
        return PieceTokenizer(params["tokenizer"]["model"])
    split = split_characters if kind == "characters" else (
        split_normalized_words if params["normalize"] else split_words)
    file = vocabulary_path(params)
    if file is None:
        raise ConfigError([f"'{path}/lm_vocab_file' is missing: name the vocab.txt of a language model or, to train "
                           "without one, a folder for the new vocabulary as processed_data_folder."])
    if os.path.exists(file):
        vocabulary = LMVocabulary.load(file)
        if not params["lm_vocab_file"]:
            _check_settings(vocabulary, params, path)
    elif build is None or params["lm_vocab_file"]:
        raise DataError(f"The file {file} with the vocabulary does not exist: name the model's vocab.txt as "
                        "lm_vocab_file, or train with processed_data_folder, where training writes it.")
    else:
        vocabulary = build(_raw_split(params, periods) if fit and kind == "words" else
                           lambda line: split(composed(line)))
        vocabulary.save(file, _settings(params))
    if fit and kind == "words":
        return ReviewTokenizer(vocabulary, periods) if params["normalize"] else FittingTokenizer(vocabulary, split, " ")
    return VocabularyTokenizer(vocabulary, split, "" if kind == "characters" else " ")


def _raw_split(params: Mapping[str, Any], periods: bool) -> Split:
    """Returns the function that splits raw text for a new vocabulary."""
    if params["normalize"]:
        return lambda line: review_words(line, periods=periods)
    return lambda line: split_raw_words(plain(line))
