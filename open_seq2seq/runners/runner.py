"""The interface through which the training loop uses devices and processes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.clipping import Gradients
from open_seq2seq.utils.graphs import release_graphs

GROUP_BYTES = 64 * 2**20  # gradients are summed over replicas in groups of at most about this size, in bytes


class Compiled:
    """A function that each of this process's replicas runs on its own arguments.

    Args:
      function: the compiled function, whose arguments are those of one replica.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *arguments: Sequence[Any]) -> list[Any]:
        """Runs the function.

        Args:
          arguments: for each argument of the function, a list with one value for each replica. Functions without
            collective operations accept shorter lists.

        Returns:
          The results of the replicas that were given values, in order.
        """
        return [self._function(*(values[0] for values in arguments))]

    def __del__(self) -> None:
        release_graphs(self._function)

    @property
    def traces(self) -> int:
        """Number of times the function was traced."""
        return int(self._function.experimental_get_tracing_count())


class Runner:
    """One process with one device, for which every collective operation is the identity.

    All processes must call the collective operations (``reduce``, ``agree``, ``gather``, ``share``, ``broadcast``) in
    the same order.

    Attributes:
      process_rank: rank of this process.
      num_processes: number of processes.
      replica_rank: index of the replica that is running or being traced; outside of a replica, index of this
        process's first replica.
      local_replicas: number of replicas in this process, which are numbered consecutively.
      world_size: number of replicas in all processes; each gets one micro-batch per step.
      overlaps: whether to call ``reduce`` and ``agree`` in the function that computes the gradients, so that
        communication overlaps with computation.
    """

    process_rank = 0
    num_processes = 1
    replica_rank: Any = 0
    local_replicas = 1
    world_size = 1
    overlaps = False

    @property
    def is_chief(self) -> bool:
        """Whether this is rank 0, the process that prints and writes files."""
        return self.process_rank == 0

    def describe(self) -> list[str]:
        """Returns log lines that describe devices and processes; none for one process with one device."""
        return []

    def scope(self) -> AbstractContextManager[None]:
        """Returns the context in which variables must be created: those of models, optimizers and training steps."""
        return contextlib.nullcontext()

    def compile(self, function: Callable[..., Any], signature: Sequence[Any] | None = None,
                use_xla_jit: bool = False) -> Any:
        """Compiles a function that this process's replicas run.

        Args:
          function: what one replica computes; it may call the collective operations.
          signature: the ``tf.TensorSpec`` of each argument, or nests of them; by default they are inferred from the
            calls.
          use_xla_jit: whether to compile with XLA; the function must not call the collective operations then.

        Returns:
          The compiled function as a ``Compiled``.
        """
        return Compiled(compiled_graph(function, signature, use_xla_jit))

    def update(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a function that assigns to each replica's own variables. Call this within a compiled function.

        Args:
          function: the function, which may call no collective operation except ``agree``.
          arguments: tensors, or nests of them, equal on all replicas.

        Returns:
          What the function returns on this replica.
        """
        return function(*arguments)

    def local_copies(self, variable: tf.Variable) -> list[tf.Variable]:
        """Returns the copies of a variable on this process's replicas, which can be read and assigned."""
        return [variable]

    def check_ranks(self) -> None:
        """Raises ``RanksLost`` if another process of an elastic job was lost; otherwise does nothing.

        Call this during long work without collective operations, which would notice the loss.
        """

    def reduce(self, tensors: Gradients, name: str = "gradients", exact: bool = False) -> Gradients:
        """Returns the sums of tensors over all replicas.

        Args:
          tensors: FP32 tensors by name, dense or ``IndexedSlices``; the same names and shapes on all replicas, except
            that the number of rows of ``IndexedSlices`` may differ.
          name: name of this reduction; reductions that may run at the same time need different names.
          exact: whether to send FP32 even if gradients are compressed.

        Returns:
          The sums by name, which are the same on all replicas.
        """
        return tensors

    def agree(self, condition: tf.Tensor) -> tf.Tensor:
        """Returns whether a condition, a bool scalar, is true on every replica."""
        return condition

    def gather(self, results: list[Any]) -> list[Any]:
        """Returns the results of all processes, in the order of their batches.

        Args:
          results: this process's results, picklable Python objects, in the order of their batches. The replica with
            index r computes the batches r, r + ``world_size``, r + 2 · ``world_size``, …
        """
        return results

    def share(self, value: Any) -> Any:
        """Returns rank 0's value, which may be any picklable Python object, on all ranks."""
        return value

    def broadcast(self, variables: Mapping[str, tf.Variable]) -> None:
        """Assigns rank 0's values to the variables of all ranks; the mapping has the same names on all of them."""


def compiled_graph(function: Callable[..., Any], signature: Sequence[Any] | None, use_xla_jit: bool = False) -> Any:
    """Wraps a function in a ``tf.function``, without AutoGraph.

    Args:
      function: the function.
      signature: the ``tf.TensorSpec`` of each argument, or nests of them. If None, they are inferred from the calls,
        and sizes that change between calls become None.
      use_xla_jit: whether to compile with XLA.
    """
    # TensorFlow counts the traces of all objects with the same code together, so it would warn of retracing after
    # five models have been loaded. It does not count those of a partial function.
    counted_alone: Any = functools.partial(function)
    counted_alone.__name__ = getattr(function, "__name__", "function")  # the name of the function in profiles
    return tf.function(counted_alone, input_signature=signature, autograph=False, jit_compile=use_xla_jit or None,
                       reduce_retracing=signature is None)
