"""The report on a model's value ranges, in Markdown, with advice on loss scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from open_seq2seq.optimizers.half_types import BFLOAT16, FLOAT16, HALF_TYPES
from open_seq2seq.optimizers.layer_groups import group_names
from open_seq2seq.optimizers.loss_scaling import BackoffScaler
from open_seq2seq.training.precision.probe import Kind, Ranges
from open_seq2seq.training.precision.ranges import Conversion, NumberRange, format_scale, sum_ranges

# Largest tolerable shares of nonzero values that become 0; larger shares lead to a line of advice. Lost gradients
# accumulate over updates, so 0.1 % already matters. Lost activations matter less, because small activations are mostly
# added to larger ones.
GRADIENTS_TOLERATED = 1e-3
ACTIVATIONS_TOLERATED = 1e-2
_PLAIN16, _PLAIN_BF16 = Conversion(FLOAT16), Conversion(BFLOAT16)


def percent(share: float) -> str:
    """Formats a share as a percentage such as ``12.3 %``; only a share of 0 is shown as 0."""
    if share == 0.0:
        return "0 %"
    return "< 0.001 %" if share < 1e-5 else f"{100 * share:.3g} %"


def advise(groups: Ranges, present_scale: float) -> list[str]:
    """Returns lines of advice, the most important first.

    Args:
      groups: ranges by kind and layer, measured in float32. The conversions measured must include the unscaled ones to
        both half types, and the one to float16 at ``present_scale``.
      present_scale: the loss scale that training uses, or would start with.
    """
    gradients = _gradients_by_layer(groups)
    activations = groups[Kind.ACTIVATIONS]
    lines = _about_nonfinite({**_titled("activations", activations), **_titled("gradients", gradients)})
    for layer, numbers in activations.items():
        lines += _about_activations(layer, numbers)
    for layer, numbers in gradients.items():
        lines += _about_gradients(layer, numbers)
    lines += _about_scale(gradients) + _about_present_scale(gradients, present_scale)
    lines += _about_bfloat16({**_titled("activations", activations), **_titled("gradients", gradients)})
    return lines


def _titled(word: str, ranges: Mapping[str, NumberRange]) -> dict[str, NumberRange]:
    return {f"{word} of {layer}": numbers for layer, numbers in ranges.items()}


def _gradients_by_layer(groups: Ranges) -> dict[str, NumberRange]:
    kinds = [groups[Kind.ACTIVATION_GRADIENTS], groups[Kind.WEIGHT_GRADIENTS]]
    layers = dict.fromkeys(layer for kind in kinds for layer in kind)
    return {layer: sum_ranges(kind[layer] for kind in kinds if layer in kind) for layer in layers}


def _about_nonfinite(ranges: Mapping[str, NumberRange]) -> list[str]:
    return [f"{title}: {percent(numbers.not_finite / numbers.total)} of the values are infinite or NaN even in "
            "float32. The cause is the weights or the data, not the precision."
            for title, numbers in ranges.items() if numbers.not_finite]


def _about_activations(layer: str, numbers: NumberRange) -> list[str]:
    over, lost = numbers.share_overflowing(_PLAIN16), numbers.share_lost(_PLAIN16)
    lines = []
    if over:
        lines.append(f"activations of {layer} exceed 65504, the limit of float16, in {percent(over)} of the nonzero "
                     f"values (the largest is {numbers.largest:.3g}). Use bfloat16, or keep this layer in FP32.")
    if lost > ACTIVATIONS_TOLERATED:
        lines.append(f"activations of {layer}: {percent(lost)} of the nonzero values become 0 in float16, with or "
                     "without loss scaling. Use bfloat16, or keep this layer in FP32.")
    return lines


def _about_gradients(layer: str, numbers: NumberRange) -> list[str]:
    lost, over = numbers.share_lost(_PLAIN16), numbers.share_overflowing(_PLAIN16)
    start = f"gradients of {layer}: "
    if over:
        return [f"{start}{percent(over)} of the nonzero values overflow float16 even without loss scaling (the largest "
                f"is {numbers.largest:.3g}). Use bfloat16."]
    if lost <= GRADIENTS_TOLERATED:
        return []
    start += f"{percent(lost)} of the nonzero values become 0 in float16 without loss scaling; "
    least, greatest = numbers.least_exponent(GRADIENTS_TOLERATED), numbers.greatest_exponent()
    if least <= greatest:
        return [f"{start}a loss scale of 2^{least} keeps all but {percent(GRADIENTS_TOLERATED)}, and nothing overflows "
                f"up to 2^{greatest}."]
    return [f"{start}no loss scale is suitable: even 2^{greatest}, the largest without overflow, loses "
            f"{percent(numbers.share_lost_at(greatest))}. Use bfloat16."]


def _about_scale(gradients: Mapping[str, NumberRange]) -> list[str]:
    """Returns advice on the loss scale; a model has only one, which has to suit all layers."""
    least = max((n.least_exponent(GRADIENTS_TOLERATED) for n in gradients.values()), default=0)
    greatest = min((n.greatest_exponent() for n in gradients.values()), default=0)
    if greatest < 0 or least > greatest:
        return ["float16: no loss scale suits the gradients of all layers. Use bfloat16."]
    if least == 0:
        return ["float16: the gradients of all layers fit without loss scaling, and nothing overflows up to a loss "
                f"scale of 2^{greatest}."]
    beyond = 2.0**least > BackoffScaler.get_optional_params()["scale_max"].default
    limit = f" if \"loss_scaling_params\" sets scale_max to 2^{greatest}" if beyond else ""
    return [f"float16: loss scales from 2^{least} to 2^{greatest} suit the gradients of all layers; "
            f"\"loss_scaling\": \"Backoff\" finds one automatically{limit}."]


def _about_present_scale(gradients: Mapping[str, NumberRange], scale: float) -> list[str]:
    key = Conversion(FLOAT16, scale)
    lost = {layer: n.share_lost(key) for layer, n in gradients.items()}
    over = [layer for layer, n in gradients.items() if n.overflowing[key]]
    if scale == 1.0 or not gradients:
        return []
    start = f"At the current loss scale, {format_scale(scale)}, "
    if over:
        return [f"{start}gradients overflow in {', '.join(over)}: automatic loss scaling would skip the update and "
                "lower the scale."]
    worst = max(lost, key=lambda layer: lost[layer])
    return [f"{start}no gradient overflows, and at most {percent(lost[worst])} of a layer's nonzero gradients become 0 "
            f"(in {worst})."]


def _about_bfloat16(ranges: Mapping[str, NumberRange]) -> list[str]:
    over = [title for title, n in ranges.items() if n.overflowing[_PLAIN_BF16]]
    lost = [title for title, n in ranges.items() if n.share_lost(_PLAIN_BF16) > GRADIENTS_TOLERATED]
    if over or lost:
        return [f"bfloat16 does not suffice: its range is too small for {', '.join(over + lost)}."]
    return ["bfloat16 is safe: no value overflows, hardly any nonzero value becomes 0, and no loss scaling is needed."]


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
