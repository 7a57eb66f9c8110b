"""Makes the training runs whose losses are compared, and stores their losses in a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring.settings import dtype_overrides
from open_seq2seq.utils.errors import UserError

REFERENCE = "float32"
TRAIN, VALIDATION, SKIPPED = "train", "validation", "skipped"


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

    @property
    def overrides(self) -> list[str]:
        """The config overrides of the setting, as on the command line."""
        return dtype_overrides(self.name)


def parse_plan(text: str) -> Plan:
    """Parses a plan such as ``mixed_float16/LogMax:40:1,2``: setting, updates and seeds.

    Raises:
      UserError: the text does not have this form.
    """
    name, *rest = text.split(":")
    try:
        updates, seeds = rest
        plan = Plan(name, int(updates), tuple(int(seed) for seed in seeds.split(",")))
    except ValueError:
        raise UserError(f"--settings contains {text!r}, but each entry must have the form setting:updates:seed,seed…, "
                        "such as mixed_float16/LogMax:40:1,2.") from None
    if plan.updates < 1 or not name:
        raise UserError(f"--settings contains {text!r}, which lacks a setting or a positive number of updates.")
    return plan


class Loss(NamedTuple):
    """A row of the file.

    Attributes:
      setting: name of the setting.
      seed: the run's ``random_seed``.
      kind: ``train`` (loss of an update's batch), ``validation`` (loss of the whole validation set), or ``skipped``.
      update: number of updates made, including this one.
      value: the loss; for ``skipped``, the number of updates that loss scaling has skipped so far.
    """

    setting: str
    seed: int
    kind: str
    update: int
    value: float


class LossFile:
    """A CSV file of losses. Runs are added when they are complete, so that an interrupted program can be continued.

    Args:
      path: the file, which need not exist.
      origin: config and overrides, stored in the file's first line.

    Raises:
      UserError: the file contains losses of another config.
    """

    def __init__(self, path: Path, origin: str) -> None:
        self._path, self._origin = path, f"# {origin}"
        self.losses: list[Loss] = []
        if not path.exists():
            return
        with open(path, newline="", encoding="utf-8") as file:
            first = file.readline().rstrip("\n")
            if first != self._origin:
                raise UserError(f"{path} contains losses of another config ({first[2:]}): choose another --csv.")
            self.losses = [Loss(row["setting"], int(row["seed"]), row["kind"], int(row["update"]), float(row["value"]))
                           for row in csv.DictReader(file)]

    def has(self, setting: str, seed: int, marks: Iterable[int]) -> bool:
        """Returns whether the file contains this run, with a validation loss after each of the updates ``marks``."""
        found = {loss.update for loss in self.losses
                 if (loss.setting, loss.seed, loss.kind) == (setting, seed, VALIDATION)}
        return found >= set(marks)

    def replace(self, setting: str, seed: int, losses: Sequence[Loss]) -> None:
        """Replaces a run's losses; the file is replaced atomically."""
        self.losses = [loss for loss in self.losses if (loss.setting, loss.seed) != (setting, seed)] + list(losses)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._path.with_suffix(".part")
        with open(aside, "w", newline="", encoding="utf-8") as file:
            file.write(self._origin + "\n")
            writer = csv.writer(file)
            writer.writerow(Loss._fields)
            writer.writerows(self.losses)
        aside.replace(self._path)


class CurveHook:
    """Hook that records the loss of each update and validates after some updates; ends the run after the last one.

    Args:
      marks: numbers of updates after which to validate; the largest ends the run.

    Attributes:
      evaluation: an ``EvaluationPass``, which must be set before training.
      train: loss of each update's batch.
      validation: number of updates → loss of the validation set.
      skipped: number of updates that loss scaling skipped.
    """

    evaluation: Any

    def __init__(self, marks: Sequence[int]) -> None:
        self._marks = set(marks)
        self.train: list[float] = []
        self.validation: dict[int, float] = {}
        self.skipped = 0

    def begin(self, trainer: Any) -> None:
        """Does nothing before the first update."""

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """Records the loss of an update, validates after the requested updates, and ends the run after the last one.

        Steps that loss scaling skipped are only counted, because they change neither weights nor learning rate.

        Raises:
          RunComplete: this was the last requested update.
        """
        if not bool(results["applied"]):
            self.skipped += 1
            return
        self.train.append(float(results["loss"]))
        update = len(self.train)
        if update in self._marks:
            self.validation[update] = self.evaluation.run()["val_loss"]
        if update == max(self._marks):
            raise RunComplete

    def end(self, trainer: Any) -> None:
        """Does nothing, because the run ends with ``RunComplete``."""


class RunComplete(Exception):
    """Raised after the last requested update, to end the run."""


def train_curve(config_file: str, overrides: Sequence[str], plan: Plan, seed: int, marks: Sequence[int]) -> list[Loss]:
    """Trains the first updates of a config's run and returns the losses.

    The learning-rate schedule is that of the config's complete run, so runs of different lengths agree in the updates
    that both make.

    Args:
      config_file: path of a config with training and evaluation.
      overrides: overrides of the config, as on the command line.
      plan: the setting.
      seed: random seed of the run.
      marks: numbers of updates after which the validation loss is computed; the largest ends the run.

    Raises:
      UserError: the config has a mistake, or its training ends before the last of ``marks``.
    """
    from open_seq2seq.config.loader import load_config
    from open_seq2seq.config.options import RunOptions
    from open_seq2seq.config.overrides import parse_overrides
    from open_seq2seq.config.resolve import resolve
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.run.process_settings import set_up_process
    from open_seq2seq.run.training_setup import describe_sections
    from open_seq2seq.runners.processor_speed.choice import settle_precision
    from open_seq2seq.runners.runner import Runner
    from open_seq2seq.training.loop.passes import EvaluationPass
    from open_seq2seq.training.loop.trainer import Trainer
    from open_seq2seq.training.train import train

    values = parse_overrides([*overrides, *plan.overrides, f"--random_seed={seed}"], ["--config_file"])
    config = resolve(load_config(config_file), "train_eval", values)
    specs = describe_sections(RunOptions(mode="train_eval", config=config))
    hook = CurveHook(marks)
    specs["train"].params.update(print_loss_steps=None, print_samples_steps=None, print_bench_info_steps=None,
                                 save_summaries_steps=None, save_checkpoint_steps=None, hooks=[lambda **_: hook])
    set_up_process([spec.params for spec in specs.values()])
    specs = settle_precision(specs, Runner())
    model = build_model(specs["train"], seed)
    hook.evaluation = EvaluationPass(build_model(specs["eval"], variables_of=model), Runner(), predict=False)
    trainer = Trainer(model, None, Runner(), seed)
    try:
        train(trainer)
    except RunComplete:
        return _losses(plan.name, seed, hook)
    raise UserError(f"The config's training ends after {len(hook.train)} updates: request fewer, or set --max_steps.")


def _losses(setting: str, seed: int, hook: CurveHook) -> list[Loss]:
    train = [Loss(setting, seed, TRAIN, number, value) for number, value in enumerate(hook.train, start=1)]
    validation = [Loss(setting, seed, VALIDATION, mark, value) for mark, value in sorted(hook.validation.items())]
    return [*train, *validation, Loss(setting, seed, SKIPPED, len(train), float(hook.skipped))]
