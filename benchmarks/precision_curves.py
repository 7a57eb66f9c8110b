"""Trains the first updates of a config in several settings with equal seeds and compares the losses with float32.

    python benchmarks/precision_curves.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --settings float32:300:1,2,3,4,5 mixed_bfloat16:300:1,2,3,4,5 mixed_float16/Backoff:40:1,2 \
        --folder=curves --png=curves/plot.png --lr_policy_params/warmup_steps=300

A setting is written dtype[/loss_scaling]:updates:seeds, or mixed/product+recurrence:updates:seeds with the kinds of
operations that mixed computes in bfloat16 on a CPU. Each run has its own process, and its losses are written to the
folder when it is complete; running the same command again continues after the last complete run. Settings are compared
after equal numbers of updates; steps that loss scaling skipped do not count. The table and the plot compare each
difference with a band around 0, whose half-width is two standard deviations of the float32 losses over the seeds.
Unknown options override the config.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import describe_machine, make_parser, markdown_table, run_program
from benchmarks.measuring.settings import dtype_overrides, prepare
from open_seq2seq.training.hooks import Hook
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

REFERENCE = "float32"
_BAND = 2.0  # half-width of the band in standard deviations over the reference's seeds


class Plan(NamedTuple):
    """The planned runs of one setting.

    Attributes:
      name: name of the setting: ``dtype``, ``dtype/loss_scaling`` or ``mixed/kinds``; see ``dtype_overrides``.
      updates: number of updates in each run.
      seeds: the seeds, one for each run.
    """

    name: str
    updates: int
    seeds: tuple[int, ...]


def parse_plan(text: str) -> Plan:
    """Parses a plan such as ``mixed_float16/LogMax:40:1,2``: setting, updates and seeds.

    Raises:
      UserError: the text does not have this form.
    """
    name, *rest = text.split(":")
    try:
        updates, seeds = rest
        plan = Plan(name, int(updates), tuple(int(seed) for seed in seeds.split(",")))
        if plan.updates < 1 or not name:
            raise ValueError
    except ValueError:
        raise UserError(f"--settings contains {text!r}, but each entry must have the form setting:updates:seed,seed… "
                        "with at least one update, such as mixed_float16/LogMax:40:1,2.") from None
    return plan


class Curve(NamedTuple):
    """The losses of a run.

    Attributes:
      train: loss of each update's batch.
      validation: number of updates → loss of the validation set.
      skipped: number of updates that loss scaling skipped.
    """

    train: list[float]
    validation: dict[int, float]
    skipped: int


Curves = dict[str, dict[int, Curve]]
"""Curves by setting and seed."""


class CurveHook(Hook):
    """Hook that records the loss of each update and validates after some updates; ends the run after the last one.

    Args:
      marks: numbers of updates after which to validate, in order; the last one ends the run.

    Attributes:
      evaluation: an ``EvaluationPass``, which must be set before training.
    """

    evaluation: Any

    def __init__(self, marks: Sequence[int]) -> None:
        super().__init__()
        self._marks = marks
        self.curve = Curve([], {}, 0)

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """Records the loss of an update, validates after the requested updates, and ends the run after the last one.

        Steps that loss scaling skipped are left out, because they change neither weights nor learning rate.
        """
        if not bool(results["applied"]):
            return
        self.curve.train.append(float(results["loss"]))
        update = len(self.curve.train)
        if update in self._marks:
            self.curve.validation[update] = self.evaluation.run()["val_loss"]
        if update == self._marks[-1]:
            self.curve = self.curve._replace(skipped=int(results["skipped"]))
            trainer.last_step = update


def train_curve(config_file: str, overrides: Sequence[str], seed: int, marks: Sequence[int]) -> Curve:
    """Trains the first updates of a config's run and returns the losses.

    The learning-rate schedule is that of the config's complete run, so runs of different lengths agree in the updates
    that both make.

    Args:
      config_file: path of a config with training and evaluation.
      overrides: overrides of the config, as on the command line.
      seed: random seed of the run.
      marks: numbers of updates after which the validation loss is computed, in order; the last one ends the run.

    Raises:
      UserError: the config has a mistake, or its training ends before the last of ``marks``.
    """
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.training.loop.passes import EvaluationPass
    from open_seq2seq.training.loop.trainer import Trainer
    from open_seq2seq.training.train import train

    hook = CurveHook(marks)
    silent = dict.fromkeys(("print_loss_steps", "print_samples_steps", "print_bench_info_steps",
                            "save_summaries_steps", "save_checkpoint_steps"))
    specs, runner = prepare(config_file, "train_eval", [*overrides, f"--random_seed={seed}"],
                            {**silent, "hooks": [lambda **_: hook]})
    model = build_model(specs["train"], seed)
    hook.evaluation = EvaluationPass(build_model(specs["eval"], variables_of=model), runner, predict=False)
    train(Trainer(model, None, runner, seed))
    if marks[-1] not in hook.curve.validation:
        raise UserError(f"The config's training ends after {len(hook.curve.train)} updates: request fewer, or set "
                        "--max_steps.")
    return hook.curve


def run_missing(folder: Path, plans: Sequence[Plan], config_file: str, overrides: Sequence[str],
                on_gpu: bool = False) -> Curves:
    """Makes the runs that are missing from a folder; returns the curves of all by setting and seed.

    Raises:
      UserError: the folder contains losses of another config.
    """
    origin = f"{config_file} {' '.join(overrides)}".rstrip()
    curves: Curves = {}
    for plan in plans:
        # Each run is also validated after the numbers of updates at which shorter settings end.
        marks = sorted({other.updates for other in plans if other.updates <= plan.updates})
        for seed in plan.seeds:
            path = folder / f"{plan.name.replace('/', '-')}-{seed}.json"
            curve = _read_curve(path, origin)
            if not curve.validation.keys() >= set(marks):
                start = time.perf_counter()
                curve = call(train_curve, config_file, [*overrides, *dtype_overrides(plan.name, on_gpu)], seed,
                             marks)
                folder.mkdir(parents=True, exist_ok=True)
                with disk.writing(path, disk.always) as out:
                    out.write(json.dumps({"origin": origin, **curve._asdict()}).encode())
                print(f"{plan.name}, seed {seed}: {plan.updates} updates in {time.perf_counter() - start:.0f} s",
                      file=sys.stderr, flush=True)
            curves.setdefault(plan.name, {})[seed] = curve
    return curves


def _read_curve(path: Path, origin: str) -> Curve:
    """Returns the curve in a file, which is empty if there is no file."""
    if not path.exists():
        return Curve([], {}, 0)
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["origin"] != origin:
        raise UserError(f"{path} contains losses of another config ({stored['origin']}): choose another --folder.")
    validation = {int(update): loss for update, loss in stored["validation"].items()}
    return Curve(stored["train"], validation, stored["skipped"])


def windows(runs: Sequence[Curve], updates: int, size: int) -> np.ndarray:
    """Returns the mean training losses of windows of ``size`` updates, ``[runs, windows]``."""
    return np.reshape([run.train[:updates // size * size] for run in runs], [len(runs), -1, size]).mean(2)


def compare(values_of: Callable[[Sequence[Curve]], np.ndarray], plan: Plan,
            curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Compares a setting with the reference.

    Args:
      values_of: returns values of runs, ``[runs, …]``.
      plan: the setting.
      curves: curves by setting and seed.

    Returns:
      (differences at equal seeds ``[seeds, …]``, half-width of the band around 0 ``[…]``).
    """
    reference = curves[REFERENCE]
    pairs = values_of([reference[seed] for seed in plan.seeds])
    return (values_of([curves[plan.name][seed] for seed in plan.seeds]) - pairs,
            _BAND * values_of(list(reference.values())).std(axis=0, ddof=1))


