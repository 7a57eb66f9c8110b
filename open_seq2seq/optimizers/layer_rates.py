"""Learning rates by group of variables, and gradual unfreezing (Howard and Ruder 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import shown
from open_seq2seq.utils.errors import ConfigError


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
