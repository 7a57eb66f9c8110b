"""Who computes: the training loop knows devices and processes only through a runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Gradients = dict[str, Any]


class Runner:
    """One process, one device: every collective operation is the identity.

    Attributes:
      process_rank: number of this process.
      replica_rank: number of this process's first replica.
      world_size: how many replicas take a micro-batch each in one step.
    """

    process_rank = 0
    replica_rank = 0
    world_size = 1

    @property
    def is_chief(self) -> bool:
        """Whether this process prints and writes."""
        return self.process_rank == 0

    def run(self, step: Callable[[Any], Any], batch: Any) -> Any:
        """Runs a step on this runner's replicas."""
        return step(batch)

    def reduce(self, tensors: Gradients) -> Gradients:
        """Adds tensors up over all replicas."""
        return tensors

    def agree(self, condition: tf.Tensor) -> tf.Tensor:
        """Returns whether a condition holds on every replica."""
        return condition

    def gather(self, results: list[Any]) -> list[Any]:
        """Collects the results of all processes, in the order of their batches."""
        return results
