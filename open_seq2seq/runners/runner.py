"""Who computes: the training loop knows devices and processes only through a runner."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

Gradients = dict[str, Any]


class Compiled:
    """A function for replicas: each of this process's replicas runs it on arguments of its own.

    Args:
      function: compiled; it takes one replica's arguments.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *arguments: Sequence[Any]) -> list[Any]:
        """Runs the function.

        Args:
          arguments: for each of the function's arguments, a list of what each replica gets. Where there
            is less than there are replicas, which is allowed to functions without collective
            operations, there are as many results.

        Returns:
          The replicas' results, in their order.
        """
        return [self._function(*(values[0] for values in arguments))]

    @property
    def traces(self) -> int:
        """How often the function was traced."""
        return int(self._function.experimental_get_tracing_count())


class Runner:
    """One process, one device: every collective operation is the identity.

    Where there are several processes, all of them have to call the collective operations
    (``reduce``, ``agree``, ``gather``, ``share``, ``broadcast``) in the same order.

    Attributes:
      process_rank: number of this process.
      num_processes: how many processes there are.
      replica_rank: number of the replica that is running or being traced; outside of one, of this process's first.
      local_replicas: how many replicas this process has; their numbers are consecutive.
      world_size: how many replicas take a micro-batch each in one step.
      overlaps: whether ``reduce`` and ``agree`` may be called in the function that computes the gradients, so that
        those which are ready travel while others are computed.
    """

    process_rank = 0
    num_processes = 1
    replica_rank: Any = 0
    local_replicas = 1
    world_size = 1
    overlaps = False

    @property
    def is_chief(self) -> bool:
        """Whether this process prints and writes."""
        return self.process_rank == 0

    def describe(self) -> list[str]:
        """Returns lines for the log that say who computes; none where there is nothing to say."""
        return []

    def scope(self) -> AbstractContextManager[None]:
        """Within this context variables are made: models, optimizers, training steps."""
        return contextlib.nullcontext()

    def compile(self, function: Callable[..., Any], signature: Sequence[Any] | None = None,
                use_xla_jit: bool = False) -> Any:
        """Makes a function for this process's replicas.

        Args:
          function: what one replica does; in it the collective operations are allowed.
          signature: the specs of its arguments; by default they follow from the first call.
          use_xla_jit: compile it by XLA; then collective operations are not allowed in it.

        Returns:
          A ``Compiled``.
        """
        return Compiled(compiled_graph(function, signature, use_xla_jit))

    def update(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a function that assigns variables, in a function for replicas; each replica has its own variables.

        Args:
          function: called without collective operations.
          arguments: tensors, or nests of them, equal on all replicas.
        """
        return function(*arguments)

    def local_copies(self, variable: tf.Variable) -> list[tf.Variable]:
        """Returns the copies of a variable that this process's replicas have, to be read and assigned one by one."""
        return [variable]

    def check_ranks(self) -> None:
        """To be called where a process works by itself for long: raises where the others are not to be waited for."""

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


def compiled_graph(function: Callable[..., Any], signature: Sequence[Any] | None, use_xla_jit: bool = False) -> Any:
    """Returns the ``tf.function`` of a function: one trace, whatever the sizes that vary."""
    return tf.function(function, input_signature=signature, autograph=False, jit_compile=use_xla_jit or None,
                       reduce_retracing=signature is None)
