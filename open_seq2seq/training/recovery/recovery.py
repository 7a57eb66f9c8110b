"""Investigates and handles the divergence of a run: stops it, rolls it back, or continues in a safer precision."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints.folders import DIVERGENCE
from open_seq2seq.data.static_shapes import EMPTY_ID
from open_seq2seq.optimizers.dtype import precision_of, resolve_dtype
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.runners.processor_speed import choice_of
from open_seq2seq.training.loop.diagnosis import Diagnosis
from open_seq2seq.training.loop.divergence import Attempt, Divergence, listed
from open_seq2seq.training.loop.kept_batch import write_batch
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.training.recovery.good_state import START, GoodState, Tried, good_states, pick_state
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError

_NEXT_TYPE = {tf.float16: "mixed_bfloat16", tf.bfloat16: "float32"}
_TYPE_ORDER = (tf.float16, tf.bfloat16, tf.float32)


@dataclass(frozen=True)
class Counters:
    """The optimizer's counters right after the update that diverged.

    Attributes:
      updates: number of updates made.
      skipped: number of updates skipped.
      overflows: number of updates whose gradients were not finite.
      rate_factor: factor on the schedule's learning rate.
    """

    updates: int
    skipped: int
    overflows: int
    rate_factor: float

    @classmethod
    def after(cls, divergence: Divergence, optimizer: MixedPrecisionOptimizer) -> Counters:
        """Reads the counters, and subtracts the update that may have been made before the divergence was noticed."""
        later = divergence.later
        applied = later is not None and bool(later.results["applied"])
        skipped = later is not None and not applied
        return cls(int(optimizer.updates.numpy()) - applied, int(optimizer.skipped.numpy()) - skipped,
                   int(optimizer.overflows.numpy()) - skipped, float(optimizer.rate_factor.numpy()))


@dataclass(frozen=True)
class SuspectBatch:
    """A micro-batch of the update that diverged, and the diagnosis from running it again.

    Attributes:
      batch: the micro-batch, as NumPy arrays.
      micro_batch: index of the micro-batch since the start of training.
      carried: states ``[rows, …]`` that the model continued from, by path.
      loss_scale: loss scale of the update.
      diagnosis: result of running it with the weights that the run had when the divergence was noticed.
    """

    batch: dict[str, Any]
    micro_batch: int
    carried: Mapping[str, np.ndarray]
    loss_scale: float
    diagnosis: Diagnosis

    def examples(self, describe: Callable[[int], str]) -> list[str]:
        """Returns descriptions of the examples whose loss is not finite or, if none is known, of all examples.

        Args:
          describe: function that returns the file and line of the example with a given index.
        """
        ids = self.batch["ids"]
        rows = [row for row in self.diagnosis.rows or range(len(ids)) if ids[row] != EMPTY_ID]
        numbered = np.issubdtype(np.asarray(ids).dtype, np.integer)
        return [str(describe(int(ids[row])) if numbered else ids[row]) for row in rows]


@dataclass(frozen=True)
class Incident:
    """A divergence that has been investigated.

    Attributes:
      divergence: the divergence that the detector raised.
      counters: the optimizer's counters after the update that diverged.
      suspect: the micro-batch that is likely to be the cause.
      examples: the suspect examples of this micro-batch, usually as file and line.
      newest: the newest state to go back to, or None.
    """

    divergence: Divergence
    counters: Counters
    suspect: SuspectBatch
    examples: list[str]
    newest: GoodState | None

    @property
    def step(self) -> int:
        """Number of attempted updates, including the one that diverged."""
        return self.divergence.attempt.step

    def summary(self, target: GoodState | None) -> dict[str, Any]:
        """Returns a JSON-serialisable summary, which is stored in all later checkpoints.

        Args:
          target: the state that the run goes back to; None if it stops.

        Returns:
          A dict: ``step`` and ``updates`` have the numbers of attempted and of applied updates, ``reason`` the symptom,
          ``target_step`` the step of ``target``, and ``lost`` the number of updates that going back to it undoes.
        """
        return {"step": self.step, "updates": self.counters.updates, "reason": self.divergence.reason,
                "target_step": None if target is None else target.step,
                "lost": 0 if target is None else self.counters.updates - target.updates}

    def details(self) -> dict[str, Any]:
        """Returns the JSON-serialisable details that are stored with the batch, for replaying it."""
        attempt, findings = self.divergence.attempt, self.suspect.diagnosis
        return {"checkpoint": None if self.newest is None else self.newest.name,
                "micro_batch": self.suspect.micro_batch, "loss_scale": self.suspect.loss_scale,
                "learning_rate": attempt.number("learning_rate"), "loss": str(attempt.number("loss")),
                "ids": np.asarray(self.suspect.batch["ids"]).tolist(), "examples": self.examples,
                "nonfinite_inputs": findings.inputs, "nonfinite_variables": findings.values,
                "nonfinite_gradients": findings.gradients}

    def lines(self, tried: Tried | None, folder: Path | None) -> Iterator[str]:
        """Yields lines for the log.

        Args:
          tried: the state that the run goes back to, with the loss of the batch; None if the run stops.
          folder: folder in which the batch was saved, or None.
        """
        findings = self.suspect.diagnosis
        which = "Examples whose loss is not finite" if findings.rows else "Examples of the batch"
        yield f"{which}: {listed(self.examples)}"
        if findings.finite:
            yield "When run again with the current weights, the batch gives neither inf nor NaN."
        for what, names in (("arrays of the batch", findings.inputs), ("variables", findings.values),
                            (f"gradients ({len(findings.gradients)} of {findings.num_gradients})", findings.gradients)):
            if names:
                yield f"Non-finite {what}: {listed(names)}"
        if tried is not None and tried.finite:
            yield (f"With the weights of {tried.state.name}, the batch gives a finite loss ({tried.loss:.4g}): the "
                   "weights had diverged.")
        elif tried is not None:
            yield (f"With the weights of {tried.state.name}, the batch gives inf or NaN, too: check these examples and "
                   "the precision.")
        if folder is not None:
            yield f"The batch is saved in {folder}; scripts/replay_batch.py runs it again."

    def verdict(self, problem: str | None, folder: Path | None, may_recover: bool = True) -> str:
        """Returns the error message of a run that stops.

        Args:
          problem: why the run cannot recover, as a clause; None if it stops only because recovery is disabled.
          folder: folder in which the batch was saved, or None.
          may_recover: whether ``on_divergence`` may have another value.
        """
        why = f" The run cannot recover by itself, because {problem}." if problem else ""
        name = START if self.newest is None else self.newest.name
        onward = "start again" if name == START else f"resume from {name} with --continue_learning"
        other = ", perhaps with on_divergence=roll_back" if may_recover and not problem else ""
        where = f" The batch is saved in {folder}." if folder is not None else ""
        return (f"Training diverged at step {self.step}: {self.divergence.reason}, on {listed(self.examples)}.{why} "
                f"Lower the learning rate, or correct or leave out these examples, and {onward}{other}.{where}")


class DivergenceError(UserError):
    """The run diverged, and recovery is disabled or impossible."""


class PrecisionLowered(Exception):
    """The run diverged; the model has to be rebuilt in ``dtype``, and the run has to continue from ``restart``."""

    def __init__(self, restart: Restart, dtype: str) -> None:
        super().__init__(dtype)
        self.restart, self.dtype = restart, dtype


@dataclass(frozen=True)
class Restart:
    """The state from which a run continues after a recovery.

    Attributes:
      good: weights, optimizer variables and carried states.
      step: number of attempted updates up to the divergence; it is not set back to ``good.step``.
      micro_batch: index of the micro-batch with which training continues, the one after the update that diverged.
      counters: the optimizer's counters after the update that diverged, from which ``skipped`` and ``overflows``
        continue.
      rate_factor: the new factor on the schedule's learning rate.
      history: the state of the run's ``DivergenceHistory``.
      began: see ``Trainer.began``.
    """

    good: GoodState
    step: int
    micro_batch: int
    counters: Counters
    rate_factor: float
    history: dict[str, Any]
    began: float

    def put_into(self, trainer: Trainer) -> None:
        """Restores this state in a trainer and, if the run saves regular checkpoints, saves it.

        A run that is killed soon afterwards is then resumed from this state. Checkpoints between the restored state and
        the divergence may contain diverging weights. They are renamed or removed once the new checkpoint is on disk, so
        that neither a resumed run nor an average uses them.
        """
        self.good.put_into(trainer.state)
        trainer.optimizer.skipped.assign(self.counters.skipped)
        trainer.optimizer.overflows.assign(self.counters.overflows)
        trainer.optimizer.rate_factor.assign(self.rate_factor)
        trainer.resume(self.step, self.micro_batch)
        trainer.divergence.resume(self.history)
        trainer.began = self.began
        if trainer.saver is not None and trainer.model.params["save_checkpoint_steps"]:
            trainer.save_checkpoint()
            trainer.wait_for_checkpoint()
            trainer.saver.set_aside(self.good.step, trainer.step)


class Recovery:
    """Handles the divergences of a run as its config specifies.

    Args:
      trainer: the run's trainer, before its first step. If recovery is enabled, the trainer's state is saved or copied,
        unless a checkpoint already contains it.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self._params, self._history = trainer, trainer.model.params, trainer.divergence
        self._policy = self._params["on_divergence"]
        self._start = None if self._policy == "stop" else _keep_start(trainer)

    def recover(self, divergence: Divergence) -> None:
        """Restores a state from which the run can continue.

        Raises:
          DivergenceError: the run has to stop.
          PrecisionLowered: the model has to be rebuilt in another dtype.
        """
        trainer = self._trainer
        trainer.is_whole = False
        with trainer.pause():
            incident, older = self._investigate(divergence)
            problem = self._problem(incident.newest)
            if self._policy == "stop" or problem:
                self._stop(incident, problem)
            tried = self._choose(incident, older)
            factor = incident.counters.rate_factor
            if self._policy == "lower_precision":
                self._history.lowered_to = dtype = _NEXT_TYPE[precision_of(self._params).compute]
                self._record(incident, f"continues in {dtype} from {tried.state.name}", tried)
                raise PrecisionLowered(self._restart(incident, tried, factor), dtype)
            factor *= self._params["divergence_lr_factor"]
            self._record(incident, f"rolled back to {tried.state.name}; from now on, the policy's learning rate is "
                                   f"multiplied by {factor:g}", tried)
            self._restart(incident, tried, factor).put_into(trainer)
        trainer.is_whole = True

    def _investigate(self, divergence: Divergence) -> tuple[Incident, Iterator[GoodState]]:
        """Returns the incident, and an iterator over the states that are older than ``Incident.newest``."""
        trainer, attempt = self._trainer, divergence.attempt
        counters = Counters.after(divergence, trainer.optimizer)
        trainer.resume(attempt.step)
        self._history.detector.forget()
        trainer.wait_for_checkpoint()
        suspect = _find_suspect(trainer, attempt)
        states = good_states(trainer.saver.regular() if trainer.saver is not None else (), trainer.step, self._start)
        newest = next(states, None)
        examples = suspect.examples(trainer.model.data_layer.describe_example)
        return Incident(divergence, counters, suspect, examples, newest), states

    def _problem(self, newest: GoodState | None) -> str | None:
        """Returns why the run cannot recover, as a clause; None if it can, or if the config disables recovery."""
        recovered = len(self._history.events)
        if self._policy == "stop":
            return None
        if newest is None:
            return "there is no checkpoint to go back to"
        if recovered >= self._params["max_recoveries"]:
            return f"it has recovered {recovered} times already (max_recoveries)"
        if self._policy == "lower_precision" and precision_of(self._params).compute not in _NEXT_TYPE:
            return "float32 is already the safest dtype"
        return None

    def _choose(self, incident: Incident, older: Iterator[GoodState]) -> Tried:
        """Returns the state to go back to; see ``pick_state``."""
        assert incident.newest is not None
        trainer, suspect = self._trainer, incident.suspect
        last: Mapping[str, Any] = self._history.events[-1] if self._history.events else {}
        # The run has diverged again soon if it has made at most ``lost`` updates more than at the last divergence; this
        # is the number of updates that the last recovery undid.
        again = bool(last) and incident.counters.updates <= last["updates"] + last["lost"]

        def tried(state: GoodState) -> Tried:
            state.put_into(trainer.state)
            found = trainer.examiner.examine(suspect.batch, suspect.micro_batch, suspect.loss_scale, suspect.carried)
            return Tried(state, found.loss if found.finite else float("inf"))

        # If the batch itself contains inf or NaN, its loss says nothing about the weights: go back to the newest state.
        candidates = itertools.chain([incident.newest], () if suspect.diagnosis.inputs else older)
        return pick_state(map(tried, candidates), before=last["target_step"] if again else None)

    def _stop(self, incident: Incident, problem: str | None) -> NoReturn:
        runner = self._trainer.runner
        # All ranks report the batch of the first rank on which it gives inf or NaN or, if there is none, of rank 0.
        faulty = runner.gather([not incident.suspect.diagnosis.finite])
        rank = faulty.index(True) if any(faulty) else 0
        own = (incident.suspect, incident.examples) if runner.process_rank == rank else None
        suspect, examples = runner.gather([own])[rank]
        incident = replace(incident, suspect=suspect, examples=examples)
        folder = self._record(incident, "stopped" + (f", because {problem}" if problem else ""), None)
        # Only rank 0 knows the checkpoints.
        raise DivergenceError(runner.share(incident.verdict(problem, folder, runner.num_processes == 1)))

    def _restart(self, incident: Incident, tried: Tried, rate_factor: float) -> Restart:
        return Restart(tried.state, incident.step, self._trainer.micro_batch, incident.counters, rate_factor,
                       self._history.state(), self._trainer.began)

    def _record(self, incident: Incident, action: str, tried: Tried | None) -> Path | None:
        """Records and logs a divergence, and saves its batch; returns the folder of the batch."""
        events = self._history.events
        events.append({**incident.summary(None if tried is None else tried.state), "action": action})
        folder = self._keep(incident, {**events[-1], "number": len(events)})
        deco_print(f"DIVERGED at step {incident.step}, after {incident.counters.updates} updates: "
                   f"{incident.divergence.reason}.")
        for line in incident.lines(tried, folder):
            deco_print(line, offset=1)
        if tried is not None:
            deco_print(f"{action[0].upper()}{action[1:]}. Recovery {len(events)} of at most "
                       f"{self._params['max_recoveries']}.", offset=1)
        if self._trainer.summaries is not None:
            self._trainer.summaries.write(self._trainer.step, {"divergence_events": len(events)})
        return folder

    def _keep(self, incident: Incident, event: Mapping[str, Any]) -> Path | None:
        """Saves the batch on rank 0, if the run writes checkpoints; returns the folder, or None."""
        trainer, suspect = self._trainer, incident.suspect
        if trainer.saver is None or not trainer.runner.is_chief:
            return None
        details = {**event, **incident.details(), "seed": trainer.seed, "dtype": _type_name(self._params),
                   "mixed_choice": choice_of(self._params)}
        folder = trainer.saver.directory / DIVERGENCE / f"step-{incident.step}"
        try:
            return write_batch(folder, suspect.batch, details, trainer.saver.config_yaml, suspect.carried)
        except OSError as error:
            deco_print(f"WARNING: the batch could not be saved in {folder}: {error.strerror}.")
            return None


