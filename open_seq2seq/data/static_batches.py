"""Padding batches to the few shapes that ``static_shapes`` picked.

A batch is padded in time to its shape's edges and with empty rows: all padding, of length
0, with the id ``EMPTY_ID``. Neither changes a result. Which axis of an array is time is
what the data layer's fields say.
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
"""The id of a row that holds no example."""


class StaticBatches:
    """Makes the batches of a data layer, each padded to one of a few shapes.

    Args:
      data_layer: makes batches by ``make_batch`` or by ``make_dataset``, and declares their ``fields``.
      shapes: from ``static_shapes.choose_shapes``, narrowest first.
    """

    def __init__(self, data_layer: Any, shapes: Sequence[StaticShape]) -> None:
        self._data_layer = data_layer
        self.params = getattr(data_layer, "params", {})
        self.shapes = shapes
        self._groups = timed_groups(data_layer.fields)

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Makes the batch of the examples with these numbers ``[batch]``, padded to the narrowest shape that holds it.

        Raises:
          ConfigError: no shape holds it, because the data layer's lengths or fields are not those of its batches.
        """
        return self._fitted(self._data_layer.make_batch(examples))

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Makes the same from what the data layer draws in this epoch; see ``make_batch``."""
        make = getattr(self._data_layer, "make_training_batch", None)
        return self._fitted(make(examples, epoch) if make else self._data_layer.make_batch(examples))

    def make_batches(self, plan: Iterator[Wanted], training: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the data layer's batches of a plan, padded likewise; see ``DataLayer.make_batches``."""
        return ((index, self._fitted(batch)) for index, batch in made_batches(self._data_layer, plan, training))

    def _fitted(self, batch: dict[str, Any]) -> dict[str, Any]:
        name = type(self._data_layer).__name__
        widths, rows = _widths(batch, self._groups, f"'xla_buckets' cannot be used with {name}"), len(batch["ids"])
        for shape in self.shapes:
            # What has no time is of one width.
            edges = shape.edges if self._groups else ()
            if len(widths) == len(edges) and StaticShape(shape.rows, edges).holds(rows, widths):
                return _padded(batch, shape.rows, self._groups, edges)
        raise ConfigError([
            f"'xla_buckets' cannot be used with {name}: its lengths promise batches of at "
            f"most {self.shapes[-1].edges} positions a side, but it made one of {widths} with {rows} "
            "examples. Each side that has a time axis needs a column of lengths."])


def pad_batch(batch: Mapping[str, Any], shape: StaticShape, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Pads a batch by zeros to a shape, and its ids by ``EMPTY_ID``.

    Args:
      batch: ``source_tensors`` and ``target_tensors`` (values, lengths, …), ``ids`` ``[batch]``, and other arrays,
        the batch's axis first in all of them.
      shape: rows, and a padded length for each width that the fields tell of, source first.
      fields: of the batch, ``DataLayer.fields``; what they leave out is padded by rows alone.
    """
    return _padded(batch, shape.rows, timed_groups(fields), shape.edges)


def with_empty_row(batch: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a batch of no examples as one of a single empty row, at least a step wide: not all code takes no rows.

    Args:
      batch: as for ``pad_batch``; its arrays have no rows.
      fields: of the batch.
    """
    groups = timed_groups(fields)
    return _padded(batch, 1, groups, [max(1, width) for width in _widths(batch, groups, "A batch is uneven")])


def without_empty_rows(batch: dict[str, Any], outputs: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Returns a batch and what was computed from it without the rows that hold no example; the same where all do.

    Args:
      batch: a nest of arrays, with ``ids`` ``[batch]``.
      outputs: arrays. What has not as many rows as the batch is left as it is.
    """
    ids = np.asarray(batch["ids"])
    if ids.dtype.kind not in "iu" or (held := ids != EMPTY_ID).all():
        return batch, outputs

    def rows(value: Any) -> Any:
        return value[held] if np.ndim(value) and len(value) == len(ids) else value

    return tf.nest.map_structure(rows, (batch, outputs))


def describe_shapes(shapes: Sequence[StaticShape], arrangement: Arrangement, tokens: int) -> list[str]:
    """Returns lines for the log: the share of padding in all, then each shape.

    Args:
      shapes: what the batches are padded to.
      arrangement: how many batches each has.
      tokens: positions of all examples without padding.
    """
    total = planned_positions(arrangement, shapes)
    lines = [f"XLA buckets: {len(shapes)} shapes, {len(arrangement.sizes):,} batches an epoch, "
             f"{1 - tokens / total:.1%} of positions are padding"]
    for shape, batches in zip(shapes, arrangement.batches, strict=True):
        edges = " + ".join(str(edge) for edge in shape.edges)
        share = batches * shape.positions / total
        lines.append(f"   {shape.rows} examples × ({edges}): {batches:,} batches, {share:.1%} of positions")
    return lines


def _widths(batch: Mapping[str, Any], groups: Sequence[Mapping[str, int]], refusal: str) -> tuple[int, ...]:
    """Returns how wide the arrays of each group are, all alike."""
    arrays = dict(flatten(batch))
    found = [{path: np.shape(arrays[path])[axis] for path, axis in group.items()} for group in groups]
    for group in found:
        if len(set(group.values())) > 1:
            raise ConfigError([
                f"{refusal}: {' and '.join(f'{path} is {width} wide' for path, width in group.items())}, but what has "
                "the same lengths has to be equally wide: say in the data layer's fields where the lengths are."])
    return tuple(next(iter(group.values())) for group in found)


def _padded(batch: Mapping[str, Any], rows: int, groups: Sequence[Mapping[str, int]],
            edges: Sequence[int]) -> dict[str, Any]:
    widths = {path: (axis, edge) for group, edge in zip(groups, edges, strict=True) for path, axis in group.items()}

    def grown(path: str, array: Any) -> np.ndarray:
        array = np.asarray(array)
        missing = [(0, rows - array.shape[0])] + [(0, 0)] * (array.ndim - 1)
        if path in widths:
            axis, edge = widths[path]
            missing[axis] = (0, edge - array.shape[axis])
        return np.pad(array, missing, constant_values=EMPTY_ID if path == "ids" else 0)

    return mapped(grown, batch)
