"""Fields, with which a data layer declares the arrays of its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError

SIDES = ("source_tensors", "target_tensors")
"""Keys of the lists of arrays in a batch, source first."""


@dataclass(frozen=True)
class Field:
    """Declaration of one array of a batch.

    Attributes:
      dtype: dtype of the array.
      shape: shape of the array, batch dimension first; None for dimensions that vary between batches.
      time: the axis along which examples have different lengths and are padded with zeros, or None.
      lengths: which array contains the examples' lengths along this axis ``[batch]``: its index in the same list, or a
        path such as ``"source_tensors/1"``; None if no array does. Arrays with the same lengths have the same width.
    """

    dtype: tf.DType
    shape: tuple[int | None, ...]
    time: int | None = None
    lengths: int | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", tf.as_dtype(self.dtype))
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.time is not None and not 0 < self.time < len(self.shape):
            raise ConfigError([f"The time axis of a field of shape {list(self.shape)} is {self.time}, but it must be "
                               f"an axis after the batch axis, from 1 to {len(self.shape) - 1}."])

    @property
    def spec(self) -> tf.TensorSpec:
        """The field's ``tf.TensorSpec``."""
        return tf.TensorSpec(self.shape, self.dtype)


def signature_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a ``tf.TensorSpec`` for each field, in the same nested structure."""
    return mapped(lambda name, field: field.spec, fields)


def fields_of(signature: Mapping[str, Any]) -> dict[str, Any]:
    """Derives the fields from the ``input_signature`` of a layer that does not declare fields.

    In each of ``source_tensors`` and ``target_tensors``, the first array is assumed to contain values and the second
    their lengths. If axis 1 of the values has size None, it is taken as the time axis, and so is axis 1 of every other
    array in the same list in which that axis has size None.
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
    """Yields (path, value) for each array of a batch, or for each of its fields.

    Paths are such as ``source_tensors/0`` and ``ids``.
    """
    for name, value in batch.items():
        if isinstance(value, (list, tuple)):
            yield from ((f"{name}/{place}", item) for place, item in enumerate(value))
        else:
            yield name, value


def mapped(function: Callable[[str, Any], Any], nested: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a batch, or of its fields, with each value replaced by ``function(path, value)``."""
    return {name: [function(f"{name}/{place}", item) for place, item in enumerate(value)]
            if isinstance(value, (list, tuple)) else function(name, value) for name, value in nested.items()}


def timed_groups(fields: Mapping[str, Any]) -> list[dict[str, int]]:
    """Returns groups of arrays that share their lengths and hence their width, as dicts of path → time axis.

    The groups are in the order of the columns of ``DataLayer.lengths``, source first. Arrays whose time axis has a
    fixed size are left out.
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
