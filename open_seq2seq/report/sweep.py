"""The table of a sweep: the mean and the deviation of each metric over runs that differ in their seed only."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import BinaryIO

from open_seq2seq.metrics.names import LOSSES, is_score, metric_name, shown_value
from open_seq2seq.report.content import read_content
from open_seq2seq.report.page import explaining, page, table, write_page
from open_seq2seq.training.loop.metrics_file import Metrics
from open_seq2seq.utils import disk

SEED = "random_seed"
"""The parameter whose values are repetitions, not settings that are compared."""
TABLE, PAGE = "sweep.csv", "sweep.html"
_RUNS = "runs"
_MOST_HEADER = 1 << 16  # bytes
_MOST_SHOWN = 12  # runs whose curves are in the page


@dataclass
class Row:
    """The runs of a sweep that differ in their seed only.

    Attributes:
      values: the values of the swept parameters other than the seed, in the order of the columns, as text.
      planned: number of runs that the sweep has.
      figures: one dict for each complete run: name of a metric → value.
    """

    values: tuple[str, ...]
    planned: int = 0
    figures: list[dict[str, float]] = field(default_factory=list)

    def of(self, metric: str) -> list[float]:
        """Returns the values of a metric in the complete runs, without those that are not finite."""
        return [value for one in self.figures if math.isfinite(value := one.get(metric, math.nan))]

    def mean(self, metric: str) -> float | None:
        """Returns the mean of a metric; None without a value."""
        return statistics.mean(values) if (values := self.of(metric)) else None

    def deviation(self, metric: str) -> float | None:
        """Returns the standard deviation of a metric, by n - 1; None with fewer than two values."""
        return statistics.stdev(values) if len(values := self.of(metric)) > 1 else None


@dataclass
class SweepTable:
    """The results of a sweep.

    Attributes:
      keys: paths of the swept parameters other than the seed.
      rows: the combinations of their values, in the order of the sweep.
      best_metric: the metric by which the evaluation of each run is chosen.
      rises: whether higher values of ``best_metric`` are better.
    """

    keys: tuple[str, ...]
    rows: list[Row]
    best_metric: str
    rises: bool

    @property
    def metrics(self) -> list[str]:
        """The metrics that any run has: ``best_metric`` first, then scores, then losses."""
        names = dict.fromkeys(name for row in self.rows for one in row.figures for name in one)
        return sorted(names, key=lambda name: (name != self.best_metric, name in LOSSES))

    def best(self) -> Row | None:
        """Returns the row with the best mean of ``best_metric``: one without diverged runs, if there is any."""
        means = [(mean, row) for row in self.rows if (mean := row.mean(self.best_metric)) is not None]
        means = [one for one in means if len(one[1].of(self.best_metric)) == len(one[1].figures)] or means
        return (max if self.rises else min)(means, key=lambda pair: pair[0])[1] if means else None

    def as_csv(self) -> str:
        """Returns the table as CSV: the values, the number of complete runs, and mean and deviation of each metric."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        names = [name for metric in self.metrics for name in (metric, f"{metric} deviation")]
        rows.writerow([*self.keys, _RUNS, *names])
        for row in self.rows:
            numbers = [number for metric in self.metrics for number in (row.mean(metric), row.deviation(metric))]
            rows.writerow([*row.values, len(row.figures), *("" if one is None else repr(one) for one in numbers)])
        return text.getvalue()

    def as_cells(self) -> tuple[list[str], list[list[str]]]:
        """Returns the names of the columns, and the rows, as people read them: mean ± deviation."""
        columns = [*self.keys, _RUNS, *(metric_name(metric).title for metric in self.metrics)]
        counts = [f"{len(row.figures)}" + (f" of {row.planned}" if len(row.figures) < row.planned else "")
                  for row in self.rows]
        return columns, [[*row.values, count, *(_shown(row, metric) for metric in self.metrics)]
                         for row, count in zip(self.rows, counts, strict=True)]

    def as_text(self) -> str:
        """Returns the table in columns of a fixed width."""
        columns, rows = self.as_cells()
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
                         for row in (columns, *rows))

    def write(self, folder: Path, logdirs: Sequence[Path]) -> None:
        """Writes the table as CSV, and the page with the table and the curves of the runs.

        Args:
          folder: the folder to write to.
          logdirs: log directories of the complete runs.

        Raises:
          UserError: a file cannot be written.
        """
        path = folder / TABLE
        with explaining(path, "the table of a sweep"), disk.writing(path, _is_table) as file:
            file.write(self.as_csv().encode())
        contents = [read_content(one) for one in logdirs[:_MOST_SHOWN]]
        note = (f"Mean ± standard deviation over {SEED}, at the evaluation of each run that is best by "
                f"{self.best_metric}.")
        if len(contents) < len(logdirs):
            note += f" Below are the first {len(contents)} of {len(logdirs)} runs."
        sections = {"Sweep": table(*self.as_cells()) + f'<p class="dim">{escape(note)}</p>'}
        write_page(folder / PAGE, page(contents, folder.resolve().name, sections))


def _shown(row: Row, metric: str) -> str:
    mean, deviation = row.mean(metric), row.deviation(metric)
    if mean is None:
        return "–"
    count = len(row.of(metric))
    return (shown_value(metric, mean)
            + ("" if deviation is None else f" ± {deviation * metric_name(metric).factor:.2g}")
            + ("" if count == len(row.figures) else f" ({count} of {len(row.figures)})"))


def _is_table(file: BinaryIO) -> bool:
    header = file.readline(_MOST_HEADER).decode(errors="replace")
    return _RUNS in next(csv.reader([header]), [])


def figures_of(metrics: Metrics, best_metric: str, rises: bool) -> dict[str, float]:
    """Returns the metrics of the evaluation of a run that is best by ``best_metric``, the first of equal ones.

    Without evaluations, the result is the last ``train_loss``; without metrics, it is {}. If no value of
    ``best_metric`` is finite, it is NaN.

    Args:
      metrics: the metrics of the run: name → step → value.
      best_metric: the metric that decides.
      rises: whether higher values are better.
    """
    values = {step: value for step, value in metrics.get(best_metric, {}).items() if math.isfinite(value)}
    if best_metric in metrics and not values:
        return {best_metric: math.nan}
    if not values:
        losses = metrics.get(LOSSES[0], {})
        return {LOSSES[0]: losses[max(losses)]} if losses else {}
    step = (max if rises else min)(values, key=values.__getitem__)
    of_evaluations = [name for name in metrics if name == best_metric or "/" not in name and (
        name.lower().startswith("eval") or is_score(name) and name != LOSSES[0])]
    return {name: metrics[name][step] for name in of_evaluations if step in metrics[name]}


def sweep_table(grid: Mapping[str, Sequence[str]], values: Sequence[Mapping[str, str]],
                figures: Sequence[Mapping[str, float] | None], best_metric: str, rises: bool) -> SweepTable:
    """Returns the table of a sweep.

    Args:
      grid: path of a parameter → its values.
      values: for each run, the value of each parameter.
      figures: for each run, its metrics by name; None if it is not complete.
      best_metric, rises: see ``SweepTable``.
    """
    keys = tuple(key for key in grid if key != SEED)
    rows: dict[tuple[str, ...], Row] = {}
    for of_run, metrics in zip(values, figures, strict=True):
        settings = tuple(of_run[key] for key in keys)
        row = rows.setdefault(settings, Row(settings))
        row.planned += 1
        row.figures += [] if metrics is None else [dict(metrics)]
    return SweepTable(keys, list(rows.values()), best_metric, rises)
