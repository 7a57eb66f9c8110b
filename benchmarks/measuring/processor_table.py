"""Maintains the file of measurements by processor, and the table in the documentation that is generated from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measuring.programs import markdown_table
from open_seq2seq.utils.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "benchmarks" / "results" / "processors.yaml"
DOCUMENT = ROOT / "docs" / "mixed-precision.md"
BEGIN, END = "<!-- processors: begin -->", "<!-- processors: end -->"
_NOTE = "# Written by benchmarks/processors.py; the table in docs/mixed-precision.md is generated from this file.\n"
# Two rows are from the same machine if these values are equal.
_IDENTITY = ("processor", "instructions", "threads")

Row = Mapping[str, Any]


def read_rows(path: Path = FIGURES) -> list[dict[str, Any]]:
    """Returns the rows of the file, or an empty list if there is no file.

    Raises:
      UserError: the file is not a list of rows.
    """
    rows = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else []
    if not isinstance(rows or [], list) or not all(isinstance(row, dict) for row in rows or []):
        raise UserError(f"{path} is not a list of processors: restore the file, or move it away to start a new one.")
    return list(rows or [])


def put_row(row: Row, path: Path = FIGURES) -> list[dict[str, Any]]:
    """Adds a row, replacing any previous row of the same machine; returns all rows, sorted by processor."""
    others = [other for other in read_rows(path) if any(other.get(key) != row[key] for key in _IDENTITY)]
    rows = sorted([*others, dict(row)], key=lambda each: [str(each[key]) for key in _IDENTITY])
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_text(_NOTE + yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=100), encoding="utf-8")
    os.replace(aside, path)
    return rows


def format_rows(rows: Sequence[Row]) -> str:
    """Returns the table as Markdown, or a sentence if there are no rows."""
    if not rows:
        return "No processor has been measured yet."
    models = list(dict.fromkeys(name for row in rows for name in row["training"]))
    head = ["processor", "raw products, float32", "raw bfloat16: product, recurrence, convolution", *models, "decoding"]
    return markdown_table(head, [
        [_machine(row), f"{row['raw']['product']['float32']:,.0f} GFLOP/s", _gains(row["raw"]),
         *(_compared(row["training"].get(name)) for name in models), _compared(row["decoding"])] for row in rows])


def put_table(rows: Sequence[Row], document: Path = DOCUMENT) -> None:
    """Replaces the table in a document; two comments, ``BEGIN`` and ``END``, enclose the table."""
    before, _, after = _split(document)
    document.write_text(f"{before}{BEGIN}\n{format_rows(rows)}\n{END}{after}", encoding="utf-8")


def table_of(document: Path = DOCUMENT) -> str:
    """Returns the table in a document."""
    return _split(document)[1].strip()


def _split(document: Path) -> tuple[str, str, str]:
    text = document.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{document} has no place for the table: add the lines {BEGIN} and {END} where it belongs.")
    return before, table, after


def _machine(row: Row) -> str:
    threads = "1 thread" if row["threads"] == 1 else f"{row['threads']} threads"
    return f"{row['processor']} ({row['instructions'] or 'no half-precision instructions'}), {threads}"


def _gains(raw: Mapping[str, Mapping[str, float]]) -> str:
    return ", ".join(f"{by_type['bfloat16'] / by_type['float32']:.2f}×" for by_type in raw.values())


def _compared(figures: Mapping[str, Any] | None) -> str:
    """Returns the speed-up of mixed over float32, and both speeds: ``**1.92×** 9,840 → 18,890 tokens/s``."""
    if figures is None:
        return "–"
    before, after = figures["float32"], figures["mixed"]
    return f"**{after / before:.2f}×** {before:,.0f} → {after:,.0f} {figures['unit']}/s"
