"""Converts logits to text by prefix beam search, optionally with a language model, and its options."""

from __future__ import annotations

import math
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.config.files import LARGE
from open_seq2seq.config.params import FREE, Param, check_params, with_change
from open_seq2seq.decoding.ctc.frames import Pruning, Word, align, words_of
from open_seq2seq.decoding.ctc.prefix_search import Hypothesis, PrefixSearch
from open_seq2seq.decoding.ctc.scorers import CharacterScorer, WordScorer
from open_seq2seq.decoding.ctc.symbols import Symbols
from open_seq2seq.decoding.ngram import LanguageModel, load_language_model
from open_seq2seq.decoding.ngram.estimation import CASES, SPACE
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, DataError

_TEXT = (str, type(None))
_NUMBER = (float, type(None))


def beam_search_params() -> dict[str, Any]:
    """Returns the declarations of the options of ``CtcDecoder``, by name."""
    return with_change(FREE, {
        "beam_width": Param(int, 128, "Number of prefixes that the beam search keeps after each frame.", "prefixes",
                            minimum=1, maximum=10**4),
        "alpha": Param(float, 0.5, "Weight of the language model's natural log probabilities."),
        "beta": Param(float, 1.0, "With a language model: bonus for each word (lm_type character: for each symbol).",
                      "nats"),
        "lm_path": Param(_TEXT, None, "Language model: an ARPA file, plain or .gz, or a KenLM binary file if the "
                         "package kenlm is installed.", file=LARGE),
        "lm_type": Param(["word", "character"], "word", "Unit of the language model. word: words; its vocabulary is "
                         "also the decoder's lexicon. character: the symbols of the alphabet, with <space> for the "
                         "space."),
        "lm_vocabulary": Param(_TEXT, None, "Text file with the vocabulary of a KenLM binary file.", file=LARGE),
        "lm_case": Param(["as_is", "lower", "upper"], "as_is", "With lm_type word: conversion of the language model's "
                         "words to the alphabet's case."),
        "oov_penalty": Param(_NUMBER, None, "With lm_type word: cost of a word that the language model does not know, "
                             "in addition to its probability as <unk>; None forbids such words.", "nats", minimum=0.0),
        "lm_sentence_end": Param(bool, True, "Whether to add the language model's score for the end of the sentence."),
        "beam_threshold": Param(float, 12.0, "Maximum difference between the best score and the score of a prefix that "
                                "is kept.", "nats", minimum=0.0, maximum=math.inf),
        "symbol_threshold": Param(float, -7.0, "Log probability below which a symbol is not considered in a frame, "
                                  "unless it is the likeliest.", "nats", minimum=-math.inf, maximum=0.0),
        "top_symbols": Param(int, 40, "Maximum number of symbols considered in a frame.", "symbols", minimum=1),
        "n_best": Param(int, 1, "Number of hypotheses that the beam search returns, at most beam_width. If above 1, "
                        "inference also writes them to <output>.n_best.tsv, for scripts/decode.py --mode rescore.",
                        "hypotheses", minimum=1),
    })


_MANY = 0.2
"""Above this share of words that cannot be used, a warning is printed."""

_decoders: list[CtcDecoder] = []  # the decoders, in a worker process


def left_out_remarks(subject: str, words: Sequence[str], total: int, usable_with: Callable[[str], int],
                     remedy: str) -> list[str]:
    """Returns lines about words that cannot be used: none if there are none, and a warning if there are many.

    Args:
      subject: what the words are and why they cannot be used.
      words: the words.
      total: the number of all words.
      usable_with: function that returns how many of the words could be used with a value of ``lm_case``.
      remedy: what to do if the case of letters is not the reason.
    """
    if not words:
        return []
    lines = [f"{subject}: {len(words):,} of {total:,} ({100 * len(words) / total:.1f} %), such as {words[0][:40]!r}"]
    if len(words) > _MANY * total:
        cases = {case: usable_with(case) for case in CASES if case != "as_is"}
        best = max(cases, key=cases.__getitem__)
        if 2 * cases[best] > len(words):
            remedy = f"set lm_case to {best}, because {cases[best]:,} of them differ only in the case of letters"
        lines.append(f"WARNING: {remedy}.")
    return lines


