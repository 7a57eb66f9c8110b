"""Saves what a run keeps: regular checkpoints, best models, and the averaged checkpoint at its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from open_seq2seq.checkpoints import (
    Checkpointer,
    Snapshot,
    average_checkpoints,
    files_of,
    note_metrics,
    of_one_stretch,
    read_state,
    write_snapshot,
)
from open_seq2seq.checkpoints.folders import (
    AVERAGED,
    BEST_MODELS,
    best_name,
    best_parts,
    list_checkpoints,
    refuse_links,
    regular_name,
    regular_step,
)
from open_seq2seq.checkpoints.inputs import RunInputs
from open_seq2seq.checkpoints.run_variables import RunPosition, RunVariables
from open_seq2seq.checkpoints.state import CARRIED, METRICS, PROCESSOR, RUN, state_if_intact
from open_seq2seq.checkpoints.writing import RESUME_ADVICE
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, ConfigError, did_you_mean
from open_seq2seq.utils.machine import device_name


def value_of(best_metric: str, metrics: Mapping[str, float]) -> float:
    """Returns the metric named ``best_metric``, which determines the best models.

    Raises:
      ConfigError: ``best_metric`` is not among the metrics.
    """
    if best_metric not in metrics:
        raise ConfigError([f"'best_metric' is {best_metric!r}, but evaluation returns {', '.join(metrics)}."
                           + did_you_mean(best_metric, metrics)])
    return metrics[best_metric]


class RunSaver:
    """Saves a run's regular checkpoints, its best models, and the averaged checkpoint at its end.

    Checkpoints of other runs in the same folders are neither averaged nor removed. However, a best model is saved only
    if it is better than the best models of the other runs, too.

    Args:
      directory: folder of the regular checkpoints, and of the folder of the best models.
      run: name of the run, stored in the state of each checkpoint.
      params: parameters of the training model, of which ``num_checkpoints``, ``average_checkpoints``, ``best_metric``
        and ``best_metric_mode`` are used.
      config_yaml: the resolved config.
      inputs: files and data that the run has read.
      start_mark: file that is removed once a regular checkpoint is complete; None if there is none.

    Attributes:
      directory: folder of the regular checkpoints.
      config_yaml: the resolved config.
      inputs: files and data that the run has read.
      saved_step: step of the run's last regular checkpoint; -1 if there is none.
    """

    def __init__(self, directory: Path, run: str, params: Mapping[str, Any], config_yaml: str, inputs: RunInputs,
                 start_mark: Path | None = None) -> None:
        self.directory, self.config_yaml, self.inputs = directory, config_yaml, inputs
        _ = self.inputs.data  # computed now, before the files can change
        self._best_dir, self._run, self._start_mark = directory / BEST_MODELS, run, start_mark
        self._metric = params["best_metric"]
        self._sign = 1.0 if params["best_metric_mode"] == "max" else -1.0
        keep = params["num_checkpoints"]
        self._regular = Checkpointer(directory, max(keep, params["average_checkpoints"] or 0), regular_step, run)
        self._best = Checkpointer(self._best_dir, keep, self._best_order, run)
        self.saved_step = -1
        self._evaluated: tuple[int, dict[str, float]] = (-1, {})  # step and metrics of the last evaluation

    @property
    def averaged_dir(self) -> Path:
        """Folder of the averaged checkpoint."""
        return self.directory / AVERAGED

    def save(self, position: RunPosition, variables: RunVariables, carried: Mapping[str, np.ndarray]) -> None:
        """Starts saving a regular checkpoint in the background, unless one has been saved at this step.

        Args:
          position: the run's position.
          variables: the weights and the optimizer's variables.
          carried: the states that the model carries from batch to batch, from ``RunStates.gather``.

        Raises:
          CheckpointError: the previous regular checkpoint could not be written.
        """
        if position.step != self.saved_step:
            step, metrics = self._evaluated  # after the last update, evaluation can precede saving
            more = {METRICS: metrics} if step == position.step else {}
            self._regular.save(regular_name(position.step), self._snapshot(position, variables, more, carried),
                               self.remove_start_mark)
            self.saved_step = position.step

    def resume(self, step: int) -> None:
        """Continues from the regular checkpoint of a step, and removes what a killed run has kept too long."""
        self.saved_step = step
        self._regular.remove_old(regular_name(step))
        orders = {path.name: order for path in list_checkpoints(self._best_dir, best=True)
                  if (order := self._best_order(path.name)) is not None and files_of(path, self._run) is not None}
        if orders:
            self._best.remove_old(max(orders, key=orders.__getitem__))

    def remove_start_mark(self) -> None:
        """Removes the mark by which a run is begun anew: it has a checkpoint, or has ended without any."""
        if self._start_mark is not None:
            with contextlib.suppress(OSError):
                disk.remove_file(self._start_mark)

    def regular(self) -> list[tuple[int, Path]]:
        """Returns (step, folder) of the run's regular checkpoints, the newest first."""
        return [(int(path.name.rpartition("-")[2]), path) for path in list_checkpoints(self.directory)
                if files_of(path, self._run) is not None]

    def set_aside(self, after: int, before: int) -> None:
        """Excludes the regular checkpoints between two steps from the run: renames the newest and removes the others.

        Args:
          after, before: the two steps; checkpoints of these steps themselves are kept.

        Raises:
          CheckpointError: a checkpoint cannot be renamed or removed, so that a resumed run would use it.
        """
        paths = [path for step, path in self.regular() if after < step < before]
        if not paths:
            return
        try:
            aside = disk.move_aside(paths[0], paths[0].with_name(paths[0].name.replace("model", "diverged")))
            for path in paths[1:]:
                disk.remove_folder(path, files_of(path, self._run) or [])
        except OSError as error:
            raise CheckpointError(f"The diverging checkpoint {error.filename} cannot be set aside: {error.strerror}. "
                                  "Fix this problem and resume with --continue_learning.") from error
        removed = "".join(f", {path.name} is removed" for path in paths[1:])
        deco_print(f"Checkpoints from just before the divergence: {paths[0].name} is renamed to {aside.name}{removed}.",
                   offset=1)

    def wait(self) -> None:
        """Waits until all checkpoints and best models are on disk.

        Raises:
          CheckpointError: one of them could not be written.
        """
        self._regular.wait()
        self._best.wait()

    def offer_best(self, position: RunPosition, variables: RunVariables, metrics: Mapping[str, float],
                   keeps: bool = True) -> bool:
        """Saves a best model if its metric is better than that of every kept one; returns whether it is saved.

        The metrics are then added to the regular checkpoint of this step, even if it is saved later. A checkpoint with
        metrics therefore says that nothing of its evaluation is missing.

        Args:
          position: the run's position.
          variables: the weights and the optimizer's variables.
          metrics: result of the evaluation at this step.
          keeps: whether best models are saved.

        Raises:
          ConfigError: ``best_metric`` is not among the metrics.
          CheckpointError: the previous checkpoint could not be written.
        """
        value = value_of(self._metric, metrics) if keeps else float("nan")
        self._evaluated = position.step, {name: float(number) for name, number in metrics.items()}
        is_saved = position.step == self.saved_step
        self.wait()

        def note() -> None:
            if is_saved:
                self._note(self.directory / regular_name(position.step), metrics)

        if not self._is_best(value):
            note()
            return False
        self._best.save(best_name(self._metric, value, position.step),
                        self._snapshot(position, variables, {METRICS: self._evaluated[1]}), note)
        return True

    def _is_best(self, value: float) -> bool:
        if value != value:
            return False
        scores = [float("-inf")]
        for path in self._best_dir.iterdir() if self._best_dir.is_dir() else ():
            # Damaged models are ignored. The metric is read from the state, because names have only four decimals.
            with contextlib.suppress(CheckpointError, OSError, KeyError, OverflowError):
                if self._best_order(path.name) is not None:
                    scores.append(self._sign * read_state(path)["metrics"][self._metric])
        if self._sign * value <= max(scores):
            return False
        if self._best_dir.is_symlink():
            deco_print(f"WARNING: {self._best_dir} has become a link, which is not followed: this best model is not "
                       "saved.")
            return False
        return True

    def average(self, count: int, has_jump: Callable[[int, int], bool]) -> Snapshot:
        """Writes and returns the mean of the last ``count`` checkpoints, or of all if there are fewer.

        The checkpoint of the initial weights is left out, and so are those from before a jump of the learning rate or a
        change of its schedule.

        Args:
          count: number of checkpoints.
          has_jump: returns whether the learning-rate schedule has a jump between two numbers of updates.

        Raises:
          CheckpointError: no checkpoint is intact, or the average cannot be written.
        """
        self.wait()
        refuse_links(self.directory)
        after_start = (path for path in list_checkpoints(self.directory) if regular_step(path.name))
        # A checkpoint whose state is damaged may be of this run, too, and is reported later.
        paths = [path for path in after_start if (state_if_intact(path) or {RUN: self._run}).get(RUN, "") == self._run]
        paths = paths[:count]
        used = of_one_stretch(paths, has_jump)
        if used < len(paths):
            deco_print(f"The average leaves out the checkpoints up to {paths[used].name}, because the learning rate "
                       "jumped after it, or its schedule was changed.")
        average = average_checkpoints(paths[:used][::-1])
        write_snapshot(average, self.averaged_dir / regular_name(average.state["step"]), RESUME_ADVICE)
        return average

    def note_average(self, average: Snapshot, metrics: Mapping[str, float]) -> None:
        """Adds the metrics of the averaged weights to their checkpoint.

        Inference uses these metrics to choose a checkpoint.
        """
        self._note(self.averaged_dir / regular_name(average.state["step"]), metrics)

    def has_average(self, step: int, with_metrics: bool) -> bool:
        """Returns whether the average after a step is complete, if requested with the metrics of its evaluation."""
        state = state_if_intact(self.averaged_dir / regular_name(step))
        return state is not None and state.get(RUN, "") == self._run and (METRICS in state or not with_metrics)

    def _note(self, folder: Path, metrics: Mapping[str, float]) -> None:
        try:
            note_metrics(folder, {name: float(value) for name, value in metrics.items()})
        except CheckpointError as error:
            deco_print(f"WARNING: {error} Inference chooses a checkpoint without these metrics.")

    def best_result(self) -> tuple[str, float, int] | None:
        """Returns the metric, value and step of the best kept model, as in its folder's name; None without one."""
        names = [path.name for path in list_checkpoints(self._best_dir, best=True)]
        orders = {name: order for name in names if (order := self._best_order(name)) is not None}
        return best_parts(max(orders, key=orders.__getitem__)) if orders else None

    def _best_order(self, name: str) -> tuple[float, int] | None:
        """Returns a key that is larger for better models, from a folder name; None for other names or metrics."""
        metric, value, step = best_parts(name) or ("", 0.0, 0)
        # Names have only four decimals: of two that are equal, the later model is better.
        return (self._sign * value, step) if metric == self._metric else None

    def _snapshot(self, position: RunPosition, variables: RunVariables, more: Mapping[str, Any],
                  carried: Mapping[str, np.ndarray] = MappingProxyType({})) -> Snapshot:
        state = {**asdict(position), RUN: self._run, "data": self.inputs.data, PROCESSOR: device_name(), **more}
        # A resumed run would not know the steps of earlier evaluations; the metrics of a state mark that of its step.
        del state["evaluated_at"]
        optimizer = {**variables.optimizer.state(), **{CARRIED + name: value for name, value in carried.items()}}
        return Snapshot.take(variables.weights, optimizer, state, self.config_yaml, self.inputs.contents())
