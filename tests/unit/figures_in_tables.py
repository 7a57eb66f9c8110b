"""Which tables of a page contain figures that were measured, by how their columns look."""

from __future__ import annotations

import re
from collections.abc import Iterator

UNIT = (r"%|×|x|s|ms|min|h|minutes?|seconds?|hours?|days?|MB|GB|MiB|GiB|kB|KiB|dB|Hz|nats?|BLEU|million|tokens/s"
        r"|sentences/s|images/s|GFLOP/s|TFLOP/s|points?|errors?|updates?|steps?")
NUMBER = rf"[-−+±≤<>~≈]?\s*\d[\d,.]*(?:e[-−]?\d+)?\s*(?:{UNIT})?(?!\w)"
WORDS = (r"to|and|of|or|about|less|than|more|in|for|per|each|with|beside|against|both|seeds?|median|the|averaged|at|a"
         r"|after|all|not|one|two|then|within")
# Columns that say what was given or counted, whatever the unit after the comma: they are facts and settings.
FACTS = {"default", "value", "weights", "parameters", "batch", "layers", "updates", "seed", "seeds", "version", "beam",
         "width", "example", "unit", "row", "port", "lines",
         "status beyond it"}
MEASURED = {"time", "speed", "score", "accuracy", "loss", "perplexity"}


def cells(line: str) -> list[str]:
    """Returns the cells of a line of a table."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def tables(text: str) -> Iterator[tuple[int, int, list[str], list[list[str]]]]:
    """Yields first line, line after the last, header and rows of each table of a page."""
    lines = text.split("\n")
    start = 0
    while start + 1 < len(lines):
        end = start
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        if end > start + 1 and re.fullmatch(r"\|(?:[-: ]+\|)+", lines[start + 1]):
            yield start, end, cells(lines[start]), [cells(line) for line in lines[start + 2:end]]
        start = max(end, start + 1)


def is_figure(cell: str) -> bool:
    """Returns whether a cell has nothing but numbers, units, and words and signs between them."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("*", "")
    if not re.search(r"\d", re.sub(r"`[^`]*`", "", text)):
        return False
    rest = re.sub(rf"\b(?:{WORDS}|{UNIT})\b|[-–—−→%×/().,;:±†·…]", " ", re.sub(NUMBER, " ", text))
    return not rest.strip()


def measured(header: list[str], rows: list[list[str]]) -> str | None:
    """Returns the name of a column of which at least half of the cells are figures; None if there is none."""
    for column, name in enumerate(header):
        kind = re.split(r"[,(]", re.sub(r"\[†\]\([^)]*\)", "", name).strip("`* "))[0].strip().lower()
        filled = [row[column] for row in rows if column < len(row) and row[column]]
        figures = [cell for cell in filled if is_figure(cell) or kind in MEASURED and re.search(r"\d", cell)]
        if kind not in FACTS and filled and 2 * len(figures) >= len(filled):
            return name or f"column {column + 1}"
    return None
