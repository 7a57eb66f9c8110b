"""The parameters of sampling that decoders and language models share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from open_seq2seq.config.params import FREE, Param, with_change

_NEED_TEMPERATURE = ("sampling_top_k", "sampling_top_p")


def sampling_params() -> dict[str, Any]:
    """Returns the sampling parameters of autoregressive decoders and of language models."""
    return with_change(FREE, {
        "sampling_temperature": Param(
            (float, type(None)), None, "If set, evaluation and inference sample n_best hypotheses from the model's "
            "distribution instead of searching for the best (language models: only inference, one text per prompt). "
            "Logits are divided by this temperature first; 1.0 keeps the model's probabilities.", above=0.0),
        "sampling_top_k": Param((int, type(None)), None, "With sampling_temperature: draw only from the k most likely "
                                "ids.", "ids", minimum=1),
        "sampling_top_p": Param((float, type(None)), None, "With sampling_temperature: draw only from the most likely "
                                "ids whose total probability reaches p (nucleus sampling). Faster together with "
                                "sampling_top_k.", above=0.0, maximum=1.0),
        "sampling_seed": Param(int, 0, "Seed of sampling; samples also depend on the example's index."),
    })


def sampling_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns one sentence for each parameter that has no effect because sampling is off.

    Args:
      params: parameters declared by ``sampling_params``.
      path: path of the parameters in the config.
    """
    if params["sampling_temperature"] is not None:
        return []
    return [f"'{path}/{name}' is {params[name]}, but sampling is off: set sampling_temperature too (1.0 keeps "
            f"the model's probabilities), or remove {name}." for name in _NEED_TEMPERATURE if params[name] is not None]
