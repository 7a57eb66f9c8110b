"""Several devices in one process: a replica, called a tower, on each, by tf.distribute's MirroredStrategy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.reduction import GROUP_BYTES
from open_seq2seq.runners.runner import Compiled, Gradients, Runner, compiled_graph


class TowerRunner(Runner):
    """The replicas of a ``MirroredStrategy``; see ``Runner``.

    Each replica has a copy of every variable. It reads its own, and updates its own: gradients
    are added up over all replicas, and the same update is then computed on every device from the
    same numbers, so that weights never travel. Variables that are not trained (moving statistics,
    counters, carried states) may be assigned anywhere in a replica; read from outside they are the first replica's, and
    each replica's by ``local_copies``.

    Args:
      strategy: a strategy with at least one device in this process.
    """

    overlaps = True

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.local_replicas = len(strategy.extended.worker_devices)
        self.world_size = strategy.num_replicas_in_sync
        self.num_processes = self.world_size // self.local_replicas
        # Updates run where the copies of this variable are.
        with self.scope():
            self._anchor = tf.Variable(0.0, trainable=False)

    @property
    def replica_rank(self) -> Any:  # type: ignore[override]
        """Number of the replica that is being traced; outside of one, of this process's first."""
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
        # A function within the function: each replica's part is compiled, and what joins them is not.
        inner = compiled_graph(function, signature, True) if use_xla_jit else function

        def replicas(*arguments: Sequence[Any]) -> Any:
            outputs = self._strategy.run(lambda *own: inner(*own), args=[self._deal(values) for values in arguments])
            return self._strategy.experimental_local_results(outputs)

        # TensorFlow tells functions apart by their code, and would take all of these for one that is traced again.
        functools.update_wrapper(replicas, function)
        everyone = None if signature is None else [[spec] * self.local_replicas for spec in signature]
        return _Towers(compiled_graph(replicas, everyone), self.local_replicas)

    def update(self, function: Callable[..., Any], *arguments: Any) -> Any:
        def everywhere(strategy: tf.distribute.Strategy, *arguments: Any) -> Any:
            results: list[Any] = []
            # In this context a variable is its copy on the device in question, in conditional branches too.
            strategy.extended.update(
                self._anchor, lambda anchor, *own: results.append(function(*own)), args=arguments, group=False)
            return self._deal(results)

        return tf.distribute.get_replica_context().merge_call(everywhere, args=arguments)

    def local_copies(self, variable: tf.Variable) -> list[tf.Variable]:
        return list(self._strategy.experimental_local_results(variable))

    def reduce(self, tensors: Gradients, name: str = "gradients", exact: bool = False) -> Gradients:
        options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=GROUP_BYTES)
        # An argument of the function is on no device, and it is by their devices that tensors meet.
        here = tf.nest.map_structure(tf.identity, list(tensors.values()), expand_composites=True)
        sums = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here, options)
        return dict(zip(tensors, sums, strict=True))

    # A condition on what has been reduced: the sums are the same bits everywhere, so ``agree`` has nothing to do.

    def _deal(self, values: Sequence[Any]) -> Any:
        """Gives each replica of this process one of the values."""
        first = self._first
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group - first])


class _Towers(Compiled):
    """A function of all replicas at once, which takes for each argument the list of the replicas' values."""

    def __init__(self, function: Any, replicas: int) -> None:
        super().__init__(function)
        self._replicas = replicas

    def __call__(self, *arguments: Sequence[Any]) -> list[Any]:
        held = min((len(values) for values in arguments), default=self._replicas)
        # A replica without anything to do repeats the last one's work.
        full = [[*values, *[values[-1]] * (self._replicas - len(values))] for values in arguments]
        with tf.device("CPU:0"):  # batches go from the host to each device, not by way of the first one
            return list(self._function(*full))[:held]


def _create(create: Callable[..., tf.Variable], **settings: Any) -> tf.Variable:
    """Makes a variable that is not trained one that each replica may assign for itself."""
    if settings.get("trainable") is False:
        settings["synchronization"] = tf.VariableSynchronization.ON_READ
        settings["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return create(**settings)


def mirrored_strategy(devices: Sequence[str]) -> tf.distribute.Strategy:
    """Returns the strategy for some of this process's devices, like ``["GPU:0", "GPU:1"]``."""
    on_cpu = devices[0].startswith("CPU")
    return tf.distribute.MirroredStrategy(
        list(devices), cross_device_ops=tf.distribute.ReductionToOneDevice() if on_cpu else None)
