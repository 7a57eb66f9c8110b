"""What a run saves and restores: between the trainer and the checkpoint files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.training.checkpoints import (
    Checkpoint,
    Checkpointer,
    Snapshot,
    assign_matching,
    assign_strictly,
    average_checkpoints,
    check_resumable,
    files_of,
    load_checkpoint,
    load_first_whole,
    match,
    read_state,
    write_snapshot,
)
from open_seq2seq.training.checkpoints.files import AVERAGE, CARRIED, RUN
from open_seq2seq.training.checkpoints.kept_files import check_assets
from open_seq2seq.training.precision.choice import choice_of
from open_seq2seq.training.run.inputs import RunInputs
from open_seq2seq.training.run.logdir import (
    AVERAGED,
    BEST_MODELS,
    LogDir,
    find_checkpoints,
    list_checkpoints,
    refuse_links,
)
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, ConfigError, did_you_mean

if TYPE_CHECKING:
    from open_seq2seq.training.loop.trainer import Trainer

# A run may go on in another precision, so with another loss scaler; averaging may begin or end; older checkpoints
# count no overflows and have no factor of the rate.
_MAY_DIFFER = (" loss_scale/", f" {AVERAGE}", " overflows:", " rate_factor:")
_REGULAR = re.compile(r"model\.ckpt-(\d+)$")
_BEST = re.compile(r"(.+)=([-+\w.]+)-step-(\d+)$")


def _regular_order(name: str) -> float | None:
    match = _REGULAR.match(name)
    return float(match[1]) if match else None


class RunSaver:
    """Saves a run's checkpoints, its best models and the average at its end.

    Checkpoints of other runs in the same folder are neither read nor removed.

    Args:
      logdir: where they go.
      model: the training model: its variables and its parts' files are saved.
      config_yaml: the resolved config.
      inputs: what the run has read.
    """

    def __init__(self, logdir: LogDir, model: Model, config_yaml: str, inputs: RunInputs) -> None:
        assert logdir.checkpoint_dir is not None and logdir.best_dir is not None
        self._directory, self._best_dir, self._run = Path(logdir.checkpoint_dir), Path(logdir.best_dir), logdir.run
        self._model = model
        self._config_yaml = config_yaml
        self.inputs = inputs
        self.inputs.state()  # the fingerprints are those of the beginning
        params = model.params
        self._metric = params["best_metric"]
        self._sign = 1.0 if params["best_metric_mode"] == "max" else -1.0
        keep = params["num_checkpoints"]
        self._regular = Checkpointer(self._directory, max(keep, params["average_checkpoints"] or 0), _regular_order,
                                     self._run)
        self._best = Checkpointer(self._best_dir, keep, self._best_order, self._run)
        self._saved_step = -1

    @property
    def directory(self) -> Path:
        """Folder of the regular checkpoints."""
        return self._directory

    @property
    def config_yaml(self) -> str:
        """The resolved config."""
        return self._config_yaml

    @property
    def averaged_dir(self) -> Path:
        """Folder of the averaged checkpoint."""
        return self._directory / AVERAGED

    def save(self, trainer: Trainer, carried: Mapping[str, np.ndarray] = MappingProxyType({})) -> None:
        """Saves the run's state, unless this step's is saved already.

        Args:
          trainer: of the run.
          carried: the states that its model carries from batch to batch, of all replicas.
        """
        if trainer.step != self._saved_step:
            self._regular.save(f"model.ckpt-{trainer.step}", self._snapshot(trainer, {}, carried))
            self._saved_step = trainer.step

    def regular(self) -> list[tuple[int, Path]]:
        """Returns (step, folder) of the run's regular checkpoints, the newest first."""
        return [(int(path.name.rpartition("-")[2]), path) for path in list_checkpoints(self._directory)
                if files_of(path, self._run) is not None]

    def set_aside(self, after: int, before: int) -> None:
        """Takes the regular checkpoints between two steps out of the run: renames the newest, removes the others.

        Raises:
          CheckpointError: one cannot be renamed or removed; a resumed run would take it.
        """
        paths = [path for step, path in self.regular() if after < step < before]
        if not paths:
            return
        try:
            aside = disk.move_aside(paths[0], paths[0].with_name(paths[0].name.replace("model", "diverged")))
            for path in paths[1:]:
                disk.remove_folder(path, files_of(path, self._run) or [])
        except OSError as error:
            raise CheckpointError(f"{error.filename}, on the way to divergence, cannot be set aside: {error.strerror}: "
                                  "mend that, and go on with --continue_learning.") from error
        removed = "".join(f", {path.name} is removed" for path in paths[1:])
        deco_print(f"Checkpoints on the way to divergence: {paths[0].name} is renamed to {aside.name}{removed}.",
                   offset=1)

    def wait(self) -> None:
        """Waits until everything is on disk."""
        self._regular.wait()
        self._best.wait()

    def offer_best(self, trainer: Trainer, metrics: Mapping[str, float]) -> bool:
        """Saves the weights as a best model when the metric is better than all before; returns whether it was.

        Raises:
          ConfigError: evaluation returns no metric of the configured name.
        """
        if self._metric not in metrics:
            raise ConfigError([f"'best_metric' is {self._metric!r}, but evaluation returns {', '.join(metrics)}."
                               + did_you_mean(self._metric, metrics)])
        value = metrics[self._metric]
        self._best.wait()
        if self._best_dir.is_symlink():
            deco_print(f"WARNING: {self._best_dir} has become a link, through which nothing is written: this model "
                       "is not kept there.")
            return False
        if value != value or self._sign * value <= max(self._kept_scores(), default=float("-inf")):
            return False
        self._best.save(f"{self._metric}={value:.4f}-step-{trainer.step}",
                        self._snapshot(trainer, {"metrics": {k: float(v) for k, v in metrics.items()}}))
        return True

    def average(self, trainer: Trainer, count: int) -> int:
        """Writes the mean of the last ``count`` checkpoints, and gives it to the model; returns how many there were."""
        self.wait()
        refuse_links(self._directory)
        paths = [path for step, path in self.regular() if step > 0][:count]
        average = average_checkpoints(paths[::-1])
        write_snapshot(average, self.averaged_dir / f"model.ckpt-{average.state['step']}")
        assign_matching(trainer.variables, average.weights)
        return len(average.state["averaged"])

    def _kept_scores(self) -> list[float]:
        if not self._best_dir.is_dir():
            return []
        scores = []
        for path in self._best_dir.iterdir():
            # A damaged one is no competitor; and the names hold but four decimals.
            with contextlib.suppress(CheckpointError, OSError, KeyError, OverflowError):
                if self._best_order(path.name) is not None:
                    scores.append(self._sign * read_state(path)["metrics"][self._metric])
        return scores

    def _best_order(self, name: str) -> float | None:
        match = _BEST.match(name)
        with contextlib.suppress(ValueError):  # a folder that somebody else has named so
            return self._sign * float(match[2]) if match and match[1] == self._metric else None
        return None

    def _snapshot(self, trainer: Trainer, more: Mapping[str, Any],
                  carried: Mapping[str, np.ndarray] = MappingProxyType({})) -> Snapshot:
        state = {"step": trainer.step, "random_seed": trainer.seed, "epoch": trainer.epoch,
                 "micro_batch": trainer.micro_batch, RUN: self._run,
                 "world_size": trainer.runner.world_size, "divergence": trainer.recovery.state(),
                 "mixed_choice": choice_of(trainer.model.params), "data": self.inputs.state(), **more}
        kept = {**trainer.optimizer.state(), **{CARRIED + name: value for name, value in carried.items()}}
        return Snapshot.take(trainer.variables, kept, state, self._config_yaml, self.inputs.contents())


