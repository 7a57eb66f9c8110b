"""The variables and the position of a run, which checkpoints store and recoveries restore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.runners.run_states import RunStates


@dataclass(frozen=True)
class RunVariables:
    """The variables of a run.

    Attributes:
      weights: all variables of the model, by name.
      trainable: the variables that the optimizer updates, by name.
      optimizer: the optimizer, built for ``trainable``.
      carried: the states that the model carries from batch to batch, of all replicas.
    """

    weights: dict[str, tf.Variable]
    trainable: dict[str, tf.Variable]
    optimizer: MixedPrecisionOptimizer
    carried: RunStates


@dataclass(frozen=True)
class RunPosition:
    """The position of a run and other JSON-serialisable values that a checkpoint stores besides variables.

    Attributes:
      step: number of attempted updates, including skipped ones.
      epoch: epoch of the next batch, counted from 0.
      micro_batch: number of micro-batches consumed by all replicas together.
      random_seed: seed of the run.
      world_size: number of replicas.
      divergence: result of ``DivergenceHistory.state``.
      mixed_choice: kinds of operations computed in bfloat16; None if the run's dtype leaves no choice.
      rates: string that identifies the learning-rate schedule; see ``MixedPrecisionOptimizer.rates``.
      evaluated_at: step of the last complete evaluation; -1 before the first.
      updates: number of updates made, without skipped ones and those that a recovery has undone.
      seconds: duration of the training so far, in seconds, without the time between its parts if it was resumed.
    """

    step: int
    epoch: int
    micro_batch: int
    random_seed: int
    world_size: int
    divergence: dict[str, Any]
    mixed_choice: list[str] | None
    rates: str = ""
    evaluated_at: int = -1
    updates: int = 0
    seconds: float = 0.0
