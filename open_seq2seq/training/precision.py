"""What half precision would lose in a trained model: ranges of its values, and a report with advice on loss scales.

A probe runs the model forward and backward in float32. Magnitudes are counted by octave, ``2^k < |x| <= 2^(k+1)``. The
largest magnitude that float16 rounds to 0 is a power of two, and so the last one of an octave. The counts therefore
give exactly how many values become 0 in float16 after multiplication by any power of two. Conversions to bfloat16 or
with other scales are given to ``measure``, which counts their lost and overflowing values directly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batching import evaluation_plan
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers.dtype import BFLOAT16, FLOAT16, HALF_TYPES, HalfType
from open_seq2seq.optimizers.loss_scaling import BackoffScaler
from open_seq2seq.optimizers.underflow import group_names
from open_seq2seq.parts.component import named_modules, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.observation import observing
from open_seq2seq.runners.run_states import set_aside
from open_seq2seq.training.loop.step import local_means

_OCTAVES = 256  # number of FP32 exponents
_LOWEST = -127  # octave of the first bin
# The highest octave whose values become 0 in float16: -26.
_ZERO_OCTAVE = round(math.log2(FLOAT16.zero_up_to)) - 1
# Largest tolerable shares of nonzero values that become 0; larger shares lead to a line of advice. Lost gradients
# accumulate over updates, so 0.1 % already matters. Lost activations matter less, because small activations are mostly
# added to larger ones.
GRADIENTS_TOLERATED = 1e-3
ACTIVATIONS_TOLERATED = 1e-2


class Conversion(NamedTuple):
    """A conversion to a half type after multiplication by a loss scale."""

    half: HalfType
    scale: float = 1.0

    def __str__(self) -> str:
        return self.half.name if self.scale == 1.0 else f"{self.half.name} × {format_scale(self.scale)}"


def format_scale(scale: float) -> str:
    """Formats a scale: powers of two as ``2^10``, others as a number."""
    exponent = math.log2(scale)
    return f"2^{round(exponent)}" if exponent == round(exponent) else f"{scale:g}"


@dataclass
class NumberRange:
    """Statistics of the values in one or more tensors.

    Attributes:
      octaves: int64 ``[256]``, the number of values with ``2^k < |x| <= 2^(k+1)`` for each k from -127; values smaller
        than 2^-127 are counted with k = -127.
      zeros: the number of values that are 0.
      not_finite: the number of infinite and NaN values.
      largest: the largest finite absolute value; 0 if there is none.
      smallest: the smallest nonzero absolute value; infinite if there is none.
      lost: the number of nonzero values that become 0, by conversion.
      overflowing: the number of finite values that become infinite, by conversion.
    """

    octaves: np.ndarray = field(default_factory=lambda: np.zeros(_OCTAVES, np.int64))
    zeros: int = 0
    not_finite: int = 0
    largest: float = 0.0
    smallest: float = math.inf
    lost: dict[Conversion, int] = field(default_factory=dict)
    overflowing: dict[Conversion, int] = field(default_factory=dict)

    def __add__(self, other: NumberRange) -> NumberRange:
        return NumberRange(
            self.octaves + other.octaves, self.zeros + other.zeros, self.not_finite + other.not_finite,
            max(self.largest, other.largest), min(self.smallest, other.smallest),
            _added(self.lost, other.lost), _added(self.overflowing, other.overflowing))

    @property
    def nonzero(self) -> int:
        """Number of finite nonzero values."""
        return int(self.octaves.sum())

    @property
    def total(self) -> int:
        """Number of values."""
        return self.nonzero + self.zeros + self.not_finite

    def share_lost(self, conversion: Conversion) -> float:
        """Returns the share of the finite nonzero values that become 0."""
        return self.lost[conversion] / max(self.nonzero, 1)

    def share_overflowing(self, conversion: Conversion) -> float:
        """Returns the share of the finite nonzero values that become infinite."""
        return self.overflowing[conversion] / max(self.nonzero, 1)

    def share_lost_at(self, exponent: int) -> float:
        """Returns the share of the finite nonzero values that become 0 in float16 at the scale ``2^exponent``."""
        end = min(max(_ZERO_OCTAVE - exponent - _LOWEST + 1, 0), _OCTAVES)
        return int(self.octaves[:end].sum()) / max(self.nonzero, 1)

    def least_exponent(self, tolerated: float) -> int:
        """Returns the smallest exponent ≥ 0 of a scale at which float16 loses at most the share ``tolerated``."""
        exponent = 0
        while self.share_lost_at(exponent) > tolerated:
            exponent += 1
        return exponent

    def greatest_exponent(self) -> int:
        """Returns the largest exponent, possibly negative, of a scale at which nothing overflows in float16.

        The result is 127 if there are no finite nonzero values.
        """
        if not self.largest:
            return -_LOWEST
        exponent = math.floor(math.log2(FLOAT16.infinite_from / self.largest))
        return exponent if self.largest * 2.0**exponent < FLOAT16.infinite_from else exponent - 1


def _added(first: dict[Conversion, int], second: dict[Conversion, int]) -> dict[Conversion, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in (*first, *(k for k in second if k not in first))}


def sum_ranges(ranges: Iterable[NumberRange]) -> NumberRange:
    """Returns the sum of the ranges."""
    return sum(ranges, NumberRange())


class RangeTensors(NamedTuple):
    """The fields of a ``NumberRange`` as tensors.

    ``octaves`` is int64 ``[256]``, ``lost`` and ``overflowing`` are int64 ``[conversions]``, and the others are ``[]``.
    """

    octaves: tf.Tensor
    zeros: tf.Tensor
    not_finite: tf.Tensor
    largest: tf.Tensor
    smallest: tf.Tensor
    lost: tf.Tensor
    overflowing: tf.Tensor

    def to_range(self, conversions: Sequence[Conversion]) -> NumberRange:
        """Converts the tensors to a ``NumberRange``.

        Args:
          conversions: the conversions given to ``measure``, in the same order.
        """
        lost, overflowing = (dict(zip(conversions, map(int, np.asarray(counts)), strict=True))
                             for counts in (self.lost, self.overflowing))
        return NumberRange(np.asarray(self.octaves), int(self.zeros), int(self.not_finite), float(self.largest),
                           float(self.smallest), lost, overflowing)


def measure(tensor: tf.Tensor, conversions: Sequence[Conversion]) -> RangeTensors:
    """Measures the values of a tensor.

    Args:
      tensor: a tensor of any shape and floating-point dtype, or ``IndexedSlices``.
      conversions: conversions for which lost and overflowing values are counted.
    """
    magnitudes = tf.abs(tf.reshape(tf.cast(tf.convert_to_tensor(tensor), tf.float32), [-1]))
    finite = tf.math.is_finite(magnitudes)
    present = tf.boolean_mask(magnitudes, finite & (magnitudes > 0.0))
    # Subtracting 1 from the bits moves each power of two into the octave that it ends.
    octaves = tf.bitwise.right_shift(tf.bitcast(present, tf.int32) - 1, 23)
    return RangeTensors(
        tf.math.bincount(octaves, minlength=_OCTAVES, maxlength=_OCTAVES, dtype=tf.int64),
        tf.math.count_nonzero(magnitudes == 0.0),
        tf.math.count_nonzero(tf.logical_not(finite)),
        tf.reduce_max(tf.concat([present, [0.0]], 0)),
        tf.reduce_min(tf.concat([present, [math.inf]], 0)),
        tf.stack([tf.math.count_nonzero(half.lost(present * scale)) for half, scale in conversions]),
        tf.stack([tf.math.count_nonzero(half.overflowing(present * scale)) for half, scale in conversions]))


class Kind(Enum):
    """Kinds of tensors that are measured."""

    ACTIVATIONS = "activations"
    ACTIVATION_GRADIENTS = "gradients of activations"
    WEIGHT_GRADIENTS = "gradients of weights"


Ranges = dict[Kind, dict[str, NumberRange]]


class PrecisionProbe:
    """Measures the value ranges of activations, of their gradients, and of the gradients of weights.

    The loss is the mean over each batch, as in a training step, but without regularisation, which acts on FP32 weights
    in every precision.

    Args:
      model: a float32 model that was built with a loss and whose weights have been restored.
      conversions: conversions for which underflow and overflow are counted. Activations are never scaled, so only
        conversions with scale 1 are meaningful for them.
    """

    def __init__(self, model: Model, conversions: Sequence[Conversion]) -> None:
        self._model = model
        self._conversions = tuple(conversions)
        self._modules = named_modules(model)
        self._variables = {name: v for name, v in named_variables(model).items() if v.trainable}
        signature = [model.data_layer.input_signature, tf.TensorSpec([], tf.int64)]
        self._measure = tf.function(self._measure_batch, autograph=False, input_signature=signature)

    def run(self, batches: Iterator[Mapping[str, Any]]) -> Ranges:
        """Returns the ranges of the values in all batches, by kind and by name.

        Activations and their gradients are named by the path of their module, gradients of weights by the variable.

        Args:
          batches: batches of the model's data layer, as NumPy arrays.
        """
        ranges: Ranges = {kind: {} for kind in Kind}
        for number, batch in enumerate(batches):
            for kind, tensors in zip(Kind, self._measure(batch, number), strict=True):
                for name, values in tensors.items():
                    before = ranges[kind].get(name, NumberRange())
                    ranges[kind][name] = before + values.to_range(self._conversions)
        return ranges

    def _measure_batch(self, batch: Any, number: tf.Tensor) -> tuple[dict[str, RangeTensors], ...]:
        with tf.GradientTape() as tape:
            tape.watch(list(self._variables.values()))
            # The batches come from different parts of the data, so carried states start at zero in each of them.
            with (forward_pass(0, number, carried=set_aside(self._model, batch, {})),
                  observing(self._modules) as observation):
                terms, _ = self._model.loss_terms(batch, training=self._model.mode == "train")
            loss = tf.add_n(list(local_means(terms)[0].values()))
        by_tensor, by_variable = tape.gradient(loss, (observation.tensors, self._variables))
        return (self._of_lists(observation.tensors), self._of_lists(by_tensor),
                {name: measure(g, self._conversions) for name, g in by_variable.items() if g is not None})

    def _of_lists(self, tensors: dict[str, list[tf.Tensor | None]]) -> dict[str, RangeTensors]:
        """Measures all tensors of a name together, one for each call of a module; entries of None are left out."""
        flat = {name: [tf.reshape(t, [-1]) for t in calls if t is not None] for name, calls in tensors.items()}
        return {name: measure(tf.concat(calls, 0), self._conversions) for name, calls in flat.items() if calls}


def pick_batches(model: Model, count: int) -> Iterator[Mapping[str, Any]]:
    """Yields ``count`` batches, spread evenly over the model's data, or all batches if there are fewer."""
    plan = evaluation_plan(model.data_layer)
    for place in np.unique(np.linspace(0, len(plan) - 1, count).round().astype(int)):
        yield model.data_layer.make_batch(plan.batch(int(place)))


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
    activations, *kinds = (groups[kind] for kind in Kind)
    gradients = {layer: sum_ranges(kind[layer] for kind in kinds if layer in kind)
                 for layer in dict.fromkeys(layer for kind in kinds for layer in kind)}
    titled = {f"{word} of {layer}": numbers for word, ranges in (("activations", activations), ("gradients", gradients))
              for layer, numbers in ranges.items()}
    lines = _about_nonfinite(titled)
    for layer, numbers in activations.items():
        lines += _about_activations(layer, numbers)
    for layer, numbers in gradients.items():
        lines += _about_gradients(layer, numbers)
    lines += _about_scale(gradients) + _about_present_scale(gradients, present_scale)
    return lines + _about_bfloat16(titled)


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
