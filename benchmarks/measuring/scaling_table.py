"""Formats the tables of a scaling measurement: efficiency, reductions, and predictions for larger clusters."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.measuring.cluster_model import Costs, Link, Timing, efficiency, reduction_seconds, update_seconds
from benchmarks.measuring.programs import markdown_table
from benchmarks.measuring.reduction_time import Reductions


@dataclass
class Scale:
    """The measurements for one number of replicas.

    Attributes:
      count: number of replicas.
      object_name: name of the objects that are counted: tokens, frames or images.
      batch: batch size of each replica.
      alone: objects per second of ``count`` independent runs at the same time, summed, in each round.
      alone_step: seconds per update of an independent run, in each round.
      together: objects per second of one run on ``count`` replicas, in each round; empty for one replica.
      step: seconds per update of the run on ``count`` replicas, in each round.
      input_wait: fraction of the run's time spent waiting for input.
      reductions: measured reductions of the model's gradients; None without Horovod.
      timings: measured reductions of several sizes.
    """

    count: int
    object_name: str
    batch: int
    alone: list[float]
    alone_step: list[float]
    together: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    input_wait: float = 0.0
    reductions: Reductions | None = None
    timings: list[Timing] = field(default_factory=list)

    @property
    def efficiencies(self) -> list[float]:
        """Speed of the run on ``count`` replicas divided by that of the independent runs, in each round."""
        return [together / alone for together, alone in zip(self.together, self.alone, strict=True)]

    @property
    def reduction_share(self) -> float | None:
        """Duration of a separate reduction as a fraction of that of an update; None without Horovod.

        If reductions overlap the backward pass, they cost an update less than this.
        """
        if self.reductions is None:
            return None
        return statistics.median(self.reductions.seconds) / statistics.median(self.step)


def scaling_table(scales: Sequence[Scale], word: str) -> str:
    """Returns the main table as Markdown; ``word`` is the name of the replicas, ``ranks`` or ``towers``."""
    rows = []
    for scale in scales:
        speed = statistics.median(scale.together or scale.alone)
        first = statistics.median(scales[0].together or scales[0].alone)
        spread, share = "–", "–"
        if scale.together:
            found = scale.efficiencies
            spread = f"{statistics.median(found):.1%} ({min(found):.1%}–{max(found):.1%})"
        if scale.reduction_share is not None:
            share = f"{scale.reduction_share:.1%}"
        rows.append([scale.count, f"{scale.batch:,}", f"{speed:,.0f}", f"{speed / first:.2f}×",
                     f"{statistics.median(scale.alone):,.0f}", spread,
                     f"{1e3 * statistics.median(scale.step or scale.alone_step):,.0f}", share,
                     f"{scale.input_wait:.1%}"])
    return markdown_table([word, f"batch of each {word[:-1]}", f"{scales[0].object_name}/s", "speed",
                           f"independent runs, {scales[0].object_name}/s", "efficiency (rounds)", "step ms",
                           "reduction alone / step", "input wait"], rows)


def reduction_table(scales: Sequence[Scale]) -> str:
    """Returns the table of the durations of the model's reduction and of one raw tensor of the same size."""
    rows = []
    for scale in scales:
        if (found := scale.reductions) is not None:
            ours, raw = statistics.median(found.seconds), statistics.median(found.raw)
            ratios = [a / b for a, b in zip(found.seconds, found.raw, strict=True)]
            rows.append([scale.count, f"{sum(found.groups) / 2**20:.3g}", len(found.groups), f"{1e3 * ours:.1f}",
                         f"{1e3 * raw:.1f}", f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})",
                         f"{found.idle:.1%}"])
    return markdown_table(["ranks", "gradients MiB", "groups", "reduction ms", "one raw grouped_allreduce ms",
                           "ratio (pairs)", "core used by an idle rank"], rows)


def fit_table(timings: Sequence[Timing], costs: Costs) -> str:
    """Returns the table of measured reductions and those that the fitted costs predict."""
    rows = [[t.ranks, f"{t.bytes:,}", f"{1e3 * t.seconds:.2f}",
             f"{1e3 * reduction_seconds([t.bytes], t.ranks, costs):.2f}"] for t in timings]
    return markdown_table(["ranks", "bytes", "measured ms", "model ms"], rows)


def check_table(scales: Sequence[Scale], costs: Costs, overlap: float) -> str:
    """Returns the table of measured efficiencies and those that the cost model predicts."""
    rows = []
    for scale in scales:
        if scale.reductions is not None:
            step = statistics.median(scale.alone_step)
            update = update_seconds(scale.reductions.groups, scale.count, costs)
            rows.append([scale.count, f"{1e3 * step:,.0f}", f"{1e3 * update:.1f}",
                         f"{efficiency(step, update, overlap):.1%}", f"{statistics.median(scale.efficiencies):.1%}"])
    return markdown_table(["ranks", "single-rank step ms", "reductions ms (model)", "predicted efficiency", "measured"],
                          rows)


def cluster_table(counts: Sequence[int], links: Sequence[Link], start: float, step_seconds: float,
                  groups: Sequence[int], overlap: float) -> str:
    """Returns the table of predicted efficiencies for numbers of ranks (rows) and links (columns)."""
    rows = [[count, *(f"{efficiency(step_seconds, update_seconds(groups, count, Costs(start, link)), overlap):.1%}"
                      for link in links)] for count in counts]
    return markdown_table(["ranks", *(str(link) for link in links)], rows)
