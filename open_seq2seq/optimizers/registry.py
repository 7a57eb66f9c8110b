"""What a config says of optimization: the optimizer, its additions, and the variables that are trained.

Additions are LARC, weight decay, averages of the weights and layer rates.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import part_class, register, resolve_name, with_package
from open_seq2seq.config.params import Param, coerce
from open_seq2seq.optimizers.adaptive import Adafactor, Adagrad, Adam, AdamW, Ftrl, LazyAdam, Nadam, RMSProp
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.optimizers.keras_optimizer import KerasOptimizer, is_keras_optimizer
from open_seq2seq.optimizers.layer_rates import Larc, LayerRates
from open_seq2seq.optimizers.loss_scaling import make_loss_scaler
from open_seq2seq.optimizers.lr_policies import make_schedule
from open_seq2seq.optimizers.muon import Muon
from open_seq2seq.optimizers.novograd import NovoGrad
from open_seq2seq.optimizers.optimizer import Optimizer
from open_seq2seq.optimizers.schedule_free import ScheduleFreeAdamW
from open_seq2seq.optimizers.sgd import SGD, Momentum
from open_seq2seq.optimizers.weight_average import TriggeredMean, WeightAverage, WeightMean
from open_seq2seq.optimizers.weight_decay import WeightDecay
from open_seq2seq.utils.errors import ConfigError

OPTIMIZERS: dict[str, type[Optimizer]] = {
    c.__name__: c for c in (SGD, Momentum, Adam, AdamW, LazyAdam, Nadam, Adagrad, RMSProp, Ftrl, Adafactor, NovoGrad,
                            Muon, ScheduleFreeAdamW)}

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


def make_optimizer(optimizer: str | type, optimizer_params: Mapping[str, Any] | None = None) -> Optimizer:
    """Creates the optimizer that a config selects.

    Args:
      optimizer: a key of ``OPTIMIZERS``, a name like ``tf.keras.optimizers.Lion``, ``package.module.Class`` or
        ``path/to/file.py:Class``, or a subclass of ``Optimizer`` or of Keras' base class.
      optimizer_params: arguments of the class.

    Raises:
      ConfigError: the optimizer does not exist, or its arguments are invalid.
    """
    chosen = resolve_name(optimizer, "optimizer", "optimizer")
    params = dict(optimizer_params or {})
    return KerasOptimizer(chosen, **params) if is_keras_optimizer(chosen) else chosen(**params)


def trainable_variables(variables: Mapping[str, tf.Variable],
                        freeze_variables_regex: str | None = None) -> dict[str, tf.Variable]:
    """Returns the variables that training updates.

    Args:
      variables: all variables of the model by name (``named_variables``).
      freeze_variables_regex: regular expression; variables whose names start with a match are not trained.

    Raises:
      ConfigError: the expression is malformed, matches nothing, or leaves nothing to train.
    """
    trainable = {name: variable for name, variable in variables.items() if variable.trainable}
    if not freeze_variables_regex:
        return trainable
    key = f"'freeze_variables_regex' is {freeze_variables_regex!r}"
    try:
        expression = re.compile(freeze_variables_regex)
    except re.error as error:
        raise ConfigError([f"{key}, which is not a valid regular expression: {error}."]) from error
    kept = {name: variable for name, variable in trainable.items() if not expression.match(name)}
    if len(kept) == len(trainable):
        some = [*trainable][::max(1, len(trainable) // 4)][:4]
        raise ConfigError([f"{key}, but no variable's name starts with a match. Examples of names: "
                           f"{', '.join(map(repr, some))}."])
    if not kept:
        raise ConfigError([f"{key}, which freezes all {len(trainable)} variables: choose an expression that matches "
                           "fewer."])
    return kept


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, type) and (issubclass(value, Optimizer) or is_keras_optimizer(value))


def _keras_optimizers() -> dict[str, Any]:
    return {f"tf.keras.optimizers.{name}": value for name, value in vars(tf.keras.optimizers).items()
            if is_keras_optimizer(value)}


register("optimizer", lambda: with_package(OPTIMIZERS, "open_seq2seq.optimizers"), fits=_is_optimizer,
         wanted=f"one of {', '.join(OPTIMIZERS)}, a subclass of open_seq2seq.optimizers.Optimizer, or a Keras "
         "optimizer such as tf.keras.optimizers.Lion")
register("optimizer", _keras_optimizers)


def averages_weights(params: Mapping[str, Any]) -> bool:
    """Returns whether evaluation and inference use an average of the weights.

    This is so if one of ``AVERAGES`` is set, or if the optimizer is ``ScheduleFreeAdamW``.
    """
    return any(params.get(name) is not None for name in AVERAGES) or _is_schedule_free(params.get("optimizer"))


def _is_schedule_free(optimizer: Any) -> bool:
    if isinstance(optimizer, type):
        return issubclass(optimizer, ScheduleFreeAdamW)
    return isinstance(optimizer, str) and optimizer.rpartition(".")[2] == ScheduleFreeAdamW.__name__ \
        and "keras" not in optimizer


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
    if _has_layer_rates(params):
        found["layer_rates"] = _make_layer_rates(params)
    return found


def _has_layer_rates(params: Mapping[str, Any]) -> bool:
    return bool(params.get("lr_factors") or params.get("unfreeze_at"))


def _make_layer_rates(params: Mapping[str, Any]) -> LayerRates:
    return LayerRates(params.get("lr_factors") or {}, params.get("unfreeze_at") or {})


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
    if averages and _is_schedule_free(params.get("optimizer")):
        problems.append(f"'{averages[0]}' and the optimizer ScheduleFreeAdamW exclude each other: the optimizer itself "
                        f"averages the weights that are evaluated and exported. Leave '{averages[0]}' out.")
    if _has_layer_rates(params) and not _takes_layer_rates(params.get("optimizer")):
        problems.append("'lr_factors' and 'unfreeze_at' are not available for ScheduleFreeAdamW and Keras optimizers: "
                        "remove them, or choose another of the toolkit's optimizers.")
    if params.get("decoupled_weight_decay") is not None:
        problems += [f"'decoupled_weight_decay' and {other} exclude each other: {reason}."
                     for other, reason in _other_decays(params)]
    elif params.get("decoupled_weight_decay_exclude") is not None:
        problems.append("'decoupled_weight_decay_exclude' has no effect without 'decoupled_weight_decay': set both, "
                        "or neither.")
    return problems


def _takes_layer_rates(optimizer: Any) -> bool:
    """Returns whether an optimizer takes layer rates; True for one that does not exist, which is reported elsewhere."""
    chosen = part_class(optimizer, "optimizer")
    return not is_keras_optimizer(chosen) and getattr(chosen, "takes_layer_rates", True)


def _other_decays(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (name of another source of decay, why it cannot be combined with decoupled weight decay)."""
    twice = "the weights would decay twice; leave one out"
    optimizer = params.get("optimizer")
    chosen = part_class(optimizer, "optimizer")
    name = getattr(chosen, "__name__", optimizer)
    accepted: Mapping[str, Any] = inspect.signature(chosen).parameters if is_keras_optimizer(chosen) else (
        getattr(chosen, "get_optional_params", dict)())
    default = getattr(accepted.get("weight_decay"), "default", None)
    if coerce(_section(params, "optimizer_params").get("weight_decay", default), Param(float))[0]:
        yield f"the weight_decay of {name}", f"{twice} (optimizer_params/weight_decay=0.0 disables the optimizer's own)"
    if _is_schedule_free(optimizer):
        yield "ScheduleFreeAdamW", "the decay would not reach its iterates; set its weight_decay instead"
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


