"""State that a part carries over from one batch to the next, as truncated back-propagation does.

Which state a forward pass goes on from, and whether it starts anew, is decided by what runs the
pass: it opens a scope around it. A part only reads and writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.stacks import Stack

_SCOPES = Stack()


class CarriedState(tf.Module):
    """What rows of one batch leave to the rows of the batch that continues them.

    It is neither a weight nor a statistic: each replica has its own, for each micro-batch of an update one,
    of the batch's size; no gradient flows through it, it is never averaged and the evaluation model has another one.
    Made by ``Module.carried_state``; the builder allocates it.

    Args:
      shape: of one row's state.
      dtype: float32, an integer type or bool.

    Attributes:
      shape: of one row's state.
      dtype: of the state.
      variable: ``[slots, rows, *shape]``, zeros at first; None before ``allocate``.

    Raises:
      ValueError: a half-precision type: states are FP32, as weights are.
    """

    def __init__(self, shape: Sequence[int], dtype: tf.DType = tf.float32) -> None:
        super().__init__()
        self.shape, self.dtype = tf.TensorShape(shape), tf.as_dtype(dtype)
        if self.dtype.is_floating and self.dtype != tf.float32:
            raise ValueError(f"A carried state of type {self.dtype.name} was asked for: make it float32 and cast what "
                             "it gives.")
        self.variable: tf.Variable | None = None

    def allocate(self, slots: int, rows: int) -> None:
        """Makes the variable, under the names of nothing: it is no weight.

        Args:
          slots: micro-batches of an update on one replica, each of which goes on from a state of its own.
        """
        self.variable = tf.Variable(tf.zeros([slots, rows, *self.shape], self.dtype), trainable=False)

    def read(self) -> tf.Tensor:
        """Returns what the batch before left for each row of this batch ``[rows, *shape]``.

        It is zeros where nothing came before. It is the same however often it is read in a forward pass,
        whatever is written in between.

        Raises:
          RuntimeError: outside of any pass, for a part that is in no model: the number of rows is unknown.
        """
        if _SCOPES.entries:
            return _SCOPES.entries[-1].read(self)
        if self.variable is None:
            raise RuntimeError("A carried state was read outside of a model's passes: wrap the call in put_aside.")
        return tf.zeros(self.variable.shape[1:], self.dtype)

    def write(self, value: tf.Tensor) -> None:
        """Leaves a value for the rows that continue this batch.

        A row whose value holds inf or NaN keeps the state that it had, so that no state is ever other than finite.
        Nothing is written where a batch is only run again, to be looked at.

        Args:
          value: ``[rows, *shape]``, cast to the state's type; no gradient flows through it.
        """
        if _SCOPES.entries:
            _SCOPES.entries[-1].write(self, tf.stop_gradient(tf.cast(value, self.dtype)))


class _Scope:
    """What the states of one pass are.

    Args:
      whole: by the state's identity, what it is for all rows of a full batch.
      slot: where writes go; None drops them.
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
    """Within this context parts go on from their states, and what they write is kept.

    Args:
      rows: how many rows the batch has; where it has fewer than the model's batch size, the states of the others stay.
      slot: scalar, which of the states.
      fresh: bool scalar, whether the states start anew, from zeros.
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
    """Within this context a batch is run without regard to the states: what is written is dropped.

    Args:
      rows: how many rows the batch has.
      values: what is read instead, ``[rows or more, *shape]`` by state; zeros for those left out.
    """
    with _entered(_Scope(rows, {id(state): value for state, value in (values or {}).items()}, None)):
        yield


def carried_again() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Returns what opens the present scope a second time, where a layer is computed again for its gradient.

    What is read is the same, though it has been written to meanwhile; nothing is written.
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
