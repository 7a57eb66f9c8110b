"""State that a module carries over from one batch to the next, for truncated back-propagation through time.

A module only reads and writes its state. The code that runs a forward pass gives it ``CarriedValues``, which determine
which values are read and whether the written values are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass


class CarriedState(tf.Module):
    """State that each row of a batch passes on to the same row of the next batch, which continues its sequence.

    Unlike weights and statistics, the state has no gradient, is never averaged, and is not shared with the evaluation
    model. Each replica has a separate copy, called slot, for each micro-batch of an update. The state is created by
    ``Module.carried_state`` and allocated by the model's builder.

    Args:
      shape: shape of one row's state.
      dtype: float32, an integer dtype or bool.

    Attributes:
      shape: shape of one row's state.
      dtype: dtype of the state.
      variable: ``[slots, rows, *shape]``, initially zeros; None before ``allocate``.

    Raises:
      ValueError: the dtype is a floating-point one other than float32.
    """

    def __init__(self, shape: Sequence[int], dtype: tf.DType = tf.float32) -> None:
        super().__init__()
        self.shape, self.dtype = tf.TensorShape(shape), tf.as_dtype(dtype)
        if self.dtype.is_floating and self.dtype != tf.float32:
            raise ValueError(f"A carried state must not have the dtype {self.dtype.name}: use float32 and cast the "
                             "values that you read.")
        self.variable: tf.Variable | None = None

    def allocate(self, slots: int, rows: int) -> None:
        """Creates ``variable``.

        Args:
          slots: number of micro-batches that a replica computes per update.
          rows: number of rows in a full batch.
        """
        self.variable = tf.Variable(tf.zeros([slots, rows, *self.shape], self.dtype), trainable=False)

    def read(self) -> tf.Tensor:
        """Returns the state that the previous batch wrote for each row, ``[rows, *shape]``.

        The state is zeros at the start of a sequence and in a pass without carried values; with those of
        ``put_aside``, it is the given value or zeros. The result is the same throughout a forward pass, even after
        ``write``.

        Raises:
          RuntimeError: the state has not been allocated and the pass has no carried values, so the number of rows is
            unknown.
        """
        carried = current_pass().carried
        if carried is not None:
            return carried.read(self)
        if self.variable is None:
            raise RuntimeError("A carried state was read outside of a model's forward pass: wrap the call in "
                               "forward_pass(carried=put_aside(rows)).")
        return tf.zeros(self.variable.shape[1:], self.dtype)

    def write(self, value: tf.Tensor) -> None:
        """Writes the state for the rows of the next batch.

        A row of ``value`` that contains inf or NaN is not written, so that states are always finite. With the values of
        ``put_aside``, while activations are recomputed, and in a pass without carried values, nothing is written.

        Args:
          value: ``[rows, *shape]``, cast to the state's dtype; no gradient flows through it.
        """
        carried = current_pass().carried
        if carried is not None:
            carried.write(self, tf.stop_gradient(tf.cast(value, self.dtype)))


class CarriedValues:
    """The states during one forward pass.

    Args:
      rows: number of rows in the batch.
      whole: maps the ``id`` of a state to its value for all rows of a full batch; other states are read as zeros.
      slot: the slot to write to; None discards writes.
    """

    def __init__(self, rows: Any, whole: Mapping[int, tf.Tensor], slot: Any) -> None:
        self._rows, self._whole, self._slot = rows, whole, slot

    def read(self, state: CarriedState) -> tf.Tensor:
        """Returns the value of a state for the rows of the batch, ``[rows, *shape]``."""
        whole = self._whole.get(id(state))
        if whole is None:
            return tf.zeros(tf.concat([[self._rows], state.shape], 0), state.dtype)
        return whole[:self._rows]

    def write(self, state: CarriedState, value: tf.Tensor) -> None:
        """Assigns a state's value ``[rows, *shape]`` for the next batch, unless writes are discarded."""
        value = tf.ensure_shape(value, [None, *state.shape])
        if self._slot is None or state.variable is None:
            return
        whole, variable = self._whole[id(state)], state.variable
        if state.dtype.is_floating:
            finite = tf.reduce_all(tf.math.is_finite(value), axis=list(range(1, value.shape.rank)), keepdims=True)
            value = tf.where(finite, value, whole[:self._rows])
        full = tf.concat([value, whole[self._rows:]], 0)[tf.newaxis]
        if variable.shape[0] > 1:
            full = tf.tensor_scatter_nd_update(variable.read_value(), [[self._slot]], full)
        variable.assign(tf.ensure_shape(full, variable.shape))

    def without_writing(self) -> CarriedValues:
        """Returns the same values to read; writes are discarded."""
        return CarriedValues(self._rows, self._whole, None)


def carried_values(states: Iterable[CarriedState], rows: Any, slot: Any, fresh: Any) -> CarriedValues:
    """Returns the values with which a forward pass reads and writes the states.

    Args:
      states: all states of the model; must be allocated.
      rows: number of rows in the batch. If it is less than that of a full batch, the states of the remaining rows do
        not change or, with ``fresh``, become zeros.
      slot: integer scalar, the slot of the states to use.
      fresh: bool scalar, whether the states start from zeros.
    """
    whole = {}
    for state in states:
        assert state.variable is not None
        before = tf.gather(state.variable.read_value(), slot)
        whole[id(state)] = tf.where(fresh, tf.zeros_like(before), before)
    return CarriedValues(rows, whole, slot)


def put_aside(rows: Any, values: Mapping[CarriedState, tf.Tensor] | None = None) -> CarriedValues:
    """Returns values with which a forward pass reads the given states, and discards writes.

    Args:
      rows: number of rows in the batch.
      values: the values by state, ``[rows or more, *shape]``; other states are zeros.
    """
    return CarriedValues(rows, {id(state): value for state, value in (values or {}).items()}, None)
