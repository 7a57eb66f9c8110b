"""Rows of a user's table: those that are kept, and those that are left out, with the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from open_seq2seq.utils.console import deco_print, format_count


class HasLine(Protocol):
    """Protocol of a row of a file, with the number of its line."""

    @property
    def line(self) -> int:
        """Number of the line in the file, counted from 1."""


Row = TypeVar("Row", bound=HasLine)


@dataclass
class Kept(Generic[Row]):
    """Rows that are kept, and those that were left out.

    Attributes:
      rows: the rows for training and evaluation.
      dropped: dict of reason → rows that were left out.
    """

    rows: list[Row] = field(default_factory=list)
    dropped: dict[str, list[Row]] = field(default_factory=dict)

    def drop(self, row: Row, reason: str) -> None:
        """Records a row as left out."""
        self.dropped.setdefault(reason, []).append(row)

    def all_dropped(self) -> list[tuple[str, Row]]:
        """Returns (reason, row) of all rows that were left out, in the order of their lines."""
        dropped = [(reason, row) for reason, rows in self.dropped.items() for row in rows]
        return sorted(dropped, key=lambda pair: pair[1].line)

    def report(self, noun: str, path: str | None = None, place: Callable[[Row], str] | None = None) -> None:
        """Prints how many rows were left out and why.

        Args:
          noun: word for a row, in the singular, such as ``pair``.
          path: file in which these rows are listed, if there is one.
          place: function that returns where a row is, such as its file; by default its line.
        """
        if self.dropped:
            count = format_count(len(self.all_dropped()), noun)
            deco_print(f"Left out {count}" + (f", listed in {path} with line and reason:" if path else ":"))
        for reason, rows in self.dropped.items():
            first = min(rows, key=lambda row: row.line)
            where = f"line {first.line:,}" if place is None else place(first)
            deco_print(f"{len(rows):,} {reason} (first: {where})", offset=1)
