"""Assigns values from a checkpoint to variables, matched by name and shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf

from open_seq2seq.utils.errors import CheckpointError


@dataclass
class MatchReport:
    """Result of matching variables with a checkpoint's values.

    Attributes:
      assigned: names of the variables that matched.
      missing: names of variables that are not in the checkpoint.
      unused: names that are only in the checkpoint.
      shapes: (shape of the variable, shape in the checkpoint) by name, where they differ.
    """

    assigned: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Returns one line for each name that did not match."""
        return [*(f"Not restoring {name}: not in the checkpoint" for name in self.missing),
                *(f"Not restoring {name}: its shape is {here} in the model but {there} in the checkpoint"
                  for name, (here, there) in self.shapes.items()),
                *(f"Not used from the checkpoint: {name}" for name in self.unused)]


def match(variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]) -> MatchReport:
    """Reports which names and shapes match, without assigning anything."""
    report = MatchReport(unused=[name for name in values if name not in variables])
    for name, variable in variables.items():
        value = values.get(name)
        if value is None:
            report.missing.append(name)
        elif tuple(variable.shape) != value.shape:
            report.shapes[name] = (tuple(variable.shape), value.shape)
        else:
            report.assigned.append(name)
    return report


def assign_matching(variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]) -> MatchReport:
    """Assigns each value whose name and shape match, cast to the dtype of the variable; reports the others, too."""
    report = match(variables, values)
    for name in report.assigned:
        variables[name].assign(tf.cast(values[name], variables[name].dtype))
    return report


def assign_strictly(variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray], path: Path) -> None:
    """Assigns all values; variables and values must have the same names and shapes.

    Raises:
      CheckpointError: names or shapes differ; in this case, no variable is changed.
    """
    report = match(variables, values)
    lines = report.lines()
    if not lines:
        assign_matching(variables, values)
        return
    more = f"; and {len(lines) - 3} more" if len(lines) > 3 else ""
    rows = [(here[0], there[0]) for name, (here, there) in report.shapes.items()
            if "embedding" in name and len(here) == len(there) == 2 and here[0] != there[0]]
    hint = f" The embedding table has {rows[0][0]} rows in the model but {rows[0][1]} in the checkpoint: the " \
           "vocabularies differ." if rows else ""
    raise CheckpointError(f"The checkpoint {path} does not fit this config: {'; '.join(lines[:3])}{more}.{hint} Use "
                          f"the config that it was trained with, which is {path / 'config.yaml'}.")
