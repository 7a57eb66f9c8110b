"""Records the batch that this process works on, so that error messages can name the current batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_SHOWN = 8  # maximum number of ids in a message


@dataclass(frozen=True)
class Place:
    """One batch, or the micro-batches of one update.

    Attributes:
      work: what the batch is used for, such as ``step``, ``eval batch`` or ``infer batch``.
      number: number of the batch or update, from 1.
      ids: the examples' ids, an array ``[batch]`` for each micro-batch.
      describe: function that describes the example with a given id in words, or None.
    """

    work: str
    number: int
    ids: tuple[Any, ...]
    describe: Callable[[int], str] | None = None

    def __str__(self) -> str:
        ids = [example for batch in self.ids for example in batch if not _is_empty(example)]
        shown = ", ".join(str(example) for example in itertools.islice(ids, _SHOWN))
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        return f"{self.work} {self.number}" + (f", on examples {shown}{more}{self._first(ids[0])}" if ids else "")

    def _first(self, example: Any) -> str:
        if self.describe is None or isinstance(example, (str, bytes)):
            return ""
        words = self.describe(int(example))
        return f" (the first is {words})" if words != f"Example {example}" else ""


def _is_empty(example: Any) -> bool:
    """Returns whether an example id is negative, as the ids of empty rows are, which pad a batch to a static shape."""
    return not isinstance(example, (str, bytes)) and int(example) < 0


class Trail:
    """The newest batch of this process; recorded by the main thread, read by any thread.

    Attributes:
      count: number of calls of ``note`` so far, by which readers notice a change.
    """

    def __init__(self) -> None:
        self.count = 0
        self._place: Place | None = None

    def note(self, work: str, number: int, ids: Iterable[Any], describe: Callable[[int], str] | None = None) -> None:
        """Records the batch that the process is about to work on; see ``Place`` for the arguments."""
        self._place = Place(work, number, tuple(ids), describe)
        self.count += 1

    @property
    def last(self) -> str:
        """The newest batch in words, such as ``step 7, on examples 3, 17, 4``; empty if no batch is recorded."""
        return "" if self._place is None else str(self._place)


# One object for the whole process, because a process works on one batch at a time.
TRAIL = Trail()