def newest(logdir: LogDir) -> Checkpoint:
    """Reads the newest whole checkpoint of a log directory, to go on from.

    Raises:
      CheckpointError: none is whole, or it lacks what training goes on with.
    """
    assert logdir.checkpoint_dir is not None
    checkpoint = load_first_whole(list_checkpoints(logdir.checkpoint_dir))
    check_resumable(checkpoint.path, checkpoint.state)
    checkpoint.check_finite(optimizer=True)
    return checkpoint


def offered(folder: Path, params: Mapping[str, Any]) -> tuple[str, list[Path]]:
    """Returns what evaluation and inference choose from: (kind of checkpoint, folders, the preferred one first).

    Args:
      folder: of the checkpoints, or a checkpoint itself.
      params: of the model; defaults may be missing.
    """
    best = list_checkpoints(folder / BEST_MODELS, best=True) if params.get("restore_best_checkpoint") else []
    if best:
        return "best", best
    averaged = list_checkpoints(folder / AVERAGED) if params.get("average_checkpoints") else []
    return ("averaged", averaged) if averaged else ("latest", find_checkpoints(folder))


def written_last(logdir: LogDir) -> Mapping[str, Any] | None:
    """Returns the state of the checkpoint that was written last, by whichever run; None without one."""
    paths = list_checkpoints(logdir.checkpoint_dir) if logdir.checkpoint_dir is not None else []
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        with contextlib.suppress(CheckpointError):
            return read_state(path)
    return None