class Transcript(NamedTuple):
    """One hypothesis of an utterance.

    Attributes:
      text: the words, separated by single spaces.
      ids: ids of the symbols in the text's likeliest spelling ``[symbols]``.
      acoustic: log probability of the text under the acoustic model, in nats.
      lm: weighted log probability under the language model, plus bonuses, in nats.
      score: ``acoustic`` + ``lm``.
    """

    text: str
    ids: np.ndarray
    acoustic: float
    lm: float
    score: float


class CtcDecoder:
    """Finds the likeliest texts of utterances.

    Args:
      labels: the alphabet without the blank, in the order of the logits.
      params: options of ``beam_search_params``; options that are missing have their default values.
      language_model: language model to use instead of ``lm_path``.
      path: path of the parameters in the config, for messages.

    Raises:
      ConfigError: a parameter is unknown or invalid.
      DataError: the language model cannot be read, or does not fit the alphabet.
    """

    def __init__(self, labels: Sequence[str], params: Mapping[str, Any] | None = None,
                 language_model: LanguageModel | None = None, path: str = "") -> None:
        checked, problems = check_params(params or {}, {}, beam_search_params(), path)
        if not problems and checked["n_best"] > checked["beam_width"]:
            problems = [f"'{path}{'/' * bool(path)}n_best' is {checked['n_best']}, but the beam has only "
                        f"{checked['beam_width']} hypotheses: make beam_width at least as large."]
        if problems:
            raise ConfigError(problems)
        self.params = checked
        self.symbols = Symbols(labels)
        if language_model is None and checked["lm_path"] is not None:
            language_model = load_language_model(checked["lm_path"], checked["lm_vocabulary"])
        self._language_model = language_model
        self._scorer: WordScorer | CharacterScorer | None = self._make_scorer()
        self._pruning = Pruning(checked["beam_width"], checked["beam_threshold"], checked["symbol_threshold"],
                                checked["top_symbols"])

    def _make_scorer(self) -> WordScorer | CharacterScorer | None:
        model, params = self._language_model, self.params
        if model is None:
            return None
        name = params["lm_path"] or "the language model"
        if params["lm_type"] == "character":
            known = set(model.words)
            labels = [SPACE if label == " " else label for label in self.symbols.labels if label]
            if not any(label in known for label in labels if label != SPACE):
                raise DataError(f"The vocabulary of {name} has none of the alphabet's symbols: set lm_type='word' if "
                                "this is a model of words.")
            _say(left_out_remarks(f"Symbols of the alphabet that are not in the vocabulary of {name}",
                                  [label for label in labels if label not in known], len(labels), lambda case: 0,
                                  "use a language model of texts in this alphabet"))
            return CharacterScorer(model, self.symbols, params["alpha"], params["beta"], params["lm_sentence_end"])
        scorer = WordScorer(model, self.symbols, params["alpha"], params["beta"], params["oov_penalty"],
                            params["lm_case"], params["lm_sentence_end"])
        if scorer.lexicon.outside <= 1:
            raise DataError(f"No word of {name} can be spelled in the alphabet's characters: set lm_case if only "
                            "their case differs, otherwise use a language model whose words consist of these "
                            "characters.")
        self._say_left_out(scorer, name)
        if not self.symbols.starts_word.any():
            raise DataError("The alphabet has neither a space nor pieces that begin words, so a model of words cannot "
                            "be used: use a model of characters with lm_type='character'.")
        return scorer

    def _say_left_out(self, scorer: WordScorer, name: str) -> None:
        lexicon = scorer.lexicon
        _say(left_out_remarks(
            f"Words of {name} that the alphabet cannot spell, so that no transcript has them", lexicon.left_out,
            scorer.num_words, lambda case: sum(map(lexicon.can_spell, map(CASES[case], lexicon.left_out))),
            "use a language model whose words consist of the alphabet's characters"))

    def with_weights(self, alpha: float, beta: float) -> CtcDecoder:
        """Returns a copy of the decoder with another ``alpha`` and ``beta``, which shares the language model."""
        other = CtcDecoder.__new__(CtcDecoder)
        other.__dict__ = dict(self.__dict__, params={**self.params, "alpha": alpha, "beta": beta})
        other._scorer = self._scorer.with_weights(alpha, beta) if self._scorer else None
        return other

    def search(self) -> PrefixSearch:
        """Returns a new search, which accepts an utterance in chunks."""
        return PrefixSearch(len(self.symbols) + 1, self._pruning, self._scorer)

    def decode(self, logits: np.ndarray) -> list[Transcript]:
        """Returns the transcripts of one utterance's logits ``[time, vocabulary]``, best first, at least one."""
        search = self.search()
        search.advance(np.asarray(logits))
        return self.transcripts(search)

    def transcripts(self, search: PrefixSearch) -> list[Transcript]:
        """Returns a search's transcripts, best first; the probabilities of hypotheses with the same text are added."""
        texts: dict[str, list[Hypothesis]] = {}
        for hypothesis in search.best(self.params["beam_width"]):
            texts.setdefault(self.symbols.text(hypothesis.ids.tolist()), []).append(hypothesis)
        found = [_added_up(text, hypotheses) for text, hypotheses in texts.items()]
        found.sort(key=lambda transcript: -transcript.score)
        return found[:self.params["n_best"]] or [Transcript("", np.zeros(0, np.int64), -np.inf, 0.0, -np.inf)]

    def words(self, logits: np.ndarray, transcript: Transcript) -> list[Word]:
        """Returns the words of a transcript with their frames and confidences."""
        return words_of(self.symbols, transcript.ids.tolist(), align(logits, transcript.ids.tolist()))

    def __call__(self, logits: np.ndarray, lengths: np.ndarray) -> list[list[Transcript]]:
        """Returns the best transcripts of each utterance of a batch.

        Args:
          logits: ``[batch, time, vocabulary]``, the blank last.
          lengths: number of frames of each utterance ``[batch]``.
        """
        return [self.decode(utterance[:length]) for utterance, length in zip(logits, lengths, strict=True)]


