"""Batches of a small set of static shapes, because XLA compiles the training step once for each shape.

A shape consists of a number of rows and of one edge, a padded length, for each column of the lengths (source, target).
The edges form a box, and an example is padded to the smallest box that contains its lengths. Choosing few boxes with
little padding, given the joint histogram of the lengths, is a facility-location problem. ``choose_shapes`` greedily
adds the box that saves the most padding, which reaches at least 1 − 1/e of the best possible saving (Nemhauser et al.
1978, https://doi.org/10.1007/BF01588971), and then replaces single boxes until no replacement helps. With edges at
quantiles of the lengths, batches would have 5 to 15 % more positions on Multi30k, and 2 to 7 % more on speech.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batch_loader import Wanted, made_batches
from open_seq2seq.data.fields import flatten, mapped, timed_groups
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
    if ids.dtype.kind not in "iu" or (is_row := ids != EMPTY_ID).all():
        return batch, outputs

    def rows(value: Any) -> Any:
        return value[is_row] if np.ndim(value) and len(value) == len(ids) else value

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
    widths = [{path: np.shape(arrays[path])[axis] for path, axis in group.items()} for group in groups]
    for group in widths:
        if len(set(group.values())) > 1:
            raise ConfigError([
                f"{refusal}: {' and '.join(f'{path} is {width} wide' for path, width in group.items())}, but arrays "
                "with the same lengths must have the same width: declare in the data layer's fields which lengths "
                "belong to which array."])
    return tuple(next(iter(group.values())) for group in widths)


# Maximum number of cells of the joint histogram. The time of the search grows with the square of this number.
_CELLS = 1600
_SWEEPS = 5
_LEAST_GAIN = 1e-6


class StaticShape(NamedTuple):
    """The static shape of a batch.

    Attributes:
      rows: number of rows, empty rows included.
      edges: padded length of each column of the lengths, source first.
    """

    rows: int
    edges: tuple[int, ...]

    @property
    def width(self) -> int:
        """Number of positions (time steps, padding included) in one row: the sum of the edges."""
        return sum(self.edges)

    @property
    def positions(self) -> int:
        """Number of positions (time steps, padding included) in a batch."""
        return self.rows * self.width

    def holds(self, rows: int, widths: Sequence[int]) -> bool:
        """Returns whether a batch with this number of rows and these column widths can be padded to this shape."""
        return rows <= self.rows and all(w <= e for w, e in zip(widths, self.edges, strict=True))


class Arrangement(NamedTuple):
    """How examples, sorted by static shape, are cut into batches.

    Attributes:
      pieces: slices (begin, end) of the sorted examples; concatenated in this order, they give the order of batching.
      sizes: number of consecutive examples of this order in each batch ``[batches]``.
      batches: number of batches of each shape ``[shapes]``.
    """

    pieces: list[tuple[int, int]]
    sizes: np.ndarray
    batches: list[int]


class _Histogram(NamedTuple):
    """Joint histogram of the lengths, which are rounded up to candidate edges.

    Attributes:
      cells: rounded lengths of each cell that contains examples ``[cells, columns]``.
      counts: number of examples in each cell ``[cells]``.
    """

    cells: np.ndarray
    counts: np.ndarray


def choose_shapes(lengths: np.ndarray, limit: int, batch_size: int,
                  costs: np.ndarray | None = None) -> list[StaticShape]:
    """Chooses at most ``limit`` shapes into which all examples fit, with close to the least possible padding.

    A shape has ``batch_size // c`` rows, where c is the cost of a row: the cost of the costliest example that fits into
    the shape or, if each example costs its longest length, the longest edge, because rows are padded to it.

    Args:
      lengths: positive integers ``[examples]`` or ``[examples, columns]``.
      limit: maximum number of shapes; fewer are returned if more would not help.
      batch_size: maximum cost of a batch.
      costs: integers ``[examples]``; 1 for each example by default.

    Returns:
      The shapes, narrowest first; every example fits into the last one.
    """
    table = _as_table(lengths)
    edges = [_edges_of(column, int(_CELLS ** (1 / table.shape[1]))) for column in table.T]
    histogram = _histogram(table, edges)
    boxes = _search(histogram, np.array(list(itertools.product(*edges))), limit)
    boxes = _shrunk(histogram, boxes)
    shapes = [StaticShape(max(1, batch_size // max(1, cost)), tuple(int(edge) for edge in box))
              for box, cost in zip(boxes, _row_costs(table, costs, boxes), strict=True)]
    return _pruned(shapes, histogram)


def assign_shapes(lengths: np.ndarray, shapes: Sequence[StaticShape]) -> np.ndarray:
    """Returns, for each example, the index of the narrowest shape that it fits into: uint16 ``[examples]``."""
    table = _as_table(lengths)
    shape_of = np.full(len(table), len(shapes) - 1, np.uint16)
    for number in reversed(range(len(shapes) - 1)):
        fits = np.ones(len(table), bool)
        for column, edge in zip(table.T, shapes[number].edges, strict=True):
            fits &= column <= edge
        shape_of[fits] = number
    return shape_of


def arrange(counts: Sequence[int], shapes: Sequence[StaticShape]) -> Arrangement:
    """Cuts the examples of each shape into full batches.

    The examples left over move to the next wider shape that they fit into if their rows need fewer positions there than
    a partly empty batch of their own shape. Otherwise they form such a batch.

    Args:
      counts: number of examples of each shape ``[shapes]``.
      shapes: the shapes, narrowest first.
    """
    ends = np.cumsum(counts)
    pools = [[(int(end - count), int(end))] for end, count in zip(ends, counts, strict=True)]
    sizes: list[int] = []
    batches = []
    for number, shape in enumerate(shapes):
        total = sum(end - begin for begin, end in pools[number])
        full, spare = divmod(total, shape.rows)
        wider = next((n for n in range(number + 1, len(shapes)) if shapes[n].holds(1, shape.edges)), None)
        if spare and wider is not None and spare * shapes[wider].width < shape.positions:
            pools[number], rest = _split(pools[number], total - spare)
            # Prepended, so that examples left over in the wider shape, which come from the end, are its own.
            pools[wider] = rest + pools[wider]
            spare = 0
        sizes += [shape.rows] * full + [spare] * (spare > 0)
        batches.append(full + (spare > 0))
    return Arrangement([piece for pool in pools for piece in pool], np.array(sizes), batches)


def planned_positions(arrangement: Arrangement, shapes: Sequence[StaticShape]) -> int:
    """Returns the number of positions in all batches of an epoch, padding included."""
    return sum(count * shape.positions for count, shape in zip(arrangement.batches, shapes, strict=True))


def _as_table(lengths: np.ndarray) -> np.ndarray:
    lengths = np.asarray(lengths)
    return lengths[:, np.newaxis] if lengths.ndim == 1 else lengths


def _row_costs(table: np.ndarray, costs: np.ndarray | None, boxes: np.ndarray) -> list[int]:
    """Returns the cost of a row of each box ``[boxes]``."""
    if costs is None or costs.max() <= 1:
        return [1] * len(boxes)
    if np.array_equal(costs, table.max(axis=1)):
        return [int(box.max()) for box in boxes]
    return [int(costs[np.all(table <= box, axis=1)].max(initial=1)) for box in boxes]


def _edges_of(column: np.ndarray, most: int) -> np.ndarray:
    """Returns candidate edges: at most ``most`` of the lengths that occur, always including the longest.

    The examples between two consecutive edges have about equally many positions in total.
    """
    counts = np.bincount(column)
    present = np.flatnonzero(counts)
    if len(present) <= most:
        return present
    mass = np.cumsum((present * counts[present]).astype(np.float64))
    quantiles = np.searchsorted(mass, np.linspace(0, mass[-1], most + 1)[1:], side="left")
    return present[np.unique(np.minimum(quantiles, len(present) - 1))]


def _histogram(table: np.ndarray, edges: list[np.ndarray]) -> _Histogram:
    cell = np.zeros(len(table), np.int64)
    for column, candidates in zip(table.T, edges, strict=True):
        edge_of = np.searchsorted(candidates, np.arange(int(candidates[-1]) + 1))  # length → index of its edge
        cell = cell * len(candidates) + edge_of[column]
    counts = np.bincount(cell, minlength=int(np.prod([len(e) for e in edges])))
    occupied = np.flatnonzero(counts)
    places_of = np.unravel_index(occupied, [len(e) for e in edges])
    return _Histogram(np.stack([e[p] for e, p in zip(edges, places_of, strict=True)], axis=1), counts[occupied])


def _search(histogram: _Histogram, candidates: np.ndarray, limit: int) -> np.ndarray:
    """Returns at most ``limit`` boxes ``[boxes, columns]``; all examples fit into the first one.

    Args:
      histogram: the lengths to cover.
      candidates: boxes to choose from ``[candidates, columns]``; all examples fit into the last one.
      limit: maximum number of boxes.
    """
    widths = candidates.sum(axis=1).astype(np.float32)
    fits = np.all(histogram.cells <= candidates[:, np.newaxis], axis=2)  # [candidates, cells]
    weights = fits * (histogram.counts / histogram.counts.sum()).astype(np.float32)

    def savings(boxes: list[int]) -> np.ndarray:
        """Returns how much padding each candidate would save if it were added to these boxes ``[candidates]``."""
        padded = np.where(fits[boxes], widths[boxes, np.newaxis], np.inf).min(axis=0)
        return np.einsum("cm,cm->c", np.maximum(padded - widths[:, np.newaxis], 0), weights)

    chosen = [len(candidates) - 1]
    while len(chosen) < limit:
        saved = savings(chosen)
        if saved.max() <= 0:
            break
        chosen.append(int(saved.argmax()))
    for _ in range(_SWEEPS):
        before = list(chosen)
        for place in range(1, len(chosen)):
            saved = savings(chosen[:place] + chosen[place + 1:])
            best = int(saved.argmax())
            if saved[best] > saved[chosen[place]] * (1 + _LEAST_GAIN):
                chosen[place] = best
        if chosen == before:
            break
    return candidates[chosen]


def _shrunk(histogram: _Histogram, boxes: np.ndarray) -> np.ndarray:
    """Assigns each cell to the narrowest box that contains it, and removes boxes without cells.

    The remaining boxes are shrunk to the smallest size that contains their cells; the widest keeps its size. Returns
    the boxes, narrowest first.
    """
    boxes = boxes[np.argsort(boxes.sum(axis=1), kind="stable")]
    owner = np.all(histogram.cells[:, np.newaxis] <= boxes, axis=2).argmax(axis=1)
    # The widest box keeps its size, because every example has to fit into it.
    small = [histogram.cells[owner == box].max(axis=0) for box in range(len(boxes) - 1) if (owner == box).any()]
    shrunk = np.unique(np.array([*small, boxes[-1]]), axis=0)
    return shrunk[np.argsort(shrunk.sum(axis=1), kind="stable")]


def _pruned(shapes: list[StaticShape], histogram: _Histogram) -> list[StaticShape]:
    """Removes shapes as long as that does not add positions to an epoch.

    Fewer shapes can even save positions, because each shape may need a partly empty batch.
    """

    def positions(some: list[StaticShape]) -> int:
        edges = np.array([shape.edges for shape in some])
        owner = np.all(histogram.cells[:, np.newaxis] <= edges, axis=2).argmax(axis=1)
        counts = np.bincount(owner, weights=histogram.counts, minlength=len(some)).astype(np.int64)
        return planned_positions(arrange(counts.tolist(), some), some)

    least = positions(shapes)
    while len(shapes) > 1:
        fewer = [shapes[:place] + shapes[place + 1:] for place in range(len(shapes) - 1)]
        totals = [positions(some) for some in fewer]
        best = int(np.argmin(totals))
        if totals[best] > least:
            break
        shapes, least = fewer[best], totals[best]
    return shapes


def _split(pieces: list[tuple[int, int]], size: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Splits a list of slices into two lists, the first of which has ``size`` examples."""
    head: list[tuple[int, int]] = []
    for place, (begin, end) in enumerate(pieces):
        if end - begin > size:
            return [*head, (begin, begin + size)], [(begin + size, end), *pieces[place + 1:]]
        head.append((begin, end))
        size -= end - begin
    return head, []
