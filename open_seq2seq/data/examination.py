"""Examines the files of a data layer that has one file for each example, for ``--check``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from open_seq2seq.utils.console import tracked
from open_seq2seq.utils.errors import DataError

OR_SKIP = "or set data_layer_params/on_bad_example to skip."
"""End of sentences about examples that cannot be used."""
_BLOCK = 64
_LISTED = 10


def examined(problem_of: Callable[[int], str | None], count: int, what: str, skips: bool) -> list[str]:
    """Examines all examples of a data layer in several threads, and returns lines to print.

    Args:
      problem_of: returns a sentence about an example that cannot be used, and None for any other.
      count: number of examples, at least 1.
      what: name of the examples in the plural, for messages.
      skips: whether bad examples are left out instead of ending the run.

    Raises:
      DataError: there are bad examples and ``skips`` is False, or there are only bad examples.
    """
    def problems_of(first: int) -> list[str | None]:
        return [problem_of(example) for example in range(first, min(first + _BLOCK, count))]

    def problems() -> Iterator[str | None]:
        with ThreadPoolExecutor(os.cpu_count() or 1, "examination") as pool:
            yield from itertools.chain.from_iterable(pool.map(problems_of, range(0, count, _BLOCK)))

    bad = [problem for problem in tracked(problems(), count, f"Checking {what}") if problem is not None]
    if bad and (not skips or len(bad) == count):
        remedy = "Replace them." if skips else f"Correct or remove them, {OR_SKIP}"
        raise DataError(f"{len(bad):,} of {count:,} {what} cannot be used: {bad[0]} {remedy}")
    lines = [f"{count - len(bad):,} of {count:,} {what} were decoded"]
    return lines + [f"to be skipped: {problem}" for problem in bad[:_LISTED]]