def format_table(plans: Sequence[Plan], curves: Curves, window: int) -> str:
    """Returns the table as Markdown; training losses are averaged over ``window`` updates."""
    rows = []
    for plan in plans:
        def final(runs: Sequence[Curve], updates: int = plan.updates) -> np.ndarray:
            return np.array([run.validation[updates] for run in runs])

        runs = [curves[plan.name][seed] for seed in plan.seeds]
        ends, band = compare(final, plan, curves)
        train, train_band = compare(functools.partial(windows, updates=plan.updates, size=window), plan, curves)
        within = np.abs(train) <= train_band
        rows.append([plan.name, ", ".join(map(str, plan.seeds)), plan.updates, sum(run.skipped for run in runs),
                     f"{final(runs).mean():.4f}", f"{ends.mean():+.4f}", f"{ends.min():+.4f} … {ends.max():+.4f}",
                     f"±{band:.4f}", f"{(np.abs(ends) <= band).sum()} of {ends.size}",
                     f"{within.sum()} of {within.size}"])
    return markdown_table(["setting", "seeds", "updates", "skipped", "validation loss", "mean difference",
                           "least … largest", f"±{_BAND:.0f} standard deviations of {REFERENCE}", "seeds within",
                           "training windows within"], rows)


def draw(path: str, plans: Sequence[Plan], curves: Curves, window: int) -> None:
    """Writes the plot, with matplotlib: mean loss curves, and the differences at equal seeds with the band."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.2, 3.4), layout="constrained")
    means, paired = figure.subplots(1, 2)
    for plan in sorted(plans, key=lambda plan: plan.name != REFERENCE):
        values_of = functools.partial(windows, updates=plan.updates, size=window)
        ends = window * np.arange(1, plan.updates // window + 1)
        line = means.plot(ends, values_of(list(curves[plan.name].values())).mean(0), label=plan.name)[0]
        differences, band = compare(values_of, plan, curves)
        if plan.name == REFERENCE:
            paired.fill_between(ends, -band, band, color="0.85",
                                label=f"±{_BAND:.0f} std. deviations of {REFERENCE} seeds")
        paired.plot(ends, differences.T, linewidth=0.9, color=line.get_color())[0].set_label(plan.name)
    means.set(xlabel="updates", ylabel=f"mean training loss of {window} updates")
    paired.set(xlabel="updates", ylabel=f"difference from {REFERENCE}, equal seeds")
    for axes in (means, paired):
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def main(argv: list[str]) -> None:
    """Makes the missing runs, then prints and draws the comparison."""
    parser = make_parser(__doc__)
    parser.add_argument("--config_file", required=True, help="a config with training and evaluation")
    parser.add_argument("--settings", nargs="+", required=True, type=parse_plan, metavar="SETTING:UPDATES:SEEDS",
                        help="settings to run, including float32")
    parser.add_argument("--folder", required=True, type=Path, help="folder of the losses of complete runs")
    parser.add_argument("--png", help="write the plot to this file")
    parser.add_argument("--window", type=int, default=10, help="number of updates to average training losses over")
    options, overrides = parser.parse_known_args(argv)
    reference = next((plan for plan in options.settings if plan.name == REFERENCE), Plan(REFERENCE, 0, ()))
    for plan in options.settings:
        if plan.updates > reference.updates or not set(plan.seeds) <= set(reference.seeds) or len(reference.seeds) < 2:
            raise UserError(f"--settings has to contain {REFERENCE} with at least two seeds, and with the seeds and "
                            f"updates of {plan.name}.")
    curves = run_missing(options.folder, options.settings, options.config_file, overrides,
                         describe_machine()[1] > 0)
    print(format_table(options.settings, curves, options.window))
    if options.png:
        draw(options.png, options.settings, curves, options.window)


if __name__ == "__main__":
    run_program(main)
