"""Built-in hooks, which print progress and samples, write summaries, save checkpoints, and evaluate."""

from __future__ import annotations

from typing import Any

from open_seq2seq.training.loop.hooks import Hook
from open_seq2seq.training.loop.progress import MeanLoss, Meter, ProgressHook
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import deco_print


def hooks_of(trainer: Trainer) -> list[Hook]:
    """Returns the hooks that a config enables, in the order in which they are called; user-defined hooks come last."""
    params, is_chief = trainer.model.params, trainer.runner.is_chief
    hooks: list[Hook] = []
    if params["print_loss_steps"] and is_chief:
        hooks.append(ProgressHook(params["print_loss_steps"]))
    # What belongs to a step is written before its checkpoint, so that a run resumed from the checkpoint lacks nothing
    # of it, except the evaluation, which takes long and is made up (``awaits_evaluation``).
    saves = params["save_checkpoint_steps"] if trainer.saves else None
    if saves and trainer.runner.num_processes > 1:  # one process can also settle its state after an error
        hooks.append(SettleHook(saves))
    if every := params["save_summaries_steps"] or params["print_loss_steps"]:
        hooks.append(SummaryHook(every, params["summaries"]))
    if params["print_samples_steps"] and is_chief:
        hooks.append(SamplesHook(params["print_samples_steps"]))
    if saves:
        hooks.append(CheckpointHook(saves))
    # --benchmark sets logdir to an empty string.
    hooks.append(BenchmarkHook(params["bench_start"], params["print_bench_info_steps"], params["logdir"] == ""))
    if trainer.eval_model is not None:
        hooks.append(EvaluationHook(trainer.eval_model.params["eval_steps"]))
    return hooks + [hook(train_model=trainer.model, eval_model=trainer.eval_model) for hook in params["hooks"]]


class BenchmarkHook(Hook):
    """Measures the average speed, without the first ``bench_start`` updates of the process.

    The speed is printed every ``print_bench_info_steps`` updates and, if this parameter is set or the run is a
    benchmark, at the end.

    Args:
      start: ``bench_start``, the number of updates that are not measured.
      every: ``print_bench_info_steps``.
      is_purpose: whether the run is a benchmark.
    """

    def __init__(self, start: int, every: int | None, is_purpose: bool = False) -> None:
        super().__init__()
        self._first, self._every, self._is_purpose = start, every, is_purpose
        self._meter: Meter | None = None

    def begin(self, trainer: Trainer) -> None:
        self._first += trainer.step
        if self._first == trainer.step:
            self._meter = Meter(trainer)
        self._started_at = trainer.step

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step == self._first:
            self._meter = Meter(trainer)
        elif self._meter and self._every and trainer.step % self._every == 0:
            deco_print(f"Avg {trainer.model.object_name} per second: {self._meter.read()[1]:,.3f}")

    def end(self, trainer: Trainer) -> None:
        if self._meter is None or trainer.step <= self._first:
            if self._is_purpose:
                deco_print("Not enough steps for benchmarking: make --bench_steps greater than --bench_start")
            return
        if not self._is_purpose and not self._every:
            return
        per_step, speed, wait = self._meter.read()
        deco_print(f"Avg time per step: {per_step:.3f}s")
        deco_print(f"Avg {trainer.model.object_name} per second: {speed:,.3f}")
        deco_print(f"Input wait: {100 * wait:.1f}% of step time")


class SamplesHook(Hook):
    """Reports a sample of the last batch every ``print_samples_steps`` updates; see ``samples.RunReporter``."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            trainer.print_samples()


class SummaryHook(Hook):
    """Writes TensorBoard summaries and the table of metrics every ``save_summaries_steps`` updates.

    ``train_loss`` is the mean loss of the updates since the last summary. Without ``save_summaries_steps``, the table
    is written every ``print_loss_steps`` updates, and has only the loss and the learning rate.
    """

    def __init__(self, every: int, names: list[str]) -> None:
        super().__init__()
        self._every, self._names = every, names
        self._loss = MeanLoss()

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.summaries is None and trainer.metrics is None:
            return
        self._loss.add(results["loss"])
        if trainer.step % self._every == 0:
            scalars = {"train_loss": self._loss.value(), "learning_rate": float(results["learning_rate"])}
            if trainer.summaries is not None:
                epoch = trainer.epoch if trainer.steps_per_epoch else None
                results = {**results, "loss": scalars["train_loss"]}
                scalars |= trainer.summaries.write_training(trainer.step, results, self._names, epoch)
            if trainer.metrics is not None:
                trainer.metrics.write(trainer.step, trainer.epochs, scalars)
            self._loss.restart()


class SettleHook(Hook):
    """Settles the state of a step that has a checkpoint, so that it can be saved even if the hooks in between fail."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            trainer.settle()


class CheckpointHook(Hook):
    """Saves a checkpoint every ``save_checkpoint_steps`` updates and at the end."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            trainer.save_checkpoint()

    def end(self, trainer: Trainer) -> None:
        trainer.save_checkpoint()
        trainer.wait_for_checkpoint()


class EvaluationHook(Hook):
    """Evaluates every ``eval_steps`` updates and at the end, and saves the best models; see ``Trainer.evaluate``."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def begin(self, trainer: Trainer) -> None:
        if awaits_evaluation(trainer):
            deco_print("The run was stopped before the evaluation of this checkpoint was complete: it follows now.")
            trainer.evaluate()

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            trainer.evaluate()

    def end(self, trainer: Trainer) -> None:
        if trainer.finished and trainer.evaluated_at != trainer.step:
            trainer.evaluate()


def awaits_evaluation(trainer: Trainer) -> bool:
    """Returns whether the evaluation after the last update is due and incomplete; the same on all ranks.

    A checkpoint is written before the evaluation after its step, so a run that is resumed from it may lack the result,
    on which the best model, averaging of weights and early stopping can depend. A step that a recovery undid is not
    evaluated.
    """
    step = trainer.step
    if trainer.eval_model is None or step == 0 or any(event.get("step") == step for event in trainer.divergence.events):
        return False
    if trainer.finished:
        return trainer.evaluated_at != step
    return step % trainer.eval_model.params["eval_steps"] == 0 and (
        trainer.evaluated_at != step or trainer.optimizer.awaits(step) or trainer.early_stopping.awaits(step))
