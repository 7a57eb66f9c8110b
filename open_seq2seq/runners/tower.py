"""Several devices in one process, each with a replica called a tower (``MirroredStrategy``)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.runner import GROUP_BYTES, Compiled, Gradients, Runner, compiled_graph


class TowerRunner(Runner):
    """The replicas of a ``MirroredStrategy``; see ``Runner``.

    Each replica reads and updates its own copy of every variable: gradients are summed over all replicas, and every
    device computes the same update from these sums, so weights are never sent. Variables that are not trained (moving
    statistics, counters, carried states) may be assigned anywhere in a replica. Reading one outside of a replica
    returns the first replica's value; ``local_copies`` returns all copies.

    Args:
      strategy: a strategy with at least one device in this process.
    """

    overlaps = True

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.local_replicas = len(strategy.extended.worker_devices)
        self.world_size = strategy.num_replicas_in_sync
        self.num_processes = self.world_size // self.local_replicas
        # ``update`` runs a function on each device that has a copy of this variable.
        with self.scope():
            self._anchor = tf.Variable(0.0, trainable=False)

    @property
    def replica_rank(self) -> Any:  # type: ignore[override]
        """Index of the replica that is being traced; outside of a replica, of this process's first replica."""
        context = tf.distribute.get_replica_context()
        inside = context is not None and context.strategy is self._strategy
        return context.replica_id_in_sync_group if inside else self._first

    @property
    def _first(self) -> int:
        return self.process_rank * self.local_replicas

    def describe(self) -> list[str]:
        devices = ", ".join(":".join(device.split(":")[-2:]) for device in self._strategy.extended.worker_devices)
        return [f"Towers: {self.local_replicas} in this process ({devices})"]

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        with self._strategy.scope(), tf.variable_creator_scope(_create):
            yield

    def compile(self, function: Callable[..., Any], signature: Sequence[Any] | None = None,
                use_xla_jit: bool = False) -> Any:
        # XLA compiles what each replica computes, but not the exchange between them.
        inner = compiled_graph(function, signature, True) if use_xla_jit else function

        def replicas(*arguments: Sequence[Any]) -> Any:
            outputs = self._strategy.run(lambda *own: inner(*own), args=[self._deal(values) for values in arguments])
            return self._strategy.experimental_local_results(outputs)

        # TensorFlow identifies functions by their code. Without this, it would report all functions compiled here as
        # retracings of one function.
        functools.update_wrapper(replicas, function)
        everyone = None if signature is None else [[spec] * self.local_replicas for spec in signature]
        return _Towers(compiled_graph(replicas, everyone), self.local_replicas)

    def update(self, function: Callable[..., Any], *arguments: Any) -> Any:
        def everywhere(strategy: tf.distribute.Strategy, *arguments: Any) -> Any:
            results: list[Any] = []
            # In this context a variable is its copy on the current device, in conditional branches too.
            strategy.extended.update(
                self._anchor, lambda anchor, *own: results.append(function(*own)), args=arguments, group=False)
            return self._deal(results)

        return tf.distribute.get_replica_context().merge_call(everywhere, args=arguments)

    def local_copies(self, variable: tf.Variable) -> list[tf.Variable]:
        return list(self._strategy.experimental_local_results(variable))

    def reduce(self, tensors: Gradients, name: str = "gradients", exact: bool = False) -> Gradients:
        options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=GROUP_BYTES)
        # all_reduce groups tensors by device. Arguments of a function have no device, but copies made here do.
        here = tf.nest.map_structure(tf.identity, list(tensors.values()), expand_composites=True)
        sums = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here, options)
        return dict(zip(tensors, sums, strict=True))

    # Runner.agree need not be overridden: callers compute the condition from the reduced gradients, which are bitwise
    # equal on all replicas, so it is the same on all of them.

    def _deal(self, values: Sequence[Any]) -> Any:
        """Distributes the values to the replicas of this process."""
        first = self._first
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group - first])


class _Towers(Compiled):
    """A compiled function that runs all replicas of this process.

    Args:
      function: the function, whose arguments are lists with one value for each replica.
      replicas: number of replicas in this process.
    """

    def __init__(self, function: Any, replicas: int) -> None:
        super().__init__(function)
        self._replicas = replicas

    def __call__(self, *arguments: Sequence[Any]) -> list[Any]:
        count = min((len(values) for values in arguments), default=self._replicas)
        # Replicas without a value repeat the last one.
        full = [[*values, *[values[-1]] * (self._replicas - len(values))] for values in arguments]
        with tf.device("CPU:0"):  # copies batches directly from the host to each device
            return list(self._function(*full))[:count]


def _create(create: Callable[..., tf.Variable], **settings: Any) -> tf.Variable:
    """Variable creator: calls the next creator, with settings that let each replica assign an untrained variable."""
    if settings.get("trainable") is False:
        settings["synchronization"] = tf.VariableSynchronization.ON_READ
        settings["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return create(**settings)


def mirrored_strategy(devices: Sequence[str]) -> tf.distribute.Strategy:
    """Returns the strategy for some of this process's devices, such as ``["GPU:0", "GPU:1"]``."""
    on_cpu = devices[0].startswith("CPU")
    # TensorFlow chooses ReductionToOneDevice for CPUs itself, but also prints a warning about it.
    return tf.distribute.MirroredStrategy(
        list(devices), cross_device_ops=tf.distribute.ReductionToOneDevice() if on_cpu else None)
