"""The options of CTC decoding, declared once for configs and programs."""

from __future__ import annotations

import math
from typing import Any

from open_seq2seq.config.files import LARGE
from open_seq2seq.config.params import FREE, Param, with_change

_TEXT = (str, type(None))
_NUMBER = (float, type(None))


def beam_search_params() -> dict[str, Any]:
    """Returns name to declaration of the options of ``CtcDecoder``."""
    return with_change(FREE, {
        "beam_width": Param(int, 128, "Prefixes that the beam search keeps after each frame.", "prefixes",
                            minimum=1, maximum=10**6),
        "alpha": Param(float, 0.5, "Weight of the language model's natural log probabilities."),
        "beta": Param(float, 1.0, "What each word (with a character model: each symbol) gains.", "nats"),
        "lm_path": Param(_TEXT, None, "Language model: an ARPA file, plain or .gz, or KenLM's binary format where the "
                         "package kenlm is installed.", file=LARGE),
        "lm_type": Param(["word", "character"], "word", "What the language model's words are: words, which are also "
                         "the lexicon, or the alphabet's symbols, with <space> for the space."),
        "lm_vocabulary": Param(_TEXT, None, "Text file with the words of a KenLM binary.", file=LARGE),
        "lm_case": Param(["as_is", "lower", "upper"], "as_is", "How the language model's words are spelled in the "
                         "alphabet."),
        "oov_penalty": Param(_NUMBER, None, "Cost of a word that the language model does not have, besides its "
                             "probability as <unk>; None forbids such words.", "nats", minimum=0.0),
        "lm_sentence_end": Param(bool, True, "Whether the language model's probability of the sentence's end counts."),
        "beam_threshold": Param(float, 12.0, "Prefixes that far below the best one are dropped.", "nats", minimum=0.0,
                                maximum=math.inf),
        "symbol_threshold": Param(float, -7.0, "Symbols of lower log probability are not considered in a frame, except "
                                  "the likeliest.", "nats", minimum=-math.inf, maximum=0.0),
        "top_symbols": Param(int, 40, "How many symbols are considered in a frame at most.", "symbols", minimum=1),
        "n_best": Param(int, 1, "How many hypotheses the beam search returns; above 1 inference also writes them to "
                        "<output>.n_best.tsv, for scripts/decode.py --mode rescore.", "hypotheses", minimum=1),
    })
