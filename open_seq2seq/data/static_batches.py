"""Padding batches to the few shapes that ``static_shapes`` picked.

A batch is padded in time to its shape's edges and with empty rows: all padding, of length
0, with the id ``EMPTY_ID``. Neither changes a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.loader import BatchMaker
from open_seq2seq.data.static_shapes import Arrangement, StaticShape, planned_positions
from open_seq2seq.utils.errors import ConfigError

EMPTY_ID = -1
"""The id of a row that holds no example."""

_SIDES = ("source_tensors", "target_tensors")


class StaticBatches:
    """Makes the batches of a data layer, each padded to one of a few shapes.

    Args:
      data_layer: makes batches by ``make_batch``.
      shapes: from ``static_shapes.choose_shapes``, narrowest first.
    """

    def __init__(self, data_layer: BatchMaker, shapes: Sequence[StaticShape]) -> None:
        self._data_layer = data_layer
        self.params = getattr(data_layer, "params", {})
        self.shapes = shapes

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Makes the batch of the examples with these numbers ``[batch]``, padded to the narrowest shape that holds it.

        Raises:
          ConfigError: no shape holds it, because the data layer's lengths are not those of its batches.
        """
        return self._fitted(self._data_layer.make_batch(examples))

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Makes the same from what the data layer draws in this epoch; see ``make_batch``."""
        make = getattr(self._data_layer, "make_training_batch", None)
        return self._fitted(make(examples, epoch) if make else self._data_layer.make_batch(examples))

    def _fitted(self, batch: dict[str, Any]) -> dict[str, Any]:
        widths, rows = _widths(batch), len(batch["ids"])
        for shape in self.shapes:
            if len(widths) == len(shape.edges) and shape.holds(rows, widths):
                return pad_batch(batch, shape)
        raise ConfigError([
            f"'xla_buckets' cannot be used with {type(self._data_layer).__name__}: its lengths promise batches of at "
            f"most {self.shapes[-1].edges} positions a side, but it made one of {widths} with {rows} "
            "examples. Each side that has a time axis needs a column of lengths."])


def pad_batch(batch: Mapping[str, Any], shape: StaticShape) -> dict[str, Any]:
    """Pads a batch by zeros to a shape, and its ids by ``EMPTY_ID``.

    Args:
      batch: ``source_tensors`` and ``target_tensors`` (values ``[batch, time, …]``, lengths
        ``[batch]``, …), ``ids`` ``[batch]``, and other arrays, which are padded in their
        first axis. What has as many time steps as the values of its side is padded as they are.
      shape: rows, and a padded length for each side in the batch that has a time axis.
    """
    padded: dict[str, Any] = {
        name: _grown(value, shape.rows, None, 0) for name, value in batch.items() if name not in (*_SIDES, "ids")}
    edges = iter(shape.edges)
    for name in _present(batch):
        edge = next(edges) if _time(batch[name]) is not None else None
        padded[name] = [_grown(a, shape.rows, edge if _is_timed(a, batch[name]) else None, 0) for a in batch[name]]
    return {**padded, "ids": _grown(batch["ids"], shape.rows, None, EMPTY_ID)}


def with_empty_row(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a batch of no examples as one of a single empty row, at least a step wide: not all code takes no rows.

    Args:
      batch: as for ``pad_batch``; its arrays have no rows.
    """
    return pad_batch(batch, StaticShape(1, tuple(max(1, width) for width in _widths(batch))))


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


def _present(batch: Mapping[str, Any]) -> list[str]:
    return [name for name in _SIDES if batch.get(name)]


def _time(side: Sequence[np.ndarray]) -> int | None:
    return side[0].shape[1] if side[0].ndim > 1 else None


def _is_timed(array: np.ndarray, side: Sequence[np.ndarray]) -> bool:
    return array.ndim > 1 and array.shape[1] == _time(side)


def _widths(batch: Mapping[str, Any]) -> tuple[int, ...]:
    times = (_time(batch[name]) for name in _present(batch))
    return tuple(time for time in times if time is not None)


def _grown(array: np.ndarray, rows: int, time: int | None, value: int) -> np.ndarray:
    array = np.asarray(array)
    missing = [(0, rows - array.shape[0])] + [(0, 0)] * (array.ndim - 1)
    if time is not None:
        missing[1] = (0, time - array.shape[1])
    return np.pad(array, missing, constant_values=value)
