"""The states that a model carries from batch to batch, over all replicas of a run: saved, restored, inspected."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.models.model import Model
from open_seq2seq.parts.carried_state import carrying, put_aside
from open_seq2seq.parts.component import carried_states
from open_seq2seq.runners.runner import Runner
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError


def num_rows(batch: Any) -> tf.Tensor:
    """Returns how many rows a batch has."""
    return tf.shape(batch["ids"])[0]


def carrying_in_pass(model: Model, batch: Any, fresh: Any) -> AbstractContextManager[None]:
    """Returns the context for a batch of evaluation or inference, in which the model continues from the batch before.

    Args:
      model: not the one that is trained.
      batch: tensors.
      fresh: bool ``[]``, whether its states begin as zeros.
    """
    states = carried_states(model)
    if not states:
        return contextlib.nullcontext()
    if model.mode == "interactive_infer":  # one request has nothing to do with the next
        return put_aside(num_rows(batch))
    return carrying(states.values(), num_rows(batch), 0, fresh)


def setting_aside(model: Model, batch: Any, values: Mapping[str, tf.Tensor]) -> AbstractContextManager[None]:
    """Returns the context for a training batch that is run again: what the model writes to its states is dropped.

    Args:
      model: any.
      batch: tensors.
      values: what the states are for the batch's rows ``[rows or more, …]``, by path; zeros for those left out.
    """
    states = carried_states(model)
    if not states:
        return contextlib.nullcontext()
    return put_aside(num_rows(batch), {states[name]: value for name, value in values.items()})


def carried_signature(model: Model) -> dict[str, tf.TensorSpec]:
    """Returns the specs of the states of one batch, by path."""
    return {name: tf.TensorSpec([None, *state.shape], state.dtype) for name, state in carried_states(model).items()}


class RunStates:
    """The carried states of the model that is trained, over all replicas and slots.

    Outside of a replica they are arrays ``[G, rows, …]`` by path, with G = ranks × ``iter_size`` slots. Slot s belongs
    to the micro-batches i with i mod G = s, however G is divided into ranks and ``iter_size``.

    Args:
      model: built for training.
      runner: knows the replicas.
      positions: of the contiguous plan: micro-batches of one slot in an epoch.
    """

    def __init__(self, model: Model, runner: Runner, positions: int) -> None:
        self._states, self._runner, self._positions = carried_states(model), runner, positions
        self._iter_size = model.params["iter_size"]
        self.slots = runner.world_size * self._iter_size

    def __bool__(self) -> bool:
        return bool(self._states)

    def carrying(self, micro_batch: tf.Tensor, slot: tf.Tensor, batch: Any) -> AbstractContextManager[None]:
        """Returns the context for a micro-batch of training, in a function for replicas.

        Args:
          micro_batch: int64 ``[]``, its number since the start of training, over all ranks.
          slot: int64 ``[]``, which of its replica's ``iter_size`` micro-batches it is.
          batch: tensors.
        """
        if not self._states:
            return contextlib.nullcontext()
        fresh = tf.equal(micro_batch // self.slots % self._positions, 0)
        return carrying(self._states.values(), num_rows(batch), slot, fresh)

    def gather(self) -> dict[str, np.ndarray]:
        """Returns the states of all replicas, by path; a collective operation where there are any."""
        if not self._states:
            return {}
        copies = {name: [copy.numpy() for copy in self._copies(name)] for name in self._states}
        # In the order of their batches, as ``Runner.gather`` expects.
        own = [{name: np.array(of_replica[replica][turn]) for name, of_replica in copies.items()}
               for turn in range(self._iter_size) for replica in range(self._runner.local_replicas)]
        slots = self._runner.gather(own)
        return {name: np.stack([slot[name] for slot in slots]) for name in self._states}

    def assign(self, values: Mapping[str, np.ndarray]) -> None:
        """Gives this process's replicas what ``gather`` returned; states that are not among the values are zeros."""
        first, world_size = self._runner.replica_rank, self._runner.world_size
        for name, state in self._states.items():
            for replica, copy in enumerate(self._copies(name)):
                value = values.get(name)
                copy.assign(tf.zeros(copy.shape, state.dtype) if value is None else value[first + replica::world_size])

    def assign_fitting(self, values: Mapping[str, np.ndarray]) -> None:
        """Does the same where the values belong to the same rows; otherwise the states become zeros."""
        self.assign({} if self._states and self._problem(values) else values)

    def restore(self, values: Mapping[str, np.ndarray] | None, on_other: str, micro_batch: int) -> int:
        """Takes the states from a checkpoint; a collective operation where there are any.

        Args:
          values: what ``gather`` returned, in the first process; None elsewhere.
          on_other: what to do where they belong to other rows: ``refuse`` or ``reset``.
          micro_batch: how many micro-batches had been consumed.

        Returns:
          The micro-batch to continue from: the same, or after a reset the last one before which all slots have had
          equally many.

        Raises:
          CheckpointError: they belong to other rows, and ``on_other`` is ``refuse``; on all ranks.
        """
        if not self._states:
            return micro_batch
        values = self._runner.share(values) or {}
        problem = self._problem(values)
        if problem is None:
            self.assign(values)
            return micro_batch
        if on_other == "refuse":
            raise CheckpointError(f"{problem}: resume as the run was started, or start the states anew by "
                                  "--carried_state_on_resume=reset.")
        self.assign({})
        deco_print(f"{problem}: the states start anew.")
        return micro_batch - micro_batch % self.slots

    def before(self, micro_batch: int) -> dict[str, np.ndarray]:
        """Returns the states ``[rows, …]`` of one of this process's micro-batches, by path, as they are now.

        After the step that consumed the micro-batch they are what it left, except at the beginning of an epoch, where
        they are the zeros that it began with.

        Args:
          micro_batch: its number.
        """
        turn, rank = divmod(micro_batch % self.slots, self._runner.world_size)
        replica = rank - self._runner.replica_rank
        found = {name: np.array(self._copies(name)[replica].numpy()[turn]) for name in self._states}
        if micro_batch // self.slots % self._positions:
            return found
        return {name: np.zeros_like(value) for name, value in found.items()}

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
                return (f"The checkpoint has the carried state of {there} batches an update (devices × iter_size), but "
                        f"this run has {here}")
            if tuple(of_slot) != tuple(state.variable.shape[1:]):
                return (f"The checkpoint has the carried state '{name}' as {list(of_slot)} (rows first), but this run "
                        f"has {list(state.variable.shape[1:])}")
        return None
