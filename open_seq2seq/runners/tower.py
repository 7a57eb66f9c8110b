"""Several devices in one process (``MirroredStrategy``), or in several processes (``MultiWorkerMirroredStrategy``).

Each device has a replica, which is called a tower. Horovod is not needed.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.optimizers.clipping import Gradients
from open_seq2seq.runners.runner import GROUP_BYTES, Compiled, Runner, compiled_graph
from open_seq2seq.utils.console import mute
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.launcher import ClusterTask, let_others_speak

# Errors of collective operations when a process has ended, is stopped or cannot be reached.
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
# The name of another process in TensorFlow's messages.
_TASK = re.compile(r"/job:(chief|worker)/replica:0/task:(\d+)")


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


class ClusterRunner(TowerRunner):
    """The processes that ``TF_CONFIG`` lists, with their towers; see ``Runner``.

    The constructor waits for all processes and must be called before TensorFlow uses a device. Only rank 0 prints, but
    every rank prints its own errors.

    Args:
      task: this process's task in the cluster.

    Raises:
      UserError: another process ended or does not respond. All methods that communicate raise this error, too.
    """

    def __init__(self, task: ClusterTask) -> None:
        self.process_rank = task.rank
        self._task = task
        with self._naming_the_lost():
            super().__init__(tf.distribute.MultiWorkerMirroredStrategy())
        self._join = compiled_graph(self._join_first, [tf.TensorSpec([None], tf.int64)])
        if not self.is_chief:
            mute()

    def describe(self) -> list[str]:
        return [f"Processes of TF_CONFIG: {self.num_processes} ({', '.join(self._task.hosts)})", *super().describe()]

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        with self._naming_the_lost(), super().scope():
            yield

    def compile(self, function: Callable[..., Any], signature: Sequence[Any] | None = None,
                use_xla_jit: bool = False) -> Any:
        return _Guarded(super().compile(function, signature, use_xla_jit), self._naming_the_lost)

    @contextlib.contextmanager
    def _naming_the_lost(self) -> Iterator[None]:
        """Context manager that converts errors caused by the loss of another process to a UserError."""
        try:
            yield
        except tf.errors.OpError as error:
            # Other types of errors also result from a loss if their message names a "Collective" or a "collective".
            if not isinstance(error, _LOST) and "ollective" not in str(error):
                raise
            # The watchdog may know the cause. It then ends this process during the wait.
            let_others_speak(after_collective=True)
            own = self._task.rank
            ranks = [self._task.rank_of(job, int(index)) for job, index in _TASK.findall(str(error))]
            lost = next((rank for rank in ranks if rank != own and rank < len(self._task.hosts)), None)
            which = "another process of the cluster" if lost is None else (
                f"another process of the cluster, probably rank {lost} ({self._task.hosts[lost]}),")
            raise UserError(f"Stopped because {which} ended or does not respond: see its output for the cause. Start "
                            "all processes again; --continue_learning resumes from the last checkpoint.") from error

    def gather(self, results: list[Any]) -> list[Any]:
        lists = self._gather_objects(results)
        size = self.local_replicas
        longest = max(len(row) for row in lists)
        # In each round of batches, every process computes as many consecutive batches as it has replicas.
        return [result for start in range(0, longest, size) for row in lists for result in row[start:start + size]]

    def share(self, value: Any) -> Any:
        return self._gather_objects(value if self.is_chief else None)[0]

    def broadcast(self, variables: Mapping[str, tf.Variable]) -> None:
        def assign(values: Mapping[str, tf.Tensor]) -> None:
            for name, value in values.items():
                variables[name].assign(value)

        def assign_first() -> None:
            is_first = tf.equal(self.replica_rank, 0)
            values: dict[str, dict[str, tf.Tensor]] = {}
            for name, variable in variables.items():  # in the sums, replica 0 contributes its values, all others zeros
                value = variable.read_value()
                values.setdefault(value.dtype.name, {})[name] = tf.where(is_first, value, tf.zeros_like(value))
            for of_type in values.values():
                self.update(assign, self.reduce(of_type))

        self.compile(assign_first, [])()

    def _gather_objects(self, value: Any) -> list[Any]:
        """Gathers one picklable Python object from each process and returns them in rank order."""
        data = pickle.dumps(value)
        # Collective operations do not support bytes. The zeros that fill the last int64 do not disturb pickle.
        words = np.frombuffer(data + b"\0" * (-len(data) % 8), np.int64)
        sizes = self._concatenate(np.array([len(words)], np.int64))
        pieces = np.split(self._concatenate(words), np.cumsum(sizes)[:-1])
        return [pickle.loads(piece.tobytes()) for piece in pieces]

    def _concatenate(self, values: np.ndarray) -> np.ndarray:
        """Concatenates int64 values ``[n]`` of all processes in rank order; n may differ between processes."""
        with self._naming_the_lost():
            return self._join(values).numpy()

    def _join_first(self, values: tf.Tensor) -> tf.Tensor:
        # ``gather`` concatenates the values of all replicas: those of a process's first replica are the given ones, and
        # the other replicas have none.
        of_replicas = [values, *[values[:0]] * (self.local_replicas - 1)]
        return self._strategy.gather(self._deal(of_replicas), axis=0)


class _Guarded(Compiled):
    """A compiled function that is called within a context manager from ``guard``."""

    def __init__(self, function: Compiled, guard: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        super().__init__(function)
        self._guard = guard

    def __call__(self, *arguments: Sequence[Any]) -> list[Any]:
        with self._guard():
            return list(self._function(*arguments))

    @property
    def traces(self) -> int:
        return int(self._function.traces)
