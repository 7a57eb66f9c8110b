"""Formats the table that compares a config in several dtypes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.measuring.programs import markdown_table
from benchmarks.measuring.turns import Measurement
from benchmarks.measuring.utilization import peak_teraflops


@dataclass
class Results:
    """All results that the table shows.

    Attributes:
      rows: measurements of the settings; the first is the baseline.
      largest: setting → largest batch that fits, as text; empty if not requested.
      loss_steps: number of steps after which losses were measured, or None.
      flops: training FLOPs per object; None if not counted.
      device: name of the GPU, or None.
      peak: the device's peak in TFLOP/s if the user gave it, else None.
      raw: GFLOP/s of the device's raw operations: kind → dtype → speed; ``product`` is one of the kinds.
    """

    rows: Sequence[Measurement]
    largest: dict[str, str] = field(default_factory=dict)
    loss_steps: int | None = None
    flops: float | None = None
    device: str | None = None
    peak: float | None = None
    raw: Mapping[str, Mapping[str, float]] | None = None

    def ratio(self, row: Measurement) -> float:
        """Returns the row's speed relative to the first row's."""
        return row.speed / self.rows[0].speed

    def teraflops(self, row: Measurement) -> float | None:
        """Returns the model's TFLOP/s."""
        return None if self.flops is None else self.flops * row.speed / 1e12

    def peak_of(self, row: Measurement) -> float | None:
        """Returns the device's peak in TFLOP/s in the row's dtype, or None if it is not known."""
        if self.peak is not None or self.device is None:
            return self.peak
        return peak_teraflops(self.device, _arithmetic(row))

    def utilization(self, row: Measurement) -> float | None:
        """Returns the model's TFLOP/s as a fraction of the peak, or None if one of them is not known."""
        done, peak = self.teraflops(row), self.peak_of(row)
        return None if done is None or peak is None else done / peak

    def share_of_raw(self, row: Measurement) -> float | None:
        """Returns the model's speed as a fraction of that of raw products in the row's dtype, or None if not known."""
        done = self.teraflops(row)
        by_type = {} if self.raw is None else self.raw["product"]
        name = _arithmetic(row)
        return None if done is None or name not in by_type else 1e3 * done / by_type[name]


def _arithmetic(row: Measurement) -> str:
    """Returns the dtype in which a row's products are computed; TensorFloat-32 counts as a dtype."""
    return "tf32" if row.name == "tf32" else row.compute


def format_raw(raw: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the table of raw operations as Markdown; the first dtype is the baseline."""
    first, *others = next(iter(raw.values()))
    head = ["raw operation", *(f"{name} GFLOP/s" for name in (first, *others)),
            *(f"{name} by {first}" for name in others)]
    return markdown_table(head, [
        [kind, *(f"{speed:,.0f}" for speed in speeds.values()),
         *(f"{speeds[name] / speeds[first]:.2f}×" for name in others)] for kind, speeds in raw.items()])


def format_table(results: Results) -> str:
    """Returns the table as Markdown, without empty columns."""
    first = results.rows[0]
    columns: list[tuple[str, Callable[[Measurement], str | None]]] = [
        ("dtype", lambda row: row.label),
        ("first step s", lambda row: f"{row.first_step:.1f}"),
        ("step ms (median of rounds)", lambda row: f"{statistics.median(row.step_milliseconds):,.1f}"),
        ("fastest–slowest round ms",
         lambda row: "–".join(f"{extreme(row.step_milliseconds):,.1f}" for extreme in (min, max))),
        (f"{first.object_name}/s", lambda row: f"{row.speed:,.0f}"),
        (f"against {first.name}", lambda row: f"{results.ratio(row):.2f}×"),
        ("peak MB", lambda row: f"{row.peak_megabytes:,.0f}"),
        ("largest batch", lambda row: results.largest.get(row.name)),
        (f"loss after {results.loss_steps} steps", lambda row: _number(row.loss, ".4f")),
        ("model TFLOP/s", lambda row: _number(results.teraflops(row), ".3g")),
        ("of peak", lambda row: _number(results.utilization(row), ".1%")),
        ("of raw products", lambda row: _number(results.share_of_raw(row), ".0%")),
    ]
    cells = {name: [value(row) for row in results.rows] for name, value in columns}
    shown = {name: values for name, values in cells.items() if any(value is not None for value in values)}
    return markdown_table(shown, [["–" if value is None else value for value in line]
                                  for line in zip(*shown.values(), strict=True)])


def notes(results: Results) -> list[str]:
    """Returns explanatory sentences for the table."""
    found = []
    for row in results.rows:
        if row.flops is not None and row.flops.uncounted:
            found.append(f"Products inside {', '.join(row.flops.uncounted)} are not counted, so TFLOP/s are too low.")
    if results.device is not None and results.flops is not None:
        if all(results.peak_of(row) is None for row in results.rows):
            found.append(f"The peak of {results.device} is not known: give --peak_tflops to show its utilisation.")
    if results.loss_steps:
        found.append(f"Loss: mean of the last {max(results.loss_steps // 10, 1)} training batches, with equal seeds.")
    return found


def _number(value: float | None, spec: str) -> str | None:
    return None if value is None else format(value, spec)
