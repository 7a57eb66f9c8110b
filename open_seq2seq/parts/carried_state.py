"""State that a part carries over from one batch to the next, for truncated back-propagation.

A part only reads and writes its state. The code that runs a forward pass opens a scope around it, which determines the
initial states and whether they are zeros.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.stacks import Stack

_SCOPES = Stack()


class CarriedState(tf.Module):
    """State that the rows of one batch pass to the rows of the batch that continues them.

    It is neither a weight nor a statistic: each replica has one for each micro-batch of an update, with the rows of the
    batch. It has no gradient, is never averaged, and is not shared with the evaluation model. It is made by
    ``Module.carried_state`` and allocated by the builder.

    Args:
      shape: of one row's state.
      dtype: float32, an integer type or bool.

    Attributes:
      shape: of one row's state.
      dtype: of the state.
      variable: ``[slots, rows, *shape]``, initially zeros; None before ``allocate``.

    Raises:
      ValueError: a half-precision type.
    """

    def __init__(self, shape: Sequence[int], dtype: tf.DType = tf.float32) -> None:
        super().__init__()
        self.shape, self.dtype = tf.TensorShape(shape), tf.as_dtype(dtype)
        if self.dtype.is_floating and self.dtype != tf.float32:
            raise ValueError(f"A carried state of type {self.dtype.name} was asked for: make it float32 and cast what "
                             "it gives.")
        self.variable: tf.Variable | None = None

    def allocate(self, slots: int, rows: int) -> None:
        """Makes the variable for batches of ``rows`` rows; each micro-batch of an update on a replica has a slot."""
        self.variable = tf.Variable(tf.zeros([slots, rows, *self.shape], self.dtype), trainable=False)

    def read(self) -> tf.Tensor:
        """Returns the state that the previous batch wrote for each row ``[rows, *shape]``, or zeros at the start.

        It does not change within a forward pass, even after ``write``.

        Raises:
          RuntimeError: the part is not in a model, and outside ``put_aside``: the number of rows is unknown.
        """
        if _SCOPES.entries:
            return _SCOPES.entries[-1].read(self)
        if self.variable is None:
            raise RuntimeError("A carried state was read outside of a model's passes: wrap the call in put_aside.")
        return tf.zeros(self.variable.shape[1:], self.dtype)

    def write(self, value: tf.Tensor) -> None:
        """Writes the state for the rows of the next batch.

        Rows with inf or NaN keep their old state, so that states are always finite. Nothing is written while a batch
        is computed again.

        Args:
          value: ``[rows, *shape]``, cast to the state's type; no gradient flows through it.
        """
        if _SCOPES.entries:
            _SCOPES.entries[-1].write(self, tf.stop_gradient(tf.cast(value, self.dtype)))


class _Scope:
    """The states of one pass.

    Args:
      rows: number of rows of the batch.
      whole: id of a state → its value for all rows of a full batch.
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
    """Within this context parts read their states, and writes are kept.

    Args:
      states: all states of the model, allocated.
      rows: number of rows of the batch; the states of further rows do not change.
      slot: integer scalar.
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
    """Within this context parts read given states, and writes are discarded.

    Args:
      rows: number of rows of the batch.
      values: by state ``[rows or more, *shape]``; zeros for others.
    """
    with _entered(_Scope(rows, {id(state): value for state, value in (values or {}).items()}, None)):
        yield


def carried_again() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Returns a function that opens the current scope again, to compute a layer a second time for its gradient.

    It reads the same values as before, and discards writes.
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
