"""Who computes: the training loop knows devices and processes only through a runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

Gradients = dict[str, Any]


class Runner:
    """One process, one device: every collective operation is the identity.

    Where there are several processes, all of them have to call the collective operations
    (``reduce``, ``agree``, ``gather``, ``share``, ``broadcast``) in the same order.

    Attributes:
      process_rank: number of this process.
      replica_rank: number of this process's first replica.
      world_size: how many replicas take a micro-batch each in one step.
      overlaps: whether ``reduce`` and ``agree`` may be called in the function that computes the gradients, so that
        those which are ready travel while others are computed.
    """

    process_rank = 0
    replica_rank = 0
    world_size = 1
    overlaps = False

    @property
    def is_chief(self) -> bool:
        """Whether this process prints and writes."""
        return self.process_rank == 0

    def describe(self) -> list[str]:
        """Returns lines for the log that say who computes; none where there is nothing to say."""
        return []

    def run(self, step: Callable[[Any], Any], batch: Any) -> Any:
        """Runs a step on this runner's replicas."""
        return step(batch)

    def reduce(self, tensors: Gradients, name: str = "gradients", exact: bool = False) -> Gradients:
        """Adds tensors up over all replicas.

        Args:
          tensors: FP32, dense or ``IndexedSlices``, by name; the same names on all replicas.
          name: of this reduction: those that can be under way together have different names.
          exact: in FP32, whatever is asked for gradients.
        """
        return tensors

    def agree(self, condition: tf.Tensor) -> tf.Tensor:
        """Returns whether a condition holds on every replica."""
        return condition

    def gather(self, results: list[Any]) -> list[Any]:
        """Collects the results of all processes, in the order of their batches.

        Args:
          results: of batches that were dealt out in turn: rank r has those of the batches r, r + world size, …
        """
        return results

    def share(self, value: Any) -> Any:
        """Returns the value that the chief has: any Python object that pickles."""
        return value

    def broadcast(self, variables: Mapping[str, tf.Variable]) -> None:
        """Gives variables the values that they have in the chief's process."""
