"""Saves, restores and inspects the states that a model carries from batch to batch, over all replicas of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.models.model import Model
from open_seq2seq.parts.carried_state import CarriedValues, carried_values, put_aside
from open_seq2seq.parts.component import carried_states
from open_seq2seq.runners.runner import Runner
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError


def num_rows(batch: Any) -> tf.Tensor:
    """Returns the number of rows in a batch."""
    return tf.shape(batch["ids"])[0]


def carried_in_pass(model: Model, batch: Any, fresh: Any) -> CarriedValues | None:
    """Returns the carried values of a batch of evaluation or inference; None if the model has no states.

    The model continues from the states that the previous batch left; in the mode ``interactive_infer``, every batch
    starts from zero states.

    Args:
      model: model for evaluation or inference.
      batch: the batch, as tensors.
      fresh: bool ``[]``, whether the carried states are set to zero before the batch.
    """
    states = carried_states(model)
    if not states:
        return None
    if model.mode == "interactive_infer":  # requests are independent of each other
        return put_aside(num_rows(batch))
    return carried_values(states.values(), num_rows(batch), 0, fresh)


def set_aside(model: Model, batch: Any, values: Mapping[str, tf.Tensor]) -> CarriedValues | None:
    """Returns the carried values of a batch that must not change the model's states; None if it has none.

    Args:
      model: the model.
      batch: the batch, as tensors.
      values: states that the batch starts from, ``[rows, …]``, by path of the state in the model; they have at least as
        many rows as the batch. Missing states are zeros.
    """
    states = carried_states(model)
    if not states:
        return None
    return put_aside(num_rows(batch), {states[name]: value for name, value in values.items()})


def carried_signature(model: Model) -> dict[str, tf.TensorSpec]:
    """Returns the tensor specs ``[rows, …]`` of the carried states for one batch, by path."""
    return {name: tf.TensorSpec([None, *state.shape], state.dtype) for name, state in carried_states(model).items()}


class RunStates:
    """The carried states of the training model, over all replicas and slots.

    An update consumes G = replicas × ``iter_size`` micro-batches, and each of them has its own slot of states.
    Micro-batch i, counted from the start of training, uses slot i mod G. The states of a checkpoint therefore fit a run
    with another number of replicas if ``iter_size`` is changed such that G stays the same.

    Args:
      model: the training model.
      runner: the run's runner.
      positions: number of micro-batches of one slot in an epoch; see ``ContiguousStream``.

    Attributes:
      slots: the number G.
    """

    def __init__(self, model: Model, runner: Runner, positions: int) -> None:
        self._states, self._runner, self._positions = carried_states(model), runner, positions
        self._iter_size = model.params["iter_size"]
        self.slots = runner.world_size * self._iter_size

    def __bool__(self) -> bool:
        return bool(self._states)

    def of(self, micro_batch: tf.Tensor, slot: tf.Tensor, batch: Any) -> CarriedValues | None:
        """Returns the carried values of a training micro-batch; called in functions that run on replicas.

        Args:
          micro_batch: int64 ``[]``, index of the micro-batch since the start of training, over all ranks.
          slot: int64 ``[]``, index of the micro-batch among the ``iter_size`` that the replica consumes in this update.
          batch: the micro-batch, as tensors.
        """
        if not self._states:
            return None
        fresh = tf.equal(micro_batch // self.slots % self._positions, 0)
        return carried_values(self._states.values(), num_rows(batch), slot, fresh)

    def gather(self) -> dict[str, np.ndarray]:
        """Returns the states of all replicas ``[slots, rows, …]``, by path of the state in the model.

        This is a collective operation if there are any states.
        """
        if not self._states:
            return {}
        copies = {name: [copy.numpy() for copy in self._copies(name)] for name in self._states}
        # ``Runner.gather`` expects the values in the order of their micro-batches: the first slot of each replica of
        # this process, then the second slot of each, and so on.
        of_process = [{name: np.array(of_replica[replica][turn]) for name, of_replica in copies.items()}
               for turn in range(self._iter_size) for replica in range(self._runner.local_replicas)]
        slots = self._runner.gather(of_process)
        return {name: np.stack([slot[name] for slot in slots]) for name in self._states}

    def assign(self, values: Mapping[str, np.ndarray]) -> None:
        """Assigns the result of ``gather`` to the replicas of this process; missing states are set to zero."""
        first, world_size = self._runner.replica_rank, self._runner.world_size
        for name, state in self._states.items():
            for replica, copy in enumerate(self._copies(name)):
                value = values.get(name)
                copy.assign(tf.zeros(copy.shape, state.dtype) if value is None else value[first + replica::world_size])

    def assign_fitting(self, values: Mapping[str, np.ndarray]) -> None:
        """Assigns the result of ``gather`` if it fits this run's slots and shapes; otherwise sets all states to 0."""
        self.assign({} if self._states and self._problem(values) else values)

    def restore(self, values: Mapping[str, np.ndarray] | None, on_other: str, micro_batch: int) -> int:
        """Restores the states from a checkpoint; a collective operation if there are any states.

        Args:
          values: result of ``gather``, in the first process; None in others.
          on_other: what to do if the values do not fit this run's slots and shapes: ``refuse`` or ``reset``.
          micro_batch: number of micro-batches consumed before the checkpoint.

        Returns:
          The micro-batch to continue with: ``micro_batch``; after a reset, rounded down to a multiple of the number of
          slots, so that all slots have consumed equally many micro-batches.

        Raises:
          CheckpointError: the values do not fit, and ``on_other`` is ``refuse``; raised on all ranks.
        """
        if not self._states:
            return micro_batch
        values = self._runner.share(values) or {}
        problem = self._problem(values)
        if problem is None:
            self.assign(values)
            return micro_batch
        if on_other == "refuse":
            raise CheckpointError(f"{problem}: resume with the settings that the run was started with, or reset the "
                                  "carried states with --carried_state_on_resume=reset.")
        self.assign({})
        deco_print(f"{problem}: the carried states are reset.")
        return micro_batch - micro_batch % self.slots

    def before(self, micro_batch: int) -> dict[str, np.ndarray]:
        """Returns the states ``[rows, …]``, by path, from which to run one of this process's micro-batches again.

        The states that the micro-batch started from are not kept. The result is therefore the current states of its
        slot, which may be those that the micro-batch has left. The first micro-batch of a slot in an epoch starts from
        zeros.

        Args:
          micro_batch: index of the micro-batch since the start of training.
        """
        turn, rank = divmod(micro_batch % self.slots, self._runner.world_size)
        replica = rank - self._runner.replica_rank
        values_before = {name: np.array(self._copies(name)[replica].numpy()[turn]) for name in self._states}
        if micro_batch // self.slots % self._positions:
            return values_before
        return {name: np.zeros_like(value) for name, value in values_before.items()}

    def _copies(self, name: str) -> list[tf.Variable]:
        variable = self._states[name].variable
        assert variable is not None
        return self._runner.local_copies(variable)

    def _problem(self, values: Mapping[str, np.ndarray]) -> str | None:
        for name, state in self._states.items():
            assert state.variable is not None
            if name not in values:
                return f"The checkpoint has no carried state '{name}'"
            (there, *of_slot), here = values[name].shape, self.slots
            if there != here:
                return (f"The checkpoint has carried states for {there} batches per update (devices × iter_size), but "
                        f"this run has {here}")
            if tuple(of_slot) != tuple(state.variable.shape[1:]):
                return (f"The carried state '{name}' has the shape {list(of_slot)} in the checkpoint (rows first), but "
                        f"{list(state.variable.shape[1:])} in this run")
        return None
