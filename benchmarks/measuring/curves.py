"""Training runs whose losses are compared: one run in a process, and the file that keeps what runs gave."""

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
    """Runs of one setting.

    Attributes:
      name: a ``dtype``, ``dtype/loss_scaling`` or ``mixed/kinds``; see ``dtype_overrides``.
      updates: length of each run.
      seeds: one run each.
    """

    name: str
    updates: int
    seeds: tuple[int, ...]

    @property
    def overrides(self) -> list[str]:
        """What the setting sets in the config."""
        return dtype_overrides(self.name)


def parse_plan(text: str) -> Plan:
    """Reads ``mixed_float16/LogMax:40:1,2``: setting, updates, seeds.

    Raises:
      UserError: it is written in another way.
    """
    name, *rest = text.split(":")
    try:
        updates, seeds = rest
        plan = Plan(name, int(updates), tuple(int(seed) for seed in seeds.split(",")))
    except ValueError:
        raise UserError(f"--settings has {text!r} but is written setting:updates:seed,seed… such as "
                        "mixed_float16/LogMax:40:1,2.") from None
    if plan.updates < 1 or not name:
        raise UserError(f"--settings has {text!r}, which has no setting or no updates.")
    return plan


class Loss(NamedTuple):
    """A row of the file.

    Attributes:
      setting: name of the setting.
      seed: the run's ``random_seed``.
      kind: ``train`` (of one update's batch), ``validation`` (of the whole set), or ``skipped``.
      update: number of updates made, this one included.
      value: the loss; of ``skipped`` the number of updates that loss scaling skipped so far.
    """

    setting: str
    seed: int
    kind: str
    update: int
    value: float


class LossFile:
    """A CSV file of losses; runs are added when they are complete, so that a stopped program can go on.

    Args:
      path: the file; it need not exist.
      origin: config and overrides, its first line.

    Raises:
      UserError: the file has the losses of another config.
    """

    def __init__(self, path: Path, origin: str) -> None:
        self._path, self._origin = path, f"# {origin}"
        self.losses: list[Loss] = []
        if not path.exists():
            return
        with open(path, newline="", encoding="utf-8") as file:
            first = file.readline().rstrip("\n")
            if first != self._origin:
                raise UserError(f"{path} has losses of another config ({first[2:]}): choose another --csv.")
            self.losses = [Loss(row["setting"], int(row["seed"]), row["kind"], int(row["update"]), float(row["value"]))
                           for row in csv.DictReader(file)]

    def has(self, setting: str, seed: int, marks: Iterable[int]) -> bool:
        """Whether a run with validation losses after these updates is there."""
        found = {loss.update for loss in self.losses
                 if (loss.setting, loss.seed, loss.kind) == (setting, seed, VALIDATION)}
        return found >= set(marks)

    def replace(self, setting: str, seed: int, losses: Sequence[Loss]) -> None:
        """Keeps a run's losses instead of what was there of it; the file is written aside and renamed."""
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
    """Notes the loss of each update, and validates after some of them; ends the run after the last.

    Args:
      marks: numbers of updates.

    Attributes:
      evaluation: an ``EvaluationPass``, to be set before training.
      train: loss of each update's batch.
      validation: number of updates → loss of the validation set.
      skipped: how many updates loss scaling skipped.
    """

    evaluation: Any

    def __init__(self, marks: Sequence[int]) -> None:
        self._marks = set(marks)
        self.train: list[float] = []
        self.validation: dict[int, float] = {}
        self.skipped = 0

    def begin(self, trainer: Any) -> None:
        """Nothing to do before the first update."""

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """A skipped step is no update: its batch is gone, and neither weights nor learning rate have moved."""
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
        """The run ends by ``RunComplete``."""


class RunComplete(Exception):
    """The last update that was asked for has been made."""


def train_curve(config_file: str, overrides: Sequence[str], plan: Plan, seed: int, marks: Sequence[int]) -> list[Loss]:
    """Trains the first updates of a config's run, and returns the losses.

    The learning rate is that of the whole run, so runs of different length are equal where both are.

    Args:
      config_file: a config with training and evaluation.
      overrides: of the config.
      plan: the setting.
      seed: of the run.
      marks: numbers of updates after which the validation loss is computed; the last ends the run.

    Raises:
      UserError: a mistake in the config.
    """
    from open_seq2seq.config.loader import load_config
    from open_seq2seq.config.options import RunOptions
    from open_seq2seq.config.overrides import parse_overrides
    from open_seq2seq.config.resolve import resolve
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.runners.runner import Runner
    from open_seq2seq.training.loop.passes import EvaluationPass
    from open_seq2seq.training.loop.train import train
    from open_seq2seq.training.loop.trainer import Trainer
    from open_seq2seq.training.precision.choice import settle_precision
    from open_seq2seq.training.run.process_settings import set_up_process
    from open_seq2seq.training.run.training_setup import describe_sections

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
    raise UserError(f"The config's training ends after {len(hook.train)} updates: ask for fewer, or give --max_steps.")


def _losses(setting: str, seed: int, hook: CurveHook) -> list[Loss]:
    train = [Loss(setting, seed, TRAIN, number, value) for number, value in enumerate(hook.train, start=1)]
    validation = [Loss(setting, seed, VALIDATION, mark, value) for mark, value in sorted(hook.validation.items())]
    return [*train, *validation, Loss(setting, seed, SKIPPED, len(train), float(hook.skipped))]
