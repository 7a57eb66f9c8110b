"""Helpers that the benchmark programs share: exit codes, Markdown tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.measuring.processes import Failure
from open_seq2seq.utils.errors import UserError


def run_program(main: Callable[[list[str]], Any]) -> None:
    """Runs a program; prints an error as one line, and exits with code 2 if it is the user's mistake, else 1."""
    try:
        main(sys.argv[1:])
    except (UserError, Failure) as error:
        print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, UserError) or error.mistake else 1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Returns a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def new_figure(columns: int, width: float = 5.0, height: float = 3.4) -> tuple[Any, Any]:
    """Returns a matplotlib figure that needs no display, and an array of its axes.

    Args:
      columns: number of axes, side by side.
      width: width of each column in inches.
      height: height of the figure in inches.

    Raises:
      UserError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("The plot needs matplotlib: run `pip install matplotlib`, or leave --png out.") from None
    figure = Figure(figsize=(width * columns, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False)[0]
