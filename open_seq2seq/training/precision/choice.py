"""Which kinds of operations a run in ``mixed`` computes in bfloat16 on a CPU: decided before models are built."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.runners import Runner
from open_seq2seq.runners.processor_speed.probe import machine_speeds, ratios
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, ConfigError

# How many times as fast as float32 bfloat16 has to be in a kind of operation: what happens between the operations
# becomes no faster, and casts cost time.
LEAST_GAIN = 1.1
Specs = dict[str, ModelSpec]


def settle_precision(specs: Specs, runner: Runner, state: Mapping[str, Any] | None = None) -> Specs:
    """Decides which kinds of operations are in bfloat16, and prints it; a collective operation.

    ``mixed_choice`` in the config decides; without it the run that is resumed, and for a new run the measured speed of
    the processor of rank 0.

    Args:
      specs: the models of this run, by section.
      runner: who computes.
      state: of the checkpoint that training resumes from, on all ranks; None without one.

    Returns:
      The descriptions, with ``mixed_choice`` in all that compute in ``mixed`` on a CPU.

    Raises:
      ConfigError: sections that disagree.
      CheckpointError: a state that no run has written.
    """
    policies = {name: precision_of(spec.params) for name, spec in specs.items()}
    first = next(iter(specs))
    concerned = [name for name, policy in policies.items() if policy.may_choose]
    if not concerned:
        deco_print(policies[first].note)
        return specs
    given = _given([specs[name].params.get("mixed_choice") for name in concerned])
    kept = _kept(state)
    choice, reason = given, "by mixed_choice"
    if given is None and kept is not None:
        choice, reason = kept, "as this run began"
    elif given is None:
        choice, reason = runner.share(_measured() if runner.is_chief else None)
    elif kept is not None and set(kept) != set(given):
        reason += f", where this run had {list(kept)} before"
    assert choice is not None
    specs = in_choice(specs, choice)
    deco_print(f"{precision_of(specs[first].params).note} ({reason})")
    return specs


def in_choice(specs: Specs, choice: list[str] | None) -> Specs:
    """Returns descriptions with a choice in all that compute in ``mixed`` on a CPU."""
    return {name: dataclasses.replace(spec, params={**spec.params, "mixed_choice": choice})
            if precision_of(spec.params).may_choose else spec for name, spec in specs.items()}


def choice_of(params: Mapping[str, Any]) -> list[str] | None:
    """Returns the choice that a model with these parameters computes in; None where it has none."""
    policy = precision_of(params)
    return list(policy.kinds) if policy.may_choose else None


def _given(values: list[Any]) -> list[str] | None:
    if any(value != values[0] for value in values):
        raise ConfigError(["'mixed_choice' differs between the sections of this run, but a run has one choice: give it "
                           "in base_params."])
    return None if values[0] is None else [kind for kind in KINDS if kind in values[0]]


def _kept(state: Mapping[str, Any] | None) -> list[str] | None:
    kept = None if state is None else state.get("mixed_choice")  # older checkpoints have none
    if kept is not None and not (isinstance(kept, list) and all(kind in KINDS for kind in kept)):
        raise CheckpointError(f"The checkpoint's state.json has the mixed_choice {kept!r}, which has to be a list of "
                              f"{', '.join(KINDS)}: set mixed_choice in the config, or resume from another checkpoint.")
    return kept


def _measured() -> tuple[list[str], str]:
    gains = ratios(machine_speeds())
    shown = ", ".join(f"{kind}s {gain:.2f}×" for kind, gain in gains.items())
    return chosen(gains), f"speed of bfloat16 by float32's: {shown}"


def chosen(gains: Mapping[str, float]) -> list[str]:
    """Returns the kinds that gain enough.

    A recurrent layer, of the kind ``recurrence``, also multiplies its whole input by a matrix, so the kind needs the
    gain of ``product`` too.

    Args:
      gains: how many times as fast as float32 bfloat16 is, by kind.
    """
    return [kind for kind in KINDS if gains[kind] >= LEAST_GAIN
            and (kind != "recurrence" or gains["product"] >= LEAST_GAIN)]
