"""``--elastic``: training that continues when processes are lost or join."""

from __future__ import annotations

import contextlib
import gc
import time
from typing import Any

from open_seq2seq.checkpoints.choosing import written_last
from open_seq2seq.checkpoints.run_variables import RunPosition
from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.parts.component import carried_states
from open_seq2seq.run import training_setup
from open_seq2seq.run.logdir import LogDir, LogDirLock, take_over
from open_seq2seq.run.logs import RunLogs
from open_seq2seq.run.overview import print_task, print_training, write_overview
from open_seq2seq.run.training_setup import set_up_process
from open_seq2seq.runners.horovod.elastic import ElasticRunner, HostsChanged, Membership, RanksLost, Regroup, join
from open_seq2seq.runners.processor_speed import in_choice, settle_precision
from open_seq2seq.runners.watchdog import Watchdog, watched
from open_seq2seq.training.loop.builtin_hooks import awaits_evaluation
from open_seq2seq.training.loop.hooks import Hook
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.training.recovery.good_state import GoodState
from open_seq2seq.training.train import train
from open_seq2seq.utils.console import deco_print, format_count, mute, unmute
from open_seq2seq.utils.errors import ConfigError, UserError

# After this many consecutive losses of processes without an update in between, training ends with an error.
MOST_VAIN_MEETINGS = 3
# Seconds to wait for the log directory's lock, which a lost process may hold until it ends.
_LOCK_SECONDS = 10.0


class Kept:
    """A copy of the run's state in this process's memory, from which training continues after a loss of processes.

    Attributes:
      position: position of the run at the last ``take``; None before the first.
      metrics: metrics of the last evaluation before the last ``take``; {} without one.
      reached: step of the last update, whether or not its state was kept.
    """

    def __init__(self) -> None:
        self.position: RunPosition | None = None
        self.metrics: dict[str, float] = {}
        self.reached = 0
        self._good: GoodState | None = None

    def take(self, trainer: Trainer) -> None:
        """Copies a trainer's state; if interrupted, leaves the previous copy as it was."""
        good = GoodState.take("the state in memory", trainer.step, trainer.state)
        self._good, self.position, self.metrics = good, trainer.position, trainer.last_metrics

    def put_into(self, trainer: Trainer) -> None:
        """Assigns the kept values to a trainer's variables."""
        assert self._good is not None
        self._good.put_into(trainer.state)


class CommitHook(Hook):
    """Keeps a copy of the state every few updates; raises ``HostsChanged`` after a copy if hosts were added or removed.

    Args:
      kept: stores the copy.
      membership: this process's membership, which knows whether hosts were added or removed.
      every: number of updates between two copies.
    """

    def __init__(self, kept: Kept, membership: Membership, every: int) -> None:
        super().__init__()
        self._kept, self._membership, self._every = kept, membership, every

    def begin(self, trainer: Trainer) -> None:
        self._kept.take(trainer)

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        self._kept.reached = trainer.step
        if trainer.step % self._every:
            return
        changed = trainer.runner.share(self._membership.changed)  # only rank 0 is notified
        if changed:
            trainer.settle()
        self._kept.take(trainer)
        if changed and not trainer.finished:
            raise HostsChanged("hosts were added or removed")

    def end(self, trainer: Trainer) -> None:
        self._kept.take(trainer)


def train_elastically(options: RunOptions, specs: dict[str, ModelSpec]) -> tuple[int | None, dict[str, float]]:
    """Trains with the available processes until training ends; returns the fields of ``session.Outcome``."""
    params = specs[options.config.sections[0]].full_params
    what = "--benchmark" if options.benchmark else "--check" if options.check else f"the mode {options.mode}"
    membership = join(params, what)
    training = ElasticTraining(options, specs, membership)
    while (outcome := training.attempt()) is None:
        training.part()
    return outcome


