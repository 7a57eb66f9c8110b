"""A run's record of its divergences, which is stored in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from open_seq2seq.training.loop.divergence import DivergenceDetector
from open_seq2seq.utils.errors import ConfigError


class DivergenceHistory:
    """A run's divergence detector, and its divergences so far.

    Args:
      params: the model's parameters, of which ``max_skipped_updates``, ``divergence_loss_factor``,
        ``divergence_lr_factor`` and ``max_recoveries`` are used.
      longest_search: maximum number of consecutive updates that the loss scaler skips while it searches for a scale;
        these do not count as divergence.

    Attributes:
      detector: examines the results of each step.
      events: the divergences of this run, including those before it was resumed, as JSON-serialisable dicts.
      lowered_to: the dtype that a recovery chose; None if the config's dtype is in use.

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
        """Returns the entry for a checkpoint's ``state.json``."""
        return {"events": list(self.events), "dtype": self.lowered_to,
                "skipped_in_a_row": self.detector.skipped_in_a_row, "losses": self.detector.level.state()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores the result of ``state``; ``{}`` begins anew."""
        self.detector.forget()
        self.events = list(state.get("events", ()))
        self.lowered_to = state.get("dtype")
        self.detector.skipped_in_a_row = int(state.get("skipped_in_a_row", 0))
        self.detector.level.resume(state.get("losses", {}))


def _problems(params: Mapping[str, Any]) -> list[str]:
    problems = [f"'{name}' must be at least {least}, got {params[name]}."
                for name, least in (("max_skipped_updates", 1), ("max_recoveries", 0)) if params[name] < least]
    if not 0.0 < params["divergence_lr_factor"] <= 1.0:
        problems.append("'divergence_lr_factor' must be greater than 0 and at most 1, got "
                        f"{params['divergence_lr_factor']}.")
    loss_factor = params["divergence_loss_factor"]
    if loss_factor is not None and not loss_factor > 1.0:
        problems.append(f"'divergence_loss_factor' must be greater than 1, or None to disable it, got {loss_factor}.")
    return problems
