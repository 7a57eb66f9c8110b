"""Additions to an optimizer (LARC, weight decay, averages, layer rates), and parameters that exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from open_seq2seq.config.params import Param, coerce
from open_seq2seq.optimizers.larc import Larc
from open_seq2seq.optimizers.layer_rates import LayerRates
from open_seq2seq.optimizers.weight_average import TriggeredMean, WeightAverage, WeightMean
from open_seq2seq.optimizers.weight_decay import WeightDecay

# Name of an argument of MixedPrecisionOptimizer → (the parameter that enables the addition, the function that creates
# it from a model's parameters). ``make_additions`` itself creates the two other averages and the layer rates.
ADDITIONS: dict[str, tuple[str, Callable[[Mapping[str, Any]], Any]]] = {
    "larc": ("larc_params", lambda params: Larc(**params["larc_params"])),
    "weight_decay": ("decoupled_weight_decay", lambda params: WeightDecay(
        params["decoupled_weight_decay"], params.get("decoupled_weight_decay_exclude"))),
    "average": ("ema_decay", lambda params: WeightAverage(params["ema_decay"])),
}

AVERAGES = ("ema_decay", "average_from", "average_after_evals_without_gain")
"""Parameters that enable an average of the weights."""


def averages_weights(params: Mapping[str, Any]) -> bool:
    """Returns whether one of ``AVERAGES`` is set, so that evaluation and inference use an average of the weights."""
    return any(params.get(name) is not None for name in AVERAGES)


def make_additions(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the additions that a model's parameters enable, as arguments of ``MixedPrecisionOptimizer``.

    Disabled additions are None or absent.

    Raises:
      ConfigError: the arguments of an addition are invalid.
    """
    found = {name: None if params.get(parameter) is None else make(params)
             for name, (parameter, make) in ADDITIONS.items()}
    if params.get("average_from") is not None:
        found["average"] = WeightMean(params["average_from"])
    if params.get("average_after_evals_without_gain") is not None:
        found["average"] = TriggeredMean(params["average_after_evals_without_gain"])
    if params.get("lr_factors") or params.get("unfreeze_at"):
        found["layer_rates"] = LayerRates(params.get("lr_factors") or {}, params.get("unfreeze_at") or {})
    return found


def combination_problems(params: Mapping[str, Any]) -> list[str]:
    """Returns messages about parameters of a model that exclude or need each other.

    Args:
      params: the model's parameters; absent parameters count as None.
    """
    problems = []
    if params.get("max_grad_norm") is not None and params.get("larc_params") is not None:
        problems.append("'max_grad_norm' and 'larc_params' exclude each other: LARC sets the size of each variable's "
                        "update regardless of the global gradient norm. Leave one out.")
    averages = [name for name in (*AVERAGES, "average_checkpoints") if params.get(name) is not None]
    if len(averages) > 1:
        problems.append(f"'{averages[0]}' and '{averages[1]}' exclude each other: both determine the weights that are "
                        "evaluated and exported. Leave one out.")
    if params.get("decoupled_weight_decay") is not None:
        problems += [f"'decoupled_weight_decay' and {other} exclude each other: {reason}."
                     for other, reason in _other_decays(params)]
    elif params.get("decoupled_weight_decay_exclude") is not None:
        problems.append("'decoupled_weight_decay_exclude' has no effect without 'decoupled_weight_decay': set both, "
                        "or neither.")
    return problems


def _other_decays(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (name of another source of decay, why it cannot be combined with decoupled weight decay)."""
    twice = "the weights would decay twice; leave one out"
    optimizer = params.get("optimizer")
    name = optimizer if isinstance(optimizer, str) else getattr(optimizer, "__name__", "")
    arguments = _section(params, "optimizer_params")
    if coerce(arguments.get("weight_decay", 0.01 if name == "AdamW" else None), Param(float))[0]:
        yield f"the weight_decay of {name}", f"{twice} (optimizer_params/weight_decay=0.0 disables the optimizer's own)"
    if name == "Ftrl":
        yield "Ftrl", "it recomputes the weights from its accumulators; set its l2_regularization_strength instead"
    for part in ("", "encoder_params", "decoder_params"):
        found = _section(params, part) if part else params
        if _is_l2(found.get("regularizer")):
            yield f"the L2 penalty in '{part + '/' if part else ''}regularizer'", twice


def _section(params: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    # A value that is not a dict is reported by the check of the parameters' types.
    return params[key] if isinstance(params.get(key), Mapping) else {}


def _is_l2(regularizer: Any) -> bool:
    if regularizer is None:
        return False
    name = regularizer if isinstance(regularizer, str) else getattr(
        regularizer, "__qualname__", type(regularizer).__name__)
    return "l2" in name.lower()
