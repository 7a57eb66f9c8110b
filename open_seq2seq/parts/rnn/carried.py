"""A stack of recurrent layers whose final states are the initial states for the next chunk of a text or next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from open_seq2seq.parts.carried_state import CarriedState
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import dropout, locked_dropout
from open_seq2seq.parts.rnn.layers import Direction

States = list[list[tf.Tensor]]


class LayerDropout(NamedTuple):
    """Dropout rates of one layer.

    Attributes:
      before: dropout rate of the layer's input.
      after: dropout rate of the layer's output.
    """

    before: float
    after: float


class CarriedStack(Module):
    """Recurrent layers with dropout around them, and states that may be carried over from batch to batch.

    Args:
      layers: the layers.
      rates: dropout rates of each layer.
      residual: whether layers whose input and output have the same size add the input to the output.
      locked: whether a dropout mask is the same at all steps (variational dropout).
      carry: whether states are carried over.
    """

    def __init__(self, layers: Sequence[Direction], rates: Sequence[LayerDropout], residual: bool = False,
                 locked: bool = False, carry: bool = False) -> None:
        super().__init__(name="carried_stack")
        self.layers, self._rates, self._residual = list(layers), tuple(rates), residual
        self._dropout: Callable[[tf.Tensor, float, bool], tf.Tensor] = locked_dropout if locked else dropout
        self.states: list[list[CarriedState]] = [
            [self.carried_state([size]) for size in layer.state_sizes] if carry else []
            for layer in self.layers]

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False,
                 states: States | None = None) -> tuple[tf.Tensor, tf.Tensor, States]:
        """Runs the layers over time.

        The layers start from ``states``, if given. Otherwise, with ``carry``, they start from the carried states and
        write their final states for the next batch; without ``carry``, they start from zeros.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` int32, in steps; outputs after an example's end are arbitrary.
          training: whether to apply dropout.
          states: states of each layer before the first step, ``[batch, size]`` FP32, or None.

        Returns:
          (outputs ``[time, batch, output]``; the same outputs before the last dropout; for each layer, its final states
          ``[batch, size]`` FP32, the output first).
        """
        found: States = []
        raw = x
        for number, (layer, rates) in enumerate(zip(self.layers, self._rates, strict=True)):
            first = self._first(number, tf.shape(x)[1]) if states is None else states[number]
            x = self._dropout(x, rates.before, training)
            histories = layer(x, lengths, first, training)
            found.append([last_values(history, state, lengths)
                          for history, state in zip(histories, first, strict=True)])
            raw = self._joined(x, histories[0])
            x = self._dropout(raw, rates.after, training)
            for state, value in zip(self.states[number] if states is None else [], found[-1], strict=False):
                state.write(value)
        return x, raw, found

    def _first(self, number: int, batch: tf.Tensor) -> list[tf.Tensor]:
        return [state.read() for state in self.states[number]] or self.layers[number].initial_states(batch)

    def _joined(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return x + y if self._residual and x.shape[-1] == y.shape[-1] else y

    def prepare(self, dtype: tf.DType) -> list[list[tf.Tensor]]:
        """Returns the recurrent weights of each layer in ``dtype`` for ``step``; generation calls this once."""
        return [layer.step_weights(dtype) for layer in self.layers]

    def step(self, x: tf.Tensor, states: States, weights: Sequence[Sequence[tf.Tensor]]) -> tuple[tf.Tensor, States]:
        """Computes one step without dropout.

        Args:
          x: ``[batch, input]`` in the compute dtype.
          states: states of each layer, as returned by ``__call__``.
          weights: the result of ``prepare``.

        Returns:
          (output ``[batch, output]``, the new states).
        """
        found: States = []
        for layer, before, used in zip(self.layers, states, weights, strict=True):
            new, _ = layer.step_cell().step(layer.project(x), tuple(before), used)
            found.append(list(new))
            x = self._joined(x, tf.cast(new[0], x.dtype))
        return x, found


def last_values(history: tf.Tensor, first: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns a state after the last step of each example, ``[batch, size]`` FP32.

    Args:
      history: the state after every step, ``[time, batch, size]``.
      first: the state before the first step, ``[batch, size]`` FP32, which examples without steps keep.
      lengths: ``[batch]`` int32, in steps.
    """
    rows = tf.range(tf.shape(lengths)[0])
    steps = tf.concat([tf.cast(first, tf.float32)[tf.newaxis], tf.cast(history, tf.float32)], 0)
    return tf.ensure_shape(tf.gather_nd(steps, tf.stack([lengths, rows], 1)), first.shape)