class ElasticTraining:
    """The training of one process in a changing group of processes.

    When the group changes, models and data are kept, but the runner, the trainer and all traced functions are created
    again, so that nothing traced for the previous number of ranks can run.

    Args:
      options: options of the run.
      specs: the specs of the models, by section.
      membership: connects this process with the others.
    """

    def __init__(self, options: RunOptions, specs: dict[str, ModelSpec], membership: Membership) -> None:
        self._options, self._specs, self._membership = options, specs, membership
        self._params = specs["train"].full_params
        self._kept = Kept()
        self._models: training_setup.Models | None = None
        self._logdir: LogDir | None = None
        self._held = contextlib.ExitStack()
        self._watchdog: Watchdog | None = None
        self._trainer: Trainer | None = None
        self._signum: int | None = None  # of a signal that the previous trainer has not heeded yet
        self._vain, self._began_at, self._reason, self._lost = 0, -1, "", False
        self._meetings = 0

    def attempt(self) -> tuple[int | None, dict[str, float]] | None:
        """Trains with the available processes; returns None if a new group has to be formed.

        Raises:
          UserError: processes were lost several times without an update in between; or any error of training.
        """
        try:
            runner = self._membership.meet()
            notes = self._prepare(runner)
            with watched(runner, self._params["watchdog_seconds"], self._membership.on_failure, True) as self._watchdog:
                return self._train(runner, notes)
        except Exception as error:
            regroup = self._membership.judge(error)
            if regroup is None:
                raise
            self._count(regroup)
            return None

    def _count(self, regroup: Regroup) -> None:
        self._reason, self._lost = str(regroup), isinstance(regroup, RanksLost)
        step = self._kept.reached
        self._vain = self._vain + 1 if self._lost and step <= self._began_at else 0
        self._began_at = max(step, self._began_at)
        if self._vain >= MOST_VAIN_MEETINGS:
            raise UserError(f"--elastic: processes were lost {self._vain} times in a row without an update in between, "
                            f"the last time because {self._reason}. Fix the errors that these processes have printed, "
                            "and resume with --continue_learning.")

    def part(self) -> None:
        """Leaves the current group of processes, after waiting for the last checkpoint and deleting the trainer."""
        if self._watchdog is not None:
            self._watchdog.leave()
        if self._trainer is not None:
            self._signum = self._trainer.stop.signum
            self._trainer.wait_for_checkpoint()
        self._watchdog = self._trainer = None
        gc.collect()
        self._membership.part(self._lost)

    def _prepare(self, runner: ElasticRunner) -> list[str]:
        notes = runner.describe()
        if self._meetings == 0:
            notes += set_up_process([spec.params for spec in self._specs.values()])
        self._meetings += 1
        return notes + training_setup.check_processes(self._options, self._params, runner)

    def _train(self, runner: ElasticRunner, notes: list[str]) -> tuple[int | None, dict[str, float]]:
        positions = runner.gather([self._kept.position])
        positions_known = [position for position in positions if position is not None]
        self._open_logdir(runner, fresh=not positions_known)
        if not positions_known:
            trainer = self._begin(runner, notes)
            if training_setup.nothing_left(trainer, self._logdir or LogDir(None)):
                return None, trainer.last_metrics
        else:
            latest = max(positions_known, key=lambda position: position.step)
            trainer = self._continue(runner, latest, positions.index(latest), notes)
        hook = CommitHook(self._kept, self._membership, self._params["elastic_commit_steps"])
        signum = None if trainer.finished and not awaits_evaluation(trainer) else train(trainer, [hook])
        training_setup.finish(trainer, signum)
        return signum, trainer.last_metrics

    def _begin(self, runner: ElasticRunner, notes: list[str]) -> Trainer:
        print_task(self._options, self._specs, notes)
        assert self._logdir is not None or not runner.is_chief
        logdir = self._logdir or LogDir(None)
        checkpoint, state = training_setup.resumed(self._options, logdir, runner)
        self._logdir = self._logdir and self._logdir.of_run(state)
        self._specs = settle_precision(self._specs, runner, state)
        trainer = self._make_trainer(runner, training_setup.shared_seed(self._specs["train"], state, runner))
        overview = print_training(self._options, self._specs, trainer, logdir.checkpoint_dir)
        training_setup.start(trainer, logdir, checkpoint, state)
        write_overview(overview)
        return trainer

    def _continue(self, runner: ElasticRunner, position: RunPosition, root: int, notes: list[str]) -> Trainer:
        """Returns a trainer that continues from the state kept by the process of rank ``root``."""
        self._specs = in_choice(self._specs, position.mixed_choice)
        trainer = self._make_trainer(runner, position.random_seed)
        if runner.process_rank == root:
            self._kept.put_into(trainer)
        runner.broadcast(trainer.state_variables, root)
        trainer.resume(position.step, position.micro_batch)
        trainer.divergence.resume(position.divergence)
        trainer.evaluated_at = position.evaluated_at
        trainer.last_metrics = runner.gather([self._kept.metrics])[root]
        trainer.began -= position.seconds
        again = max(self._kept.reached - position.step, 0)
        repeated = f"; {again} updates are repeated" if again else ""
        deco_print(f"Elastic: {self._reason or 'processes changed'}. Training continues at step {position.step} with "
                   f"{format_count(runner.world_size, 'rank')} (before: {format_count(position.world_size, 'rank')})"
                   f"{repeated}.")
        for note in notes:
            deco_print(note, offset=1)
        return trainer

    def _make_trainer(self, runner: ElasticRunner, seed: int) -> Trainer:
        self._models = self._models or training_setup.build_models(self._specs, seed, runner)
        if carried := carried_states(self._models[0]):
            raise ConfigError(["--elastic cannot be used with a model that carries state from batch to batch "
                               f"({', '.join(carried)}), because the number of ranks may change: leave --elastic out."])
        logdir = self._logdir if self._logdir is not None and runner.is_chief else LogDir(None)
        self._trainer = training_setup.make_trainer(self._options, self._models, logdir, seed, runner)
        self._trainer.stop.signum = self._signum
        return self._trainer

    def _open_logdir(self, runner: ElasticRunner, fresh: bool) -> None:
        """Locks the log directory on rank 0, and releases it on all others."""
        if not runner.is_chief:
            if self._logdir is not None:
                unmute()
                self._held.close()  # also ends the copying of the output to log files, if it was enabled
                self._logdir = None
                mute()
        elif self._logdir is None and fresh:
            self._logdir = training_setup.open_logdir(self._options, self._specs["train"], self._held)
        elif self._logdir is None:
            self._logdir = self._take_logdir_over()

    def _take_logdir_over(self) -> LogDir:
        logdir = take_over(self._options, self._params)
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                self._held.enter_context(LogDirLock(logdir.root))
                break
            except UserError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        if self._options.enable_logs and logdir.root is not None:
            self._held.enter_context(RunLogs.of(logdir.root, self._options))
        return logdir.of_run(None if logdir.checkpoint_dir is None else written_last(logdir.checkpoint_dir))