def _say(lines: list[str]) -> None:
    for line in lines:
        deco_print(line)


def _added_up(text: str, hypotheses: list[Hypothesis]) -> Transcript:
    score = float(np.logaddexp.reduce([h.score for h in hypotheses]))
    acoustic = float(np.logaddexp.reduce([h.acoustic for h in hypotheses]))
    return Transcript(text, hypotheses[0].ids, acoustic, score - acoustic, score)


def decode_all(decoders: Sequence[CtcDecoder], utterances: Iterable[np.ndarray],
               processes: int) -> list[list[list[Transcript]]]:
    """Decodes all utterances with each decoder in one pool of processes.

    Args:
      decoders: the decoders, which may share a language model.
      utterances: logits ``[time, vocabulary]`` of each utterance.
      processes: number of worker processes; with 1, decoding runs in this process.

    Returns:
      For each decoder, the transcripts of each utterance, as returned by ``CtcDecoder.decode``.
    """
    utterances = list(utterances)
    count = len(decoders) * len(utterances)
    if processes <= 1 or count <= 1:
        return [[decoder.decode(utterance) for utterance in utterances] for decoder in decoders]
    processes = min(processes, count)
    numbers = [number for number in range(len(decoders)) for _ in utterances]
    # Forked processes share the language model's memory, but forking a process with TensorFlow's threads is unsafe.
    method = "spawn" if "tensorflow" in sys.modules else "fork"
    with ProcessPoolExecutor(processes, multiprocessing.get_context(method), _hold, (list(decoders),)) as pool:
        # Most chunks contain several utterances for a single decoder, so that they benefit from its cached scores.
        chunk = max(1, min(len(utterances), count // (4 * processes)))
        found = list(pool.map(_decode, numbers, utterances * len(decoders), chunksize=chunk))
    return [found[begin:begin + len(utterances)] for begin in range(0, count, len(utterances))]


def _hold(decoders: list[CtcDecoder]) -> None:
    _decoders[:] = decoders


def _decode(number: int, logits: np.ndarray) -> list[Transcript]:
    return _decoders[number].decode(logits)
