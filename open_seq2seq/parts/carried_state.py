"""State that a module carries over from one batch to the next, for truncated back-propagation through time.

A module only reads and writes its state. The code that runs the forward pass opens a scope around it; the scope
determines which values are read and whether the written values are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.stacks import Stack

_SCOPES = Stack()


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

        The state is zeros at the start of a sequence and outside of a scope; within ``put_aside``, it is the given
        value or zeros. The result is the same throughout a forward pass, even after ``write``.

        Raises:
          RuntimeError: the state has not been allocated and no scope is open, so the number of rows is unknown.
        """
        if _SCOPES.entries:
            return _SCOPES.entries[-1].read(self)
        if self.variable is None:
            raise RuntimeError("A carried state was read outside of a model's forward pass: wrap the call in "
                               "put_aside.")
        return tf.zeros(self.variable.shape[1:], self.dtype)

    def write(self, value: tf.Tensor) -> None:
        """Writes the state for the rows of the next batch.

        A row of ``value`` that contains inf or NaN is not written, so that states are always finite. Within
        ``put_aside``, while activations are recomputed, and outside of a scope, nothing is written.

        Args:
          value: ``[rows, *shape]``, cast to the state's dtype; no gradient flows through it.
        """
        if _SCOPES.entries:
            _SCOPES.entries[-1].write(self, tf.stop_gradient(tf.cast(value, self.dtype)))


class _Scope:
    """The states during one forward pass.

    Args:
      rows: number of rows in the batch.
      whole: maps the ``id`` of a state to its value for all rows of a full batch; other states are read as zeros.
      slot: the slot to write to; None discards writes.
    """

    def __init__(self, rows: Any, whole: Mapping[int, tf.Tensor], slot: Any) -> None:
        self._rows, self._whole, self._slot = rows, whole, slot

    def read(self, state: CarriedState) -> tf.Tensor:
        whole = self._whole.get(id(state))
        if whole is None:
            return tf.zeros(tf.concat([[self._rows], state.shape], 0), state.dtype)
        return whole[:self._rows]

    def write(self, state: CarriedState, value: tf.Tensor) -> None:
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

    def without_writing(self) -> _Scope:
        return _Scope(self._rows, self._whole, None)


@contextlib.contextmanager
def carrying(states: Iterable[CarriedState], rows: Any, slot: Any, fresh: Any) -> Iterator[None]:
    """Context manager within which modules read and write their states.

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
    with _entered(_Scope(rows, whole, slot)):
        yield


@contextlib.contextmanager
def put_aside(rows: Any, values: Mapping[CarriedState, tf.Tensor] | None = None) -> Iterator[None]:
    """Context manager within which modules read the given states, and writes are discarded.

    Args:
      rows: number of rows in the batch.
      values: the values by state, ``[rows or more, *shape]``; other states are zeros.
    """
    with _entered(_Scope(rows, {id(state): value for state, value in (values or {}).items()}, None)):
        yield


def carried_again() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Returns a function that reopens the current scope, to recompute a layer for its gradient.

    In the reopened scope, the same values are read as before and writes are discarded.
    """
    if not _SCOPES.entries:
        return contextlib.nullcontext
    again = _SCOPES.entries[-1].without_writing()
    return lambda: _entered(again)


@contextlib.contextmanager
def _entered(scope: _Scope) -> Iterator[None]:
    _SCOPES.entries.append(scope)
    try:
        yield
    finally:
        _SCOPES.entries.pop()