def argument_problems(params: Mapping[str, Any]) -> list[str]:
    """Returns the problems with the arguments of optimizer, policy, loss scaler and additions.

    Args:
      params: the model's parameters, whose types have been checked; parameters that are absent or None are skipped.
    """
    problems: list[str] = []
    for make in _makers(params):
        try:
            # In a separate graph, because executing an operation would initialise the devices before the
            # processes are connected.
            with tf.Graph().as_default():
                make()
        except ConfigError as error:
            problems += error.problems
    return problems


def _makers(params: Mapping[str, Any]) -> Iterator[Callable[[], Any]]:
    def arguments(key: str) -> dict[str, Any]:
        return dict(params.get(key) or {})

    if params.get("optimizer") is not None:
        yield lambda: make_optimizer(params["optimizer"], arguments("optimizer_params"))
    if params.get("lr_policy") is not None:
        # The number of steps may not be known yet; 1 replaces it, because policies accept any number.
        yield lambda: make_schedule(params["lr_policy"], arguments("lr_policy_params"), params.get("max_steps") or 1,
                                    1 if params.get("num_epochs") else None)
    for parameter, make in ADDITIONS.values():
        if params.get(parameter) is not None:
            yield functools.partial(make, params)
    if _has_layer_rates(params):
        yield functools.partial(_make_layer_rates, params)
    if params.get("loss_scaling") is not None or params.get("loss_scaling_params"):
        yield lambda: make_loss_scaler(params.get("loss_scaling"), arguments("loss_scaling_params"),
                                       precision_of(params).compute)
