"""Learning rates of single variables: LARC, rates by group, and gradual unfreezing (Howard and Ruder 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import Param, check_params, shown
from open_seq2seq.optimizers.clipping import Gradient, Gradients, map_values
from open_seq2seq.optimizers.optimizer import Variables
from open_seq2seq.utils.errors import ConfigError

# Smallest divisor in the ratio; without it, a learning rate of 0 (at the start of a warm-up) would mean division by 0.
_TINY = 1e-30


class LarcInfo(NamedTuple):
    """Effect of LARC on one variable in one update, as FP32 scalars.

    Attributes:
      clip_on: 1 if the mode is ``clip`` and the gradient was reduced, otherwise 0.
      grad_update: the factor by which the gradient was multiplied.
      final_lr: the effective learning rate, which is the policy's rate times ``grad_update``.
    """

    clip_on: tf.Tensor
    grad_update: tf.Tensor
    final_lr: tf.Tensor


class Larc:
    """Layer-wise adaptive rate control (You et al. 2017, https://arxiv.org/abs/1708.03888).

    A variable w with gradient g is updated as if its gradient were ``u · g``:

    * ``scale`` (the paper's LARS): ``u = max(η · ‖w‖ / (‖g‖ + ε), min_update)``;
    * ``clip``: ``u = min(1, max(η · ‖w‖ / (lr · (‖g‖ + ε)), min_update))``, so that plain gradient
      descent changes a variable by at most η times its norm, and never by more than without LARC.

    The paper's ratio is 0 for a variable that is all zeros, such as a new bias, which would therefore never change.
    With ``min_update``, such a variable first moves by that fraction of its plain update, and later by up to η times
    its norm per update. A larger ``min_update`` (1e-3) speeds up the start.

    Args:
      params: ``larc_params`` in configs.

    Raises:
      ConfigError: parameters are unknown, missing, of the wrong type or out of range.
    """

    def __init__(self, **params: Any) -> None:
        checked, problems = check_params(params, self.get_required_params(), self.get_optional_params(), "larc_params")
        if problems:
            raise ConfigError(problems)
        self._params = checked

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        """Returns the specs of the required parameters by name."""
        return {"larc_eta": Param(float, doc="The factor of the ratio in larc_mode. With clip and plain SGD, it is the "
                                  "largest change of a variable per update, as a fraction of the variable's norm; "
                                  "lr_factors multiply this limit.",
                                  above=0.0)}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        """Returns the specs of the optional parameters by name."""
        return {
            "larc_mode": Param(["clip", "scale"], "clip", "clip: limit the policy's learning rate to larc_eta · "
                               "weight norm / gradient norm. scale: multiply it by that ratio."),
            "min_update": Param(float, 1e-7, "Lower bound on a gradient's factor; lets variables that are all zeros "
                                "change.",
                                minimum=0.0),
            "epsilon": Param(float, 1e-7, "Added to the norm of the gradient.", above=0.0),
        }

    def apply(self, gradients: Gradients, variables: Variables, learning_rate: tf.Tensor,
              scale: tf.Tensor) -> tuple[Gradients, tf.Tensor, dict[str, LarcInfo]]:
        """Unscales the gradients and multiplies each by its factor.

        Args:
          gradients: FP32 gradients by name, multiplied by ``scale``; dense, or ``IndexedSlices`` without duplicates.
          variables: the variables by name, at least those with a gradient.
          learning_rate: FP32 scalar, the policy's learning rate for this update.
          scale: FP32 scalar, the loss scale.

        Returns:
          (unscaled gradients times their factors, global norm of these products, ``LarcInfo`` by name).
        """
        # The norms of the scaled gradients are divided by the scale, instead of computing those of unscaled gradients,
        # because TensorFlow can then share the sums of squares with ``global_norm``.
        gradient_norms = _norms([_values(g) for g in gradients.values()]) / scale
        weight_norms = _norms([variables[name] for name in gradients])
        updates, clip_on = self._factors(gradient_norms, weight_norms, learning_rate)
        columns = (tf.unstack(values) for values in (clip_on, updates, learning_rate * updates))
        infos = {name: LarcInfo(*info) for name, info in zip(gradients, zip(*columns, strict=True), strict=True)}
        products = {name: map_values(lambda v, u=u: v * u, gradient)
                    for (name, gradient), u in zip(gradients.items(), tf.unstack(updates / scale), strict=True)}
        return products, tf.norm(updates * gradient_norms), infos

    def _factors(self, gradient_norms: tf.Tensor, weight_norms: tf.Tensor,
                 learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the factors of the gradients, and which gradients are clipped.

        Args:
          gradient_norms: FP32 ``[variables]``, the norms of the unscaled gradients.
          weight_norms: FP32 ``[variables]``.
          learning_rate: FP32 scalar.

        Returns:
          (factors u, 1 where the gradient is clipped and otherwise 0), both FP32 ``[variables]``.
        """
        p = self._params
        clips = p["larc_mode"] == "clip"
        divisor = (gradient_norms + p["epsilon"]) * (learning_rate if clips else 1.0)
        ratios = tf.maximum(p["larc_eta"] * weight_norms / tf.maximum(divisor, _TINY), p["min_update"])
        if not clips:
            return ratios, tf.zeros_like(ratios)
        return tf.minimum(ratios, 1.0), tf.cast(ratios < 1.0, tf.float32)


def _norms(tensors: list[tf.Tensor]) -> tf.Tensor:
    """Returns the L2 norm of each tensor, FP32 ``[tensors]``."""
    return tf.sqrt(2.0 * tf.stack([tf.nn.l2_loss(tensor) for tensor in tensors]))


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


class Group(NamedTuple):
    """Variables with the same learning rate.

    Attributes:
      names: names of the variables.
      factor: factor of the learning rate.
      start: number of updates after which the variables begin to change.
    """

    names: tuple[str, ...]
    factor: float
    start: int


class LayerRates:
    """Factors of the learning rate, and the updates at which variables are unfrozen, by name.

    See https://arxiv.org/abs/1801.06146 for the use of both with language models. A frozen variable has the learning
    rate 0; slots of the optimizer, such as Adam's moments, are updated all the same, except those of Ftrl.

    Args:
      factors: factor of the learning rate by regular expression; the first expression that matches the beginning of a
        variable's name counts, and other variables have the factor 1.
      unfreeze_at: number of updates after which a variable begins to change, by regular expression, which is matched
        in the same way; other variables change from the beginning.

    Raises:
      ConfigError: an expression or a value is invalid.
    """

    def __init__(self, factors: Mapping[str, Any], unfreeze_at: Mapping[str, Any]) -> None:
        problems = [*_problems("lr_factors", factors, float), *_problems("unfreeze_at", unfreeze_at, int)]
        if problems:
            raise ConfigError(problems)
        self._factors = [(re.compile(text), float(value)) for text, value in factors.items()]
        self._starts = [(re.compile(text), int(value)) for text, value in unfreeze_at.items()]

    def build(self, names: Iterable[str]) -> None:
        """Divides the variables into groups; must be called before ``split``.

        Args:
          names: names of the trainable variables.

        Raises:
          ConfigError: an expression matches no variable.
        """
        groups: dict[tuple[float, int], list[str]] = {}
        names = list(names)
        for key, rules in (("lr_factors", self._factors), ("unfreeze_at", self._starts)):
            unused = [rule.pattern for rule, _ in rules if not any(rule.match(name) for name in names)]
            if unused:
                some = ", ".join(map(repr, names[::max(1, len(names) // 4)]))
                raise ConfigError([f"'{key}' has the expression {unused[0]!r}, but no variable's name starts with a "
                                   f"match. Examples of names: {some}."])
        for name in names:
            groups.setdefault((_first(self._factors, name, 1.0), int(_first(self._starts, name, 0))), []).append(name)
        self._groups = [Group(tuple(found), factor, start) for (factor, start), found in groups.items()]

    def split(self, gradients: Mapping[str, Any], rate: tf.Tensor,
              update_index: tf.Tensor) -> Iterator[tuple[dict[str, Any], tf.Tensor]]:
        """Yields (gradients of a group by variable name, the group's learning rate, an FP32 scalar).

        Args:
          gradients: gradients by variable name.
          rate: FP32 scalar, the learning rate of this update.
          update_index: int64 scalar, number of previous updates.
        """
        for group in self._groups:
            own = {name: gradients[name] for name in group.names if name in gradients}
            factor = tf.where(update_index >= group.start, group.factor, 0.0) if group.start else group.factor
            yield own, rate * factor


def _first(rules: list[tuple[re.Pattern[str], Any]], name: str, default: float) -> float:
    return next((value for rule, value in rules if rule.match(name)), default)


def _problems(key: str, rules: Mapping[str, Any], kind: type) -> Iterator[str]:
    for text, value in rules.items():
        number = isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value < 1e15:
            yield (f"'{key}/{text}' is {shown(value)} but has to be "
                   f"{'an integer' if kind is int else 'a number'} of at least 0"
                   f"{', the number of updates after which the variables begin to change' if kind is int else ''}.")
        try:
            re.compile(text)
        except (re.error, TypeError) as error:
            yield f"'{key}' has {shown(text)}, which is not a valid regular expression: {error}."
