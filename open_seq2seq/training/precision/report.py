"""Formats the report on a model's value ranges in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from open_seq2seq.optimizers.half_types import HALF_TYPES
from open_seq2seq.optimizers.layer_groups import group_names
from open_seq2seq.training.precision.advice import advise, percent
from open_seq2seq.training.precision.probe import Kind, Ranges
from open_seq2seq.training.precision.ranges import Conversion, NumberRange, sum_ranges


def conversions_of(scales: Sequence[float]) -> list[Conversion]:
    """Returns the conversions that a report covers: to both half types, unscaled and at each scale."""
    return [Conversion(half, scale) for half in HALF_TYPES.values() for scale in dict.fromkeys((1.0, *scales))]


def by_layer(ranges: Mapping[str, NumberRange]) -> dict[str, NumberRange]:
    """Returns the range of each layer group, summed over its tensors or variables.

    Args:
      ranges: ranges by name of the tensor or variable; see ``group_names`` for the groups.
    """
    return {group: sum_ranges(ranges[name] for name in names) for group, names in group_names(ranges).items()}


def format_report(found: Ranges, conversions: Sequence[Conversion], present_scale: float,
                  detailed: bool = False) -> str:
    """Returns the report as Markdown: advice, and a table for each kind of tensor.

    Args:
      found: ranges by kind and name, from ``PrecisionProbe.run`` with the same conversions.
      conversions: result of ``conversions_of`` for scales that include ``present_scale``.
      present_scale: see ``advise``.
      detailed: if True, the tables have a row for each tensor and variable; if False, for each layer.
    """
    groups = {kind: by_layer(ranges) for kind, ranges in found.items()}
    parts = ["## Advice", "\n".join(f"* {line}" for line in advise(groups, present_scale))]
    for kind in Kind:
        shown = [c for c in conversions if c.scale == 1.0 or kind is not Kind.ACTIVATIONS]
        parts += [f"## {kind.value.capitalize()}", _table((found if detailed else groups)[kind], shown)]
    return "\n\n".join(parts) + "\n"


def _table(ranges: Mapping[str, NumberRange], conversions: Sequence[Conversion]) -> str:
    lines = ["| layer | values | log2 of smallest and largest | zeros | "
             + " | ".join(f"{c}: lost, overflowing" for c in conversions) + " |",
             "|---" * (4 + len(conversions)) + "|"]
    for name, numbers in ranges.items():
        shares = [f"{percent(numbers.share_lost(c))}, {percent(numbers.share_overflowing(c))}" for c in conversions]
        cells = [name, f"{numbers.total:,}", _extent(numbers), percent(numbers.zeros / max(numbers.total, 1)), *shares]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _extent(numbers: NumberRange) -> str:
    if not numbers.nonzero:
        return "–"
    return f"{math.log2(numbers.smallest):.1f}, {math.log2(numbers.largest):.1f}"
