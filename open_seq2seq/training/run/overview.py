"""Prints the config and the variables of a run before it starts."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.utils.console import deco_print


def print_config(title: str, params: dict[str, Any]) -> None:
    """Prints a config section as YAML under a title."""
    deco_print(f"{title}:")
    deco_print(to_yaml(params).rstrip(), offset=1)


def parameter_table(trainable: dict[str, tf.Variable], variables: dict[str, tf.Variable]) -> list[str]:
    """Returns the lines of a table of variables with their shapes and dtypes, and the number of trainable parameters.

    Args:
      trainable: the variables that the optimizer updates, by name.
      variables: all variables, by name; those not in ``trainable`` are listed separately.
    """
    width = max((len(name) for name in variables), default=0)

    def line(name: str, variable: tf.Variable) -> str:
        return f"   {name:<{width}}  {str(tuple(variable.shape)):<16} {variable.dtype.name}"

    lines = ["Trainable variables:", *(line(n, v) for n, v in trainable.items())]
    others = {n: v for n, v in variables.items() if n not in trainable}
    if others:
        lines += ["Other variables:", *(line(n, v) for n, v in others.items())]
    total = sum(v.shape.num_elements() for v in trainable.values())
    return [*lines, f"Total trainable parameters: {total:,}"]


def print_parameter_table(trainable: dict[str, tf.Variable], variables: dict[str, tf.Variable]) -> None:
    """Prints the result of ``parameter_table``."""
    for text in parameter_table(trainable, variables):
        deco_print(text)
