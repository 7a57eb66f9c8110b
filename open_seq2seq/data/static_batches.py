"""Pads batches to the static shapes chosen by ``static_shapes``.

The time axes of a batch are padded to the lengths that its shape gives (``edges``). If the batch has too few rows, rows
of length 0 with the id ``EMPTY_ID`` are added. Models mask padding, so it does not change results. The data layer's
fields declare the time axis of each array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batch_loader import Wanted, made_batches
from open_seq2seq.data.fields import flatten, mapped, timed_groups
from open_seq2seq.data.static_shapes import Arrangement, StaticShape, planned_positions
from open_seq2seq.utils.errors import ConfigError

EMPTY_ID = -1
"""Id of a row without an example."""


class StaticBatches:
    """Makes the batches of a data layer, each padded to one of a few static shapes.

    Args:
      data_layer: makes the batches.
      shapes: the static shapes, narrowest first.
    """

    def __init__(self, data_layer: Any, shapes: Sequence[StaticShape]) -> None:
        self._data_layer = data_layer
        self.params = getattr(data_layer, "params", {})
        self.shapes = shapes

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Returns the batch of the examples with these numbers ``[batch]``, padded to the narrowest possible shape.

        Raises:
          ConfigError: the batch fits into no shape, because it does not match the data layer's lengths or fields.
        """
        return self._fitted(self._data_layer.make_batch(examples))

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Returns a training batch for one epoch, padded as in ``make_batch``."""
        make = getattr(self._data_layer, "make_training_batch", None)
        return self._fitted(make(examples, epoch) if make else self._data_layer.make_batch(examples))

    def make_batches(self, plan: Iterator[Wanted], training: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Returns an iterator over (number, batch), padded as in ``make_batch``; see ``DataLayer.make_batches``."""
        return ((index, self._fitted(batch)) for index, batch in made_batches(self._data_layer, plan, training))

    def _fitted(self, batch: dict[str, Any]) -> dict[str, Any]:
        name = type(self._data_layer).__name__
        groups, rows = timed_groups(self._data_layer.fields), len(batch["ids"])
        widths = _widths(batch, groups, f"'xla_buckets' cannot be used with {name}")
        for shape in self.shapes:
            edges = shape.edges if groups else ()  # without time axes, only the number of rows matters
            if len(widths) == len(edges) and StaticShape(shape.rows, edges).holds(rows, widths):
                return pad_batch(batch, StaticShape(shape.rows, edges), self._data_layer.fields)
        raise ConfigError([
            f"'xla_buckets' cannot be used with {name}: according to {name}.lengths, the sides of a batch have at "
            f"most {self.shapes[-1].edges} positions, but a batch of {rows} examples has {widths}: correct the "
            "property lengths, which needs a column for each side with a time axis."])


def pad_batch(batch: Mapping[str, Any], shape: StaticShape, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Pads a batch to a shape, the ids with ``EMPTY_ID`` and all other arrays with zeros.

    Args:
      batch: ``source_tensors`` and ``target_tensors`` (values, lengths, …), ``ids`` ``[batch]``, and possibly other
        arrays ``[batch, …]``.
      shape: number of rows, and a padded length for each group of equally wide arrays, source first.
      fields: ``DataLayer.fields``; arrays without a time axis in ``fields`` only get additional rows.
    """
    groups = zip(timed_groups(fields), shape.edges, strict=True)
    widths = {path: (axis, edge) for group, edge in groups for path, axis in group.items()}

    def grown(path: str, array: Any) -> np.ndarray:
        array = np.asarray(array)
        missing = [(0, shape.rows - array.shape[0])] + [(0, 0)] * (array.ndim - 1)
        if path in widths:
            axis, edge = widths[path]
            missing[axis] = (0, edge - array.shape[axis])
        return np.pad(array, missing, constant_values=EMPTY_ID if path == "ids" else 0)

    return mapped(grown, batch)


def with_empty_row(batch: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Adds an empty row, at least one time step wide, to a batch that has no rows.

    Args:
      batch: a batch as for ``pad_batch``, but with arrays of 0 rows.
      fields: ``DataLayer.fields``.
    """
    widths = _widths(batch, timed_groups(fields), "The arrays of a batch do not match the data layer's fields")
    return pad_batch(batch, StaticShape(1, tuple(max(1, width) for width in widths)), fields)


def without_empty_rows(batch: dict[str, Any], outputs: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Removes the rows without an example from a batch and from the outputs computed from the batch.

    Args:
      batch: a batch, with ``ids`` ``[batch]``.
      outputs: arrays; those whose number of rows differs from the batch's are returned unchanged.
    """
    ids = np.asarray(batch["ids"])
    if ids.dtype.kind not in "iu" or (held := ids != EMPTY_ID).all():
        return batch, outputs

    def rows(value: Any) -> Any:
        return value[held] if np.ndim(value) and len(value) == len(ids) else value

    return tf.nest.map_structure(rows, (batch, outputs))


def describe_shapes(shapes: Sequence[StaticShape], arrangement: Arrangement, positions: int) -> list[str]:
    """Returns log lines with the share of padding and a description of each shape.

    Args:
      shapes: the static shapes.
      arrangement: how the examples of an epoch are cut into batches.
      positions: number of positions of all examples, without padding.
    """
    total = planned_positions(arrangement, shapes)
    lines = [f"XLA buckets: {len(shapes)} shapes, {len(arrangement.sizes):,} batches per epoch, "
             f"{1 - positions / total:.1%} of positions are padding"]
    for shape, batches in zip(shapes, arrangement.batches, strict=True):
        edges = " + ".join(str(edge) for edge in shape.edges)
        share = batches * shape.positions / total
        lines.append(f"   {shape.rows} examples × ({edges}): {batches:,} batches, {share:.1%} of positions")
    return lines


def _widths(batch: Mapping[str, Any], groups: Sequence[Mapping[str, int]], refusal: str) -> tuple[int, ...]:
    """Returns the width of the arrays in each group; raises ConfigError if the widths within a group differ."""
    arrays = dict(flatten(batch))
    found = [{path: np.shape(arrays[path])[axis] for path, axis in group.items()} for group in groups]
    for group in found:
        if len(set(group.values())) > 1:
            raise ConfigError([
                f"{refusal}: {' and '.join(f'{path} is {width} wide' for path, width in group.items())}, but arrays "
                "with the same lengths must have the same width: declare in the data layer's fields which lengths "
                "belong to which array."])
    return tuple(next(iter(group.values())) for group in found)