def finished(logdir: LogDir, params: Mapping[str, Any], of_config: str | None = None) -> Checkpoint:
    """Reads the checkpoint that evaluation and inference use: the best, the average, or the newest.

    Args:
      logdir: where it is.
      params: of the model.
      of_config: the checkpoint whose config is in use, where it was chosen with its config; no other one is read then.

    Raises:
      CheckpointError: there is none, or its weights are not finite.
    """
    if logdir.checkpoint_dir is None or logdir.checkpoint is None:
        raise CheckpointError("There is no checkpoint: name the logdir of a trained model by --logdir.")
    kind, paths = offered(logdir.checkpoint_dir, params)
    checkpoint = load_first_whole(paths if of_config is None else [Path(of_config)])
    checkpoint.check_finite()
    deco_print(f"Restoring from the {kind} checkpoint: {checkpoint.path}")
    return checkpoint


def restore_weights(model: Model, checkpoint: Checkpoint) -> None:
    """Gives a model a checkpoint's weights: their moving average where the config has ``ema_decay``.

    Raises:
      CheckpointError: the model's variables or its vocabularies are not the checkpoint's.
    """
    averages = checkpoint.averaged_weights
    used = averages if model.params["ema_decay"] is not None else {}
    if used:
        deco_print("Weights: the moving average (ema_decay)", offset=1)
    elif model.params["ema_decay"] is not None:
        deco_print("WARNING: this checkpoint has no moving average of the weights, because its run had no ema_decay: "
                   "the weights as trained are used.", offset=1)
    else:
        kept = "; the checkpoint has their moving average too, which ema_decay would choose" if averages else ""
        deco_print(f"Weights: as trained{kept}", offset=1)
    # Parts that other modes alone have, such as a loss, may have weights too.
    weights = {name: value for name, value in {**checkpoint.weights, **used}.items()
               if name.partition("/")[0] not in model.parts_of_other_modes}
    assign_strictly(named_variables(model), weights, checkpoint.path)
    check_assets(model, checkpoint)


def restore_run(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Puts a run where its checkpoint was taken.

    Raises:
      CheckpointError: the config does not fit the checkpoint.
    """
    assign_strictly(trainer.variables, checkpoint.weights, checkpoint.path)
    if trainer.saver is not None:
        trainer.saver.inputs.check(checkpoint)
    state = trainer.optimizer.state()
    values = {name: value for name, value in checkpoint.optimizer.items() if not name.startswith(CARRIED)}
    lines = [line for line in match(state, values).lines() if not any(part in line for part in _MAY_DIFFER)]
    if lines:
        raise CheckpointError(f"The checkpoint {checkpoint.path} has another optimizer's state: {lines[0]}. Resume "
                              "with the optimizer of the run, or start a new one by load_model.")
    assign_matching(state, values)
    _restore_average(trainer, checkpoint)
    take_up(trainer, checkpoint.state, checkpoint.carried)


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number} ranks"


def take_up(trainer: Trainer, state: Mapping[str, Any], carried: Mapping[str, np.ndarray] | None = None) -> None:
    """Continues after a checkpoint whose variables have been, or will be, given to the trainer.

    The place in the data is that of the checkpoint, whatever the number of ranks.

    Args:
      state: the checkpoint's ``state.json``.
      carried: its carried states, in the first process.
    """
    on_other = trainer.model.params["carried_state_on_resume"]
    trainer.resume(int(state["step"]), trainer.carried.restore(carried, on_other, int(state["micro_batch"])))
    before, now = state.get("world_size", 1), trainer.runner.world_size
    if before != now:
        deco_print(f"The checkpoint was taken on {_ranks(before)}, and training goes on with {_ranks(now)} from batch "
                   f"{trainer.micro_batch} of the data: an update takes {now / before:g} times as many examples.")
    trainer.recovery.resume(state.get("divergence", {}))


def _restore_average(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Says where a moving average begins or ends; what the checkpoint has of it is assigned already."""
    here, there = set(trainer.optimizer.averaged_weights), set(checkpoint.averaged_weights)
    if here - there:
        trainer.optimizer.restart_average(trainer.trainable, here - there)
        deco_print("The checkpoint has no moving average of the weights: it begins here, with the weights as they are.")
    elif there and not here:
        deco_print("The checkpoint has a moving average of the weights, which ends here: the config has no ema_decay.")


def load_base_model(trainer: Trainer, path: Path) -> None:
    """Starts from another run's weights where name and shape fit; prints what does not.

    Raises:
      CheckpointError: nothing fits.
    """
    deco_print(f"Loading model from {path}")
    checkpoint = load_checkpoint(path)
    checkpoint.check_finite()
    averages = checkpoint.averaged_weights
    if averages:
        deco_print("Its weights are taken from their moving average", offset=1)
    report = assign_matching(trainer.variables, {**checkpoint.weights, **averages})
    trainer.optimizer.restart_average(trainer.trainable)
    for line in report.lines():
        deco_print(line, offset=1)
    if not report.assigned:
        raise CheckpointError(f"No variable of this model has the name and shape of one in {path}: load_model needs "
                              "a checkpoint of a like model.")
    deco_print(f"{len(report.assigned)} of {len(trainer.variables)} variables loaded", offset=1)
