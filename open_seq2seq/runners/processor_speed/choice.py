"""Chooses, before models are built, the kinds of operations that ``mixed`` computes in bfloat16 on a CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.runners import Runner
from open_seq2seq.runners.processor_speed.probe import TYPES, Speeds, machine_speeds, ratios
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, ConfigError

# Smallest speedup over float32 for which a kind of operation is computed in bfloat16. A smaller one is not worthwhile:
# casts cost time, and the code between these operations becomes no faster.
LEAST_GAIN = 1.1
# Share of a recurrent layer's multiplications in training that are computed step by step, if its input is as large as
# its state. The forward and the backward pass need six matrix products per step. Two of them are within the loop over
# the steps: that of the state with its matrix, and the gradient with respect to the state. The other four are computed
# for all steps at once: the product of the input with its matrix, the gradient with respect to the input, and the
# gradients of both matrices.
_IN_LOOP = 1 / 3
Specs = dict[str, ModelSpec]


def settle_precision(specs: Specs, runner: Runner, state: Mapping[str, Any] | None = None) -> Specs:
    """Decides which kinds of operations are computed in bfloat16, and prints the choice; a collective operation.

    ``mixed_choice`` in the config takes precedence. Without it, a resumed run keeps its choice, and a new run measures
    the speed of rank 0's processor.

    Args:
      specs: the specs of the run's models, by section.
      runner: the run's runner.
      state: the state of the checkpoint that training resumes from, the same on all ranks; None without one.

    Returns:
      The specs, with ``mixed_choice`` set in those that compute in ``mixed`` on a CPU.

    Raises:
      ConfigError: the sections give different values of ``mixed_choice``.
      CheckpointError: ``mixed_choice`` in the state is invalid.
    """
    policies = {name: precision_of(spec.params) for name, spec in specs.items()}
    first = next(iter(specs))
    concerned = [name for name, policy in policies.items() if policy.may_choose]
    if not concerned:
        deco_print(policies[first].note)
        return specs
    choices = _given([specs[name].params.get("mixed_choice") for name in concerned])
    stored = _kept(state)
    choice, reason = choices, "set by mixed_choice"
    if choices is None and stored is not None:
        choice, reason = stored, "as in the checkpoint"
    elif choices is None:
        choice, reason = runner.share(_measured("train" in specs) if runner.is_chief else None)
    elif stored is not None and set(stored) != set(choices):
        reason += f"; this run used {list(stored)} before"
    assert choice is not None
    specs = in_choice(specs, choice)
    deco_print(precision_of(specs[first].params).note)
    deco_print(reason, offset=1)
    return specs


def in_choice(specs: Specs, choice: list[str] | None) -> Specs:
    """Returns the specs, with ``mixed_choice`` set to ``choice`` in those that compute in ``mixed`` on a CPU."""
    return {name: dataclasses.replace(spec, params={**spec.params, "mixed_choice": choice})
            if precision_of(spec.params).may_choose else spec for name, spec in specs.items()}


def choice_of(params: Mapping[str, Any]) -> list[str] | None:
    """Returns the kinds of operations that a model computes in bfloat16; None if its dtype leaves no choice."""
    policy = precision_of(params)
    return list(policy.kinds) if policy.may_choose else None


def _given(values: list[Any]) -> list[str] | None:
    if any(value != values[0] for value in values):
        raise ConfigError(["'mixed_choice' differs between the sections of this run: set it once, in base_params."])
    return None if values[0] is None else [kind for kind in KINDS if kind in values[0]]


def _kept(state: Mapping[str, Any] | None) -> list[str] | None:
    stored = None if state is None else state.get("mixed_choice")  # runs in one type have none
    if stored is not None and not (isinstance(stored, list) and all(kind in KINDS for kind in stored)):
        raise CheckpointError(f"'mixed_choice' in the checkpoint's state.json must be a list with names from "
                              f"{', '.join(KINDS)}, got {stored!r}: set mixed_choice in the config, or resume from "
                              "another checkpoint.")
    return stored


def _measured(training: bool) -> tuple[list[str], str]:
    gains = layer_gains(machine_speeds(), training)
    shown = ", ".join(f"{kind}s {gain:.2f}×" for kind, gain in gains.items())
    return chosen(gains), f"bf16/fp32 speed: {shown}"


def layer_gains(speeds: Speeds, training: bool) -> dict[str, float]:
    """Returns the speedups of bfloat16 over float32 for layers, by kind.

    The time of a recurrent layer in training is the sum of two parts: the products within the loop over the steps, at
    the speed ``recurrence``, and the other products, at the speed ``product``. Outside of training, all products are
    assumed to be within the loop, as in a decoder's search.

    Args:
      speeds: speeds of single operations in GFLOP/s, by kind and dtype.
      training: whether the layers are trained.
    """
    within = _IN_LOOP if training else 1.0
    seconds = {name: within / speeds["recurrence"][name] + (1.0 - within) / speeds["product"][name] for name in TYPES}
    return {**ratios(speeds), "recurrence": seconds["float32"] / seconds["bfloat16"]}


def chosen(gains: Mapping[str, float]) -> list[str]:
    """Returns the kinds of operations that ``mixed`` computes in bfloat16.

    Args:
      gains: result of ``layer_gains``; kinds with a speedup of at least ``LEAST_GAIN`` are chosen.
    """
    return [kind for kind in KINDS if gains[kind] >= LEAST_GAIN]
