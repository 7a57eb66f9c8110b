"""Parameters of beam search that translation decoders share, and checks of their combinations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, with_change
from open_seq2seq.decoding.hypothesis_scores import CTRANSLATE2, WU


def beam_params() -> dict[str, Any]:
    """Returns the parameters of beam search that are suitable for any autoregressive decoder."""
    return with_change(FREE, {
        "beam_rules": Param([WU, CTRANSLATE2], WU, "How beam search scores hypotheses and when it stops. wu: log "
                            "probability divided by ((5 + length) / 6)^a, where a is the exponent of the length "
                            "penalty; the search stops when no hypothesis can enter the result any more. ctranslate2: "
                            "log probability divided by length^a, and the stopping rule of CTranslate2."),
        "beam_groups": Param(int, 1, "Number of groups of diverse beam search; must divide the beam size. 1 is "
                             "ordinary beam search.", minimum=1, maximum=10**4),
        "diversity_penalty": Param(float, 0.5, "With beam_groups above 1: number subtracted from an id's log "
                                   "probability for each hypothesis of an earlier group that continues with this id.",
                                   minimum=0.0),
    })


def coverage_params() -> dict[str, Any]:
    """Returns the parameter of the coverage penalty, for decoders whose layers record their attention to the source."""
    return with_change(FREE, {
        "coverage_penalty": Param(float, 0.0, "Weight of the coverage penalty (Wu et al. 2016): this number times the "
                                  "sum over source positions of log(min(attention received, 1)) is added to the score "
                                  "of a hypothesis. The attention is the mean over layers and heads. 0 disables it.",
                                  minimum=0.0),
    })


def max_length_factor_param() -> dict[str, Any]:
    """Returns the parameter that limits the length of a translation to a multiple of its source's length."""
    return with_change(FREE, {
        "max_length_factor": Param((float, type(None)), None, "Maximum length of a translation divided by the length "
                                   "of its source; None disables this limit. The limit set by extra_decode_length "
                                   "also applies.", "tokens per token", above=0.0,
                                   maximum=1000.0),
    })


def limits_by_factor(lengths: tf.Tensor, factor: float) -> tf.Tensor:
    """Returns the maximum lengths of translations, ``[batch]`` int32: lengths of sources × factor, rounded up."""
    return tf.cast(tf.math.ceil(tf.cast(lengths, tf.float32) * factor), tf.int32)


def shorter_limits(limits: tf.Tensor, lengths: tf.Tensor, factor: float | None) -> tf.Tensor:
    """Returns the smaller of ``limits`` and ``limits_by_factor``; ``limits`` if ``factor`` is None."""
    return limits if factor is None else tf.minimum(limits, limits_by_factor(lengths, factor))


def beam_problems(params: Mapping[str, Any], path: str, beam_size_param: str) -> list[str]:
    """Returns one sentence for each invalid combination of the parameters of beam search.

    Args:
      params: the decoder's parameters.
      path: path of the parameters in the config.
      beam_size_param: name of the parameter that sets the beam size.
    """
    beam, groups = params[beam_size_param], params.get("beam_groups", 1)
    set_params = {"beam_groups": groups > 1, "coverage_penalty": params.get("coverage_penalty", 0.0) > 0.0}
    if params["sampling_temperature"] is not None:
        return [f"'{path}/{name}' is {params[name]}, but sampling does not use it: leave out {name} or "
                "sampling_temperature." for name, is_set in set_params.items() if is_set]
    if groups > 1 and beam % groups:
        return [f"'{path}/beam_groups' is {groups}, but must divide {beam_size_param} ({beam})."]
    if groups > 1 and set_params["coverage_penalty"]:
        return [f"'{path}/coverage_penalty' cannot be combined with beam_groups: leave out one of them."]
    if beam == 1 and set_params["coverage_penalty"]:
        return [f"'{path}/coverage_penalty' is {params['coverage_penalty']}, but {beam_size_param} is 1, and greedy "
                f"search does not compare hypotheses: raise {beam_size_param}, or leave out coverage_penalty."]
    return []
