"""What a run remembers of its divergences, from one checkpoint to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from open_seq2seq.training.recovery.divergence import DivergenceDetector
from open_seq2seq.utils.errors import ConfigError


class DivergenceHistory:
    """The detector of a run, and its divergences so far.

    Args:
      params: the model's: ``max_skipped_updates``, ``divergence_loss_factor``, ``divergence_lr_factor``,
        ``max_recoveries``.
      longest_search: how many skipped updates in a row may be the loss scaler's search; they are no divergence.

    Attributes:
      detector: examines the results of each step.
      events: the divergences of this run, resumed or not; JSON.
      lowered_to: the type of arithmetic that a recovery chose, None where the config's holds.

    Raises:
      ConfigError: a parameter is out of range.
    """

    def __init__(self, params: Mapping[str, Any], longest_search: int = 0) -> None:
        if problems := _problems(params):
            raise ConfigError(problems)
        self.detector = DivergenceDetector(max(params["max_skipped_updates"], longest_search + 1),
                                           params["divergence_loss_factor"])
        self.events: list[dict[str, Any]] = []
        self.lowered_to: str | None = None

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps in its ``state.json``."""
        return {"events": list(self.events), "dtype": self.lowered_to,
                "skipped_in_a_row": self.detector.skipped_in_a_row, "losses": self.detector.level.state()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores what ``state`` returned; {} is the state of older checkpoints."""
        self.detector.forget()
        self.events = list(state.get("events", ()))
        self.lowered_to = state.get("dtype")
        self.detector.skipped_in_a_row = int(state.get("skipped_in_a_row", 0))
        self.detector.level.resume(state.get("losses", {}))


def _problems(params: Mapping[str, Any]) -> list[str]:
    problems = [f"'{name}' is {params[name]} but has to be at least {least}."
                for name, least in (("max_skipped_updates", 1), ("max_recoveries", 0)) if params[name] < least]
    if not 0.0 < params["divergence_lr_factor"] <= 1.0:
        problems.append(f"'divergence_lr_factor' is {params['divergence_lr_factor']} but has to be above 0 and at "
                        "most 1.")
    loss_factor = params["divergence_loss_factor"]
    if loss_factor is not None and not loss_factor > 1.0:
        problems.append(f"'divergence_loss_factor' is {loss_factor} but has to be above 1, or None to be off.")
    return problems
