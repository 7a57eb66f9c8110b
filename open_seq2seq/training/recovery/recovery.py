"""What a run does when it has diverged: stop, roll back, or go on in a safer arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import tensorflow as tf

from open_seq2seq.optimizers.dtype import precision_of, resolve_dtype
from open_seq2seq.training.recovery.divergence import Divergence, DivergenceDetector
from open_seq2seq.training.recovery.good_state import GoodState, good_states, note_start
from open_seq2seq.training.recovery.incident import Incident
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, UserError

if TYPE_CHECKING:
    from open_seq2seq.training.loop.trainer import Trainer

ON_DIVERGENCE = ("stop", "roll_back", "lower_precision")
_NEXT_TYPE = {tf.float16: "mixed_bfloat16", tf.bfloat16: "float32"}
_TYPE_ORDER = (tf.float16, tf.bfloat16, tf.float32)


class DivergenceError(UserError):
    """The run diverged and may not, or cannot, recover by itself."""


class PrecisionLowered(Exception):
    """Asks the session to build the model again in another type and to go on with ``Restart``."""

    def __init__(self, restart: Restart) -> None:
        super().__init__(restart.dtype)
        self.restart = restart


class Restart:
    """Where a run goes on after a recovery.

    Args:
      good: weights and optimizer.
      incident: its step, after which the data go on, and its counters, which are not turned back.
      micro_batch: where the data go on.

    Attributes:
      rate_factor: what the schedule's rate is multiplied by from now on.
      state: of ``Recovery``.
      dtype: the type of arithmetic, None where it stays.
    """

    def __init__(self, good: GoodState, incident: Incident, micro_batch: int) -> None:
        self.good, self.step, self.rate_factor = good, incident.step, incident.rate_factor
        self._micro_batch = micro_batch
        self._skipped, self._overflows = incident.skipped, incident.overflows
        self.state: dict[str, Any] = {}
        self.dtype: str | None = None

    def put_into(self, trainer: Trainer) -> None:
        """Gives a trainer this state."""
        self.good.put_into(trainer)
        trainer.optimizer.skipped.assign(self._skipped)
        trainer.optimizer.overflows.assign(self._overflows)
        trainer.optimizer.rate_factor.assign(self.rate_factor)
        trainer.resume(self.step, self._micro_batch)
        trainer.recovery.resume(self.state)


class Recovery:
    """Watches a run and acts on its divergence as the config says.

    Args:
      params: the model's: ``on_divergence``, ``max_skipped_updates``, ``divergence_loss_factor``,
        ``divergence_lr_factor``, ``max_recoveries``.
      longest_search: how many skipped updates in a row may be the loss scaler's search; they are no divergence.

    Attributes:
      detector: looks at the steps' results.
      events: what happened so far in this run, resumed or not; JSON.

    Raises:
      ConfigError: a parameter out of range.
    """

    def __init__(self, params: Mapping[str, Any], longest_search: int = 0) -> None:
        problems = [f"'{name}' is {params[name]} but has to be at least {least}."
                    for name, least in (("max_skipped_updates", 1), ("max_recoveries", 0)) if params[name] < least]
        if not 0.0 < params["divergence_lr_factor"] <= 1.0:
            problems.append(f"'divergence_lr_factor' is {params['divergence_lr_factor']} but has to be above 0 and at "
                            "most 1.")
        loss_factor = params["divergence_loss_factor"]
        if loss_factor is not None and not loss_factor > 1.0:
            problems.append(f"'divergence_loss_factor' is {loss_factor} but has to be above 1, or None to be off.")
        if problems:
            raise ConfigError(problems)
        self._params = params
        self.detector = DivergenceDetector(max(params["max_skipped_updates"], longest_search + 1), loss_factor)
        self.events: list[dict[str, Any]] = []
        self._lowered_to: str | None = None
        self._start: GoodState | None = None

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps in its ``state.json``."""
        return {"events": list(self.events), "dtype": self._lowered_to,
                "skipped_in_a_row": self.detector.skipped_in_a_row, "losses": self.detector.level.state()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Takes up what ``state`` returned; an older checkpoint has nothing."""
        self.detector.forget()
        self.events = list(state.get("events", ()))
        self._lowered_to = state.get("dtype")
        self.detector.skipped_in_a_row = int(state.get("skipped_in_a_row", 0))
        self.detector.level.resume(state.get("losses", {}))

    def begin(self, trainer: Trainer) -> None:
        """To be called before the first step: makes sure that there is something to go back to."""
        if self._params["on_divergence"] != "stop":
            self._start = note_start(trainer)

    def recover(self, trainer: Trainer, divergence: Divergence) -> None:
        """Puts the run where it can go on.

        Raises:
          DivergenceError: it is to stop.
          PrecisionLowered: the model has to be built again.
        """
        incident = Incident(trainer, divergence)
        trainer.resume(incident.step)
        self.detector.forget()
        trainer.wait_for_checkpoint()
        incident.examine()
        candidates = good_states(trainer, self._start)
        incident.newest = next(candidates, None)
        policy, problem = self._params["on_divergence"], None
        dtype = _NEXT_TYPE.get(precision_of(trainer.model.params).compute)
        if incident.newest is None:
            problem = "there is no checkpoint to go back to"
        elif policy != "stop" and len(self.events) >= self._params["max_recoveries"]:
            problem = f"it has recovered {len(self.events)} times already (max_recoveries)"
        elif policy == "lower_precision" and dtype is None:
            problem = "float32 is the last type to fall back on"
        if policy == "stop" or problem or incident.newest is None:
            self._stop(trainer, incident, problem)
        good = incident.choose(candidates, self.events)
        restart = Restart(good, incident, trainer.micro_batch)
        if policy == "roll_back":
            self._roll_back(trainer, incident, restart)
        else:
            self._lower(trainer, incident, restart, str(dtype))

    def _stop(self, trainer: Trainer, incident: Incident, problem: str | None) -> NoReturn:
        self._record(trainer, incident, "stopped" + (f", as {problem}" if problem else ""), None)
        # On several ranks, the one whose batch is to blame has the word.
        verdicts = trainer.runner.gather([(not incident.is_finite, incident.verdict(problem))])
        raise DivergenceError(next((text for blamed, text in verdicts if blamed), verdicts[0][1]))

    def _roll_back(self, trainer: Trainer, incident: Incident, restart: Restart) -> None:
        restart.rate_factor *= self._params["divergence_lr_factor"]
        action = f"rolled back to {restart.good.name}; from now on the learning rate is that of the policy times " \
                 f"{restart.rate_factor:g}"
        self._record(trainer, incident, action, restart.good)
        restart.state = self.state()
        restart.put_into(trainer)
        keep_restart(trainer, restart)

    def _lower(self, trainer: Trainer, incident: Incident, restart: Restart, dtype: str) -> None:
        self._lowered_to = restart.dtype = dtype
        self._record(trainer, incident, f"goes on in {dtype} from {restart.good.name}", restart.good)
        restart.state = self.state()
        raise PrecisionLowered(restart)

    def _record(self, trainer: Trainer, incident: Incident, action: str, target: GoodState | None) -> None:
        """Logs, counts and writes down an event."""
        self.events.append({**incident.summary(target), "action": action})
        incident.keep({**self.events[-1], "number": len(self.events)})
        deco_print(incident.title)
        for line in incident.lines():
            deco_print(line, offset=1)
        if target is not None:
            deco_print(f"{action[0].upper()}{action[1:]}. Recovery {len(self.events)} of at most "
                       f"{self._params['max_recoveries']}.", offset=1)
        if trainer.summaries is not None:
            trainer.summaries.write({"divergence_events": len(self.events)})


def keep_restart(trainer: Trainer, restart: Restart) -> None:
    """Saves the state that a recovered run goes on from, so that a kill soon after finds it.

    Checkpoints later than the one gone back to led to divergence: they are set aside,
    once this one is on disk, lest a resumed run or an average takes them.
    """
    if trainer.saver is not None and trainer.model.params["save_checkpoint_steps"]:
        trainer.save_checkpoint()
        trainer.wait_for_checkpoint()
        trainer.saver.set_aside(restart.good.step, trainer.step)


def kept_dtype(params: Mapping[str, Any], state: Mapping[str, Any]) -> str | None:
    """Returns the type that a resumed run was lowered to; None where the config's holds.

    The config's holds where it is as safe or safer, and under another ``on_divergence``.

    Args:
      params: the model's, as the config gives them.
      state: the checkpoint's ``state.json``.
    """
    lowered = state.get("divergence", {}).get("dtype")
    if lowered is None or params.get("on_divergence", "stop") != "lower_precision":
        return None
    there, here = (_TYPE_ORDER.index(policy.compute) for policy in (resolve_dtype(lowered), precision_of(params)))
    return lowered if there > here else None