def _keep_start(trainer: Trainer) -> GoodState | None:
    """Keeps the state before the first step, unless a checkpoint contains it.

    If this process writes regular checkpoints, the state is saved as one, and None is returned. Otherwise, the state is
    returned.
    """
    if trainer.saver is not None and any(step <= trainer.step for step, _ in trainer.saver.regular()):
        return None
    if trainer.saver is not None and trainer.model.params["save_checkpoint_steps"]:
        trainer.save_checkpoint()
        return None
    return GoodState.take(START, trainer.step, trainer.state)


def _find_suspect(trainer: Trainer, attempt: Attempt) -> SuspectBatch:
    """Runs an update's micro-batches again with the current weights; returns the first non-finite one, or the last."""
    runner, scale, suspect = trainer.runner, attempt.number("loss_scale"), None
    for number, batch in enumerate(attempt.batches, (attempt.step - 1) * len(attempt.batches)):
        consumed, replica = divmod(number, runner.local_replicas)
        micro_batch = trainer.offset + consumed * runner.world_size + runner.replica_rank + replica
        carried = trainer.carried.before(micro_batch)
        findings = trainer.examiner.examine(batch, micro_batch, scale, carried)
        suspect = SuspectBatch(batch, micro_batch, carried, scale, findings)
        if not findings.finite:
            break
    assert suspect is not None
    return suspect


def _type_name(params: Mapping[str, Any]) -> str:
    policy = precision_of(params)
    if policy.may_choose and 0 < len(policy.kinds) < len(KINDS):
        return policy.label  # the record of the divergence also has mixed_choice
    return "float32" if policy.compute == tf.float32 else f"mixed_{policy.compute.name}"


def kept_dtype(params: Mapping[str, Any], state: Mapping[str, Any]) -> str | None:
    """Returns the dtype that a recovery had chosen before the run was resumed; None if the config's dtype applies.

    The config's dtype applies if it is at least as safe, or if ``on_divergence`` is not ``lower_precision``.

    Args:
      params: the model's parameters, as given in the config.
      state: the checkpoint's ``state.json``.
    """
    lowered = state.get("divergence", {}).get("dtype")
    if lowered is None or params.get("on_divergence", "stop") != "lower_precision":
        return None
    there, here = (_TYPE_ORDER.index(policy.compute) for policy in (resolve_dtype(lowered), precision_of(params)))
    return lowered if there > here else None
