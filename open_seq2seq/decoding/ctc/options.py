"""Options of CTC decoding, shared by configs and scripts."""

from __future__ import annotations

import math
from typing import Any

from open_seq2seq.config.files import LARGE
from open_seq2seq.config.params import FREE, Param, with_change

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
        "n_best": Param(int, 1, "Number of hypotheses that the beam search returns. If above 1, inference also writes "
                        "them to <output>.n_best.tsv, for scripts/decode.py --mode rescore.", "hypotheses", minimum=1),
    })
