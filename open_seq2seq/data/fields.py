"""What the arrays of a batch are: the fields that a data layer declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError

SIDES = ("source_tensors", "target_tensors")
"""The lists of arrays in a batch, source first."""


@dataclass(frozen=True)
class Field:
    """One array of a batch.

    Attributes:
      dtype: type of its values.
      shape: of the array, the batch first; None for what differs from batch to batch.
      time: the axis along which examples are of unequal length, and are padded by zeros; None where there is none.
      lengths: where the lengths along that axis are, an array ``[batch]``: a place in the same list, or a path such
        as ``"source_tensors/1"``. Arrays that name the same lengths are equally wide. None: in no array.
    """

    dtype: tf.DType
    shape: tuple[int | None, ...]
    time: int | None = None
    lengths: int | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", tf.as_dtype(self.dtype))
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.time is not None and not 0 < self.time < len(self.shape):
            raise ConfigError([f"A field of shape {list(self.shape)} has its time on axis {self.time}: that has to be "
                               f"one of its axes after the batch's, 1 to {len(self.shape) - 1}."])

    @property
    def spec(self) -> tf.TensorSpec:
        """Its ``tf.TensorSpec``."""
        return tf.TensorSpec(self.shape, self.dtype)


def signature_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a ``tf.TensorSpec`` for each field, nested as they are."""
    return mapped(lambda name, field: field.spec, fields)


def fields_of(signature: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a layer that describes its batches by ``input_signature`` alone.

    The first array of a side holds its values, and the second one their lengths. Where axis 1 of the values is of
    unknown size it is time, and so it is for other arrays of that side.
    """
    timed = {side for side in SIDES if _has_time(next(iter(signature.get(side) or ()), None))}

    def field(path: str, spec: tf.TensorSpec) -> Field:
        side, _, place = path.partition("/")
        if side in timed and _has_time(spec):
            return Field(spec.dtype, tuple(spec.shape), 1, 1 if len(signature[side]) > 1 else None)
        return Field(spec.dtype, tuple(spec.shape))

    return mapped(field, signature)


def _has_time(spec: tf.TensorSpec | None) -> bool:
    return spec is not None and spec.shape.rank is not None and spec.shape.rank > 1 and spec.shape[1] is None


def flatten(batch: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields (path, array or field) of a batch or its fields: ``source_tensors/0``, ``ids``."""
    for name, value in batch.items():
        if isinstance(value, (list, tuple)):
            yield from ((f"{name}/{place}", item) for place, item in enumerate(value))
        else:
            yield name, value


def mapped(function: Callable[[str, Any], Any], nested: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a function makes of each (path, array or field), nested as they are."""
    return {name: [function(f"{name}/{place}", item) for place, item in enumerate(value)]
            if isinstance(value, (list, tuple)) else function(name, value) for name, value in nested.items()}


def timed_groups(fields: Mapping[str, Any]) -> list[dict[str, int]]:
    """Returns the arrays that are equally wide in each batch: one dict of path → axis of time for each width.

    They come in the order of the fields, source first: that of the columns of ``DataLayer.lengths``. What has a time
    axis of one size in all batches is not among them.
    """
    ordered = sorted(flatten(fields), key=lambda item: _side_number(item[0]))
    groups: dict[str, dict[str, int]] = {}
    for path, field in ordered:
        if field.time is not None and field.shape[field.time] is None:
            groups.setdefault(_lengths_path(path, field), {})[path] = field.time
    return list(groups.values())


def _side_number(path: str) -> int:
    side = path.partition("/")[0]
    return SIDES.index(side) if side in SIDES else len(SIDES)


def _lengths_path(path: str, field: Field) -> str:
    side = path.partition("/")[0]
    if field.lengths is None:
        return f"{path} itself"
    return field.lengths if isinstance(field.lengths, str) else f"{side}/{field.lengths}"
