"""The variables of a run, and the numbers that say where it stands: what checkpoints keep and recoveries restore."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.training.loop.run_states import RunStates


@dataclass(frozen=True)
class RunVariables:
    """The variables of a run.

    Attributes:
      weights: all variables of the model, by name.
      trainable: those that the optimizer updates.
      optimizer: built for ``trainable``.
      carried: the states that the model carries from batch to batch, of all replicas.
    """

    weights: dict[str, tf.Variable]
    trainable: dict[str, tf.Variable]
    optimizer: MixedPrecisionOptimizer
    carried: RunStates

    def by_name(self) -> dict[str, tf.Variable]:
        """Returns the weights and the optimizer's variables, without the carried states."""
        return {**self.weights, **{f"optimizer/{name}": v for name, v in self.optimizer.state().items()}}


@dataclass(frozen=True)
class RunPosition:
    """Where a run stands, apart from its variables: plain values, which JSON can hold.

    Attributes:
      step: updates attempted; skipped ones count.
      epoch: that the next batch belongs to, from 0.
      micro_batch: micro-batches consumed by all replicas together.
      random_seed: of the run.
      world_size: number of replicas.
      divergence: what ``DivergenceHistory.state`` returns.
      mixed_choice: the kinds of operations in bfloat16; None where the run's type leaves no choice.
    """

    step: int
    epoch: int
    micro_batch: int
    random_seed: int
    world_size: int
    divergence: dict[str, Any]
    mixed_choice: list[str] | None

    def as_state(self) -> dict[str, Any]:
        """Returns the entries of a checkpoint's ``state.json``."""
        return asdict(self)
