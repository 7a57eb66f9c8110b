"""The time that XLA takes to compile the update for each shape of a batch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from open_seq2seq.data.fields import flatten
from open_seq2seq.utils.console import deco_print


class Compilations:
    """Prints how long the first update on each shape of a batch takes, because XLA compiles the update in it."""

    def __init__(self) -> None:
        self._shapes: set[str] = set()

    @contextlib.contextmanager
    def noted(self, batches: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Context manager around the update on these batches."""
        start = time.perf_counter()
        yield
        new = {shape_of(batch): None for batch in batches}
        for shape in [shape for shape in new if shape not in self._shapes]:
            self._shapes.add(shape)
            deco_print(f"XLA: first update on {shape}, compilation included: {time.perf_counter() - start:.1f} s "
                       f"(shape {len(self._shapes)})")


def shape_of(batch: Mapping[str, Any]) -> str:
    """Returns the shapes of a batch's arrays with more than one axis, such as ``16 × 24 + 16 × 25``."""
    shapes = [np.shape(array) for _, array in flatten(batch)]
    return " + ".join(" × ".join(map(str, shape)) for shape in shapes if len(shape) > 1)
