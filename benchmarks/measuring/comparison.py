"""Compares the losses of other settings with those of float32 at equal seeds and updates."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.measuring.curves import REFERENCE, SKIPPED, TRAIN, VALIDATION, Loss, Plan

BAND = 2.0  # half-width of the band in standard deviations over the reference's seeds


class Difference(NamedTuple):
    """The difference between a setting's loss and the reference's at the same seed and update.

    Attributes:
      seed: seed of both runs.
      update: number of updates made; for a window of training losses, up to its last update.
      value: the setting's loss minus the reference's.
      band: half-width of the band, two standard deviations over the reference's seeds at this update.
    """

    seed: int
    update: int
    value: float
    band: float

    @property
    def within(self) -> bool:
        """Whether the difference is within the band."""
        return abs(self.value) <= self.band


def windows(losses: Iterable[Loss], setting: str, size: int) -> dict[int, dict[int, float]]:
    """Returns a setting's mean training losses over windows of ``size`` updates.

    Returns:
      Seed → last update of the window → mean loss.
    """
    curves: dict[int, dict[int, float]] = {}
    for loss in losses:
        if (loss.setting, loss.kind) == (setting, TRAIN):
            curves.setdefault(loss.seed, {})[loss.update] = loss.value
    return {seed: {end: statistics.fmean(curve[update] for update in range(end - size + 1, end + 1))
                   for end in range(size, max(curve) + 1, size)} for seed, curve in curves.items()}


def validation(losses: Iterable[Loss], setting: str) -> dict[int, dict[int, float]]:
    """Returns a setting's validation losses: seed → number of updates → loss."""
    found: dict[int, dict[int, float]] = {}
    for loss in losses:
        if (loss.setting, loss.kind) == (setting, VALIDATION):
            found.setdefault(loss.seed, {})[loss.update] = loss.value
    return found


def deviations(curves: dict[int, dict[int, float]]) -> dict[int, float]:
    """Returns update → standard deviation over seeds, for updates at which at least two seeds have a value.

    Args:
      curves: seed → update → loss.
    """
    updates = {update for curve in curves.values() for update in curve}
    values = {update: [curve[update] for curve in curves.values() if update in curve] for update in sorted(updates)}
    return {update: statistics.stdev(found) for update, found in values.items() if len(found) > 1}


def differences(curves: dict[int, dict[int, float]], reference: dict[int, dict[int, float]]) -> list[Difference]:
    """Returns the differences between runs of equal seeds, sorted by seed and update.

    Args:
      curves: losses of a setting: seed → update → loss.
      reference: losses of the reference: seed → update → loss.
    """
    spread = deviations(reference)
    return [Difference(seed, update, value - reference[seed][update], BAND * spread[update])
            for seed, curve in sorted(curves.items()) if seed in reference
            for update, value in sorted(curve.items()) if update in reference[seed] and update in spread]


class Row(NamedTuple):
    """The results of one setting at the end of its runs.

    Attributes:
      plan: the setting, with the seeds that have been run.
      skipped: number of updates that loss scaling skipped, over all runs.
      loss: mean validation loss.
      validation: differences of the validation loss by seed; empty for the reference.
      train: differences of the training loss by seed and window; empty for the reference.
      spread: standard deviation of the reference's validation loss over its seeds.
    """

    plan: Plan
    skipped: int
    loss: float
    validation: list[Difference]
    train: list[Difference]
    spread: float

    @property
    def verdict(self) -> str:
        """A phrase that says whether all differences are within the band."""
        if self.plan.name == REFERENCE:
            return "reference"
        if not self.validation:
            return f"no {REFERENCE} runs to compare with"
        outside = [difference for difference in self.validation if not difference.within]
        windows_outside = [difference for difference in self.train if not difference.within]
        if not outside and not windows_outside:
            return "all within"
        return (f"outside: {len(outside)} of {len(self.validation)} validation losses, "
                f"{len(windows_outside)} of {len(self.train)} windows")


def compare(losses: Sequence[Loss], plans: Sequence[Plan], window: int) -> list[Row]:
    """Returns a row for each setting that has at least one run."""
    rows = []
    for plan in plans:
        at_end = {seed: {plan.updates: curve[plan.updates]} for seed, curve in validation(losses, plan.name).items()
                  if plan.updates in curve and seed in plan.seeds}
        if not at_end:
            continue
        reference = validation(losses, REFERENCE)
        is_reference = plan.name == REFERENCE
        train = {seed: curve for seed, curve in windows(losses, plan.name, window).items() if seed in at_end}
        rows.append(Row(
            plan._replace(seeds=tuple(sorted(at_end))),
            int(sum(loss.value for loss in losses if (loss.setting, loss.kind) == (plan.name, SKIPPED))),
            statistics.fmean(curve[plan.updates] for curve in at_end.values()),
            [] if is_reference else differences(at_end, reference),
            [] if is_reference else differences(train, windows(losses, REFERENCE, window)),
            deviations(reference).get(plan.updates, float("nan"))))
    return rows


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Returns the cells of the table; ``HEAD`` contains the column names."""
    table = []
    for row in rows:
        values = [difference.value for difference in row.validation]
        mean = f"{statistics.fmean(values):+.4f}" if values else "–"
        extremes = f"{min(values):+.4f} … {max(values):+.4f}" if values else "–"
        inside = sum(difference.within for difference in row.train)
        table.append([row.plan.name, ", ".join(map(str, row.plan.seeds)), str(row.plan.updates), str(row.skipped),
                      f"{row.loss:.4f}", mean, extremes, f"±{BAND * row.spread:.4f}",
                      f"{inside} of {len(row.train)}" if row.train else "–", row.verdict])
    return table


HEAD = ["setting", "seeds", "updates", "skipped", "validation loss", "mean difference", "least … largest",
        f"±{BAND:.0f} standard deviations of {REFERENCE}", "training windows within", "verdict"]
