"""The loop of recurrent layers whose input contains the context of the previous step, with a custom gradient.

The loop contains only what depends on the previous step. For the backward pass, it keeps the gates, states, contexts
and attention weights of each step. The sums inside additive attention are recomputed instead, because they are as large
as the source for each step. The gradient of each weight matrix is one product over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.dense import sum_over_rows, times_matrix
from open_seq2seq.parts.rnn.attention import (
    additive_gradient,
    dynamic_scores,
    location_sums,
    location_windows,
    masked_softmax,
    monotonic_weights,
)
from open_seq2seq.parts.rnn.cells import Cell, product, transposed
from open_seq2seq.parts.rnn.recurrence import as_rows, step_array, turns


class FedLayer(NamedTuple):
    """A layer of the loop.

    Attributes:
      cell: the cell type.
      residual: whether to add the input to the output; always False for the first layer.
      keep_input: dropout factors of the input (for the first layer, of the context), ``[time, batch, channels]``, or
        None.
      keep_output: dropout factors of the output, ``[time, batch, output]``, or None.
      masks: further columns that the cell expects after the projected input, ``[time, batch, columns]``, or None.
    """

    cell: Cell
    residual: bool
    keep_input: tf.Tensor | None
    keep_output: tf.Tensor | None
    masks: tf.Tensor | None


class FedWeights(NamedTuple):
    """All tensors that get gradients; matrices are in the compute dtype, vectors in FP32.

    Attributes:
      x: the projected input of the first layer without the context, ``[time, batch, columns]``.
      keys: ``[batch, source, units]``.
      values: ``[batch, source, memory_size]``.
      attention: for additive attention, the query's matrix ``[output, units]``, its bias and the score vector
        ``[units]``; otherwise empty.
      kernels: for each layer, the matrix of its input, ``[input, columns]``; for the first layer, only the rows for the
        context.
      biases: for each layer except the first, the bias ``[columns]``; ``x`` includes the bias of the first layer.
      cells: for each layer, the weights of its cell.
      states: for each layer, the initial states of its cell, ``[batch, size]`` FP32, the output first.
      score_bias: for monotonic attention, a number that is added to all scores, ``[]`` FP32; otherwise empty.
      location: for location-sensitive attention, the filters of the location term, ``[taps, units]``; otherwise empty.
      dynamic: for dynamic convolution attention, FP32: the static filters ``[taps, units]``, the matrix that computes
        filters ``[units, taps · filters]``, the matrix after these ``[filters, units]``, and the bias ``[units]``;
        otherwise empty.
    """

    x: tf.Tensor
    keys: tf.Tensor
    values: tf.Tensor
    attention: tuple[tf.Tensor, ...]
    kernels: tuple[tf.Tensor, ...]
    biases: tuple[tf.Tensor, ...]
    cells: tuple[tuple[tf.Tensor, ...], ...]
    states: tuple[tuple[tf.Tensor, ...], ...]
    score_bias: tuple[tf.Tensor, ...]
    location: tuple[tf.Tensor, ...] = ()
    dynamic: tuple[tf.Tensor, ...] = ()


class _Trace(NamedTuple):
    """Tensors that the forward pass keeps for the backward pass.

    Attributes:
      states: for each layer, the values of its states before the first step and after each step,
        ``[time + 1, batch, size]``.
      saved: for each layer, the tensors that its cell saves, ``[time, batch, …]``.
      contexts: the contexts before the first step and of each step, ``[time + 1, batch, memory_size]``.
      weights: attention weights ``[time, batch, source]`` FP32.
    """

    states: Any
    saved: Any
    contexts: Any
    weights: Any


def fed_recurrence(layers: Sequence[FedLayer], weights: FedWeights, mask: tf.Tensor,
                   noise: tf.Tensor | None = None,
                   through_weights: bool = False) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs the layers over time; the first context is zeros.

    Args:
      layers: the layers; the output of the last is the query.
      weights: the weights, the projected input and the source.
      mask: boolean ``[batch, source]``, False at padding.
      noise: noise to add to the scores of monotonic attention, ``[time, batch, source]`` FP32, or None.
      through_weights: whether gradients also flow through the returned attention weights, for losses that depend on
        them; not for monotonic attention.

    Returns:
      (outputs of the last layer ``[time, batch, output]`` and contexts ``[time, batch, memory_size]`` in the compute
      dtype; attention weights ``[time, batch, source]`` FP32).
    """
    loop = _Loop(layers, mask, noise)

    @tf.custom_gradient
    def run(*flat: tf.Tensor) -> Any:
        fed = tf.nest.pack_sequence_as(weights, flat)
        trace = loop.forward(fed)
        outputs = loop.inputs_and_outputs(trace)[1][-1]

        def grad(d_outputs: tf.Tensor, d_contexts: tf.Tensor, d_weights: tf.Tensor) -> list[tf.Tensor]:
            given = d_weights if through_weights else None
            return tf.nest.flatten(loop.backward(fed, trace, d_outputs, d_contexts, given))

        attention = trace.weights if through_weights else tf.stop_gradient(trace.weights)
        return (outputs, trace.contexts[1:], attention), grad

    return run(*tf.nest.flatten(weights))


def fed_step(layers: Sequence[FedLayer], weights: FedWeights, mask: tf.Tensor, states: Any, context: tf.Tensor,
             before: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs one step of ``fed_recurrence``, for searches whose inputs depend on the previous outputs.

    Args:
      layers: the layers, without dropout.
      weights: the weights; ``x`` contains one step, ``[1, batch, columns]``, and ``states`` are not used.
      mask: boolean ``[batch, source]``, False at positions that must not be attended to.
      states: for each layer, the states of its cell before the step, ``[batch, size]`` FP32 each.
      context: the context of the previous step, ``[batch, memory_size]``; zeros at first.
      before: the fifth result of the previous step, ``[batch, source]`` FP32; at first, ``first_weights``.

    Returns:
      (new states; output ``[batch, output]``; context; attention weights ``[batch, source]`` FP32; what the attention
      of the next step needs to know about the weights so far, ``[batch, source]`` FP32).
    """
    loop = _Loop(layers, mask, None)
    new, _, output = loop.advance(weights, tf.constant(0), states, context)
    context, attention = loop.attend(weights, output, before, tf.constant(0))
    return new, output, context, attention, loop.carried(weights, before, attention)


def first_weights(fed: FedWeights) -> tf.Tensor:
    """Returns what the first step needs to know about attention weights so far, ``[batch, source]`` FP32.

    This is 1 at the first position of the source, else 0; for location-sensitive attention, it is 0 everywhere.
    """
    if fed.location:
        return tf.zeros(tf.shape(fed.keys)[:2])
    return tf.one_hot(tf.zeros([tf.shape(fed.keys)[0]], tf.int32), tf.shape(fed.keys)[1])


def _times(x: tf.Tensor, factors: tf.Tensor | None) -> tf.Tensor:
    return x if factors is None else x * tf.cast(factors, x.dtype)


def _at(factors: tf.Tensor | None, step: tf.Tensor) -> tf.Tensor | None:
    return None if factors is None else factors[step]


class _Loop:
    """Forward and backward pass of ``fed_recurrence``."""

    def __init__(self, layers: Sequence[FedLayer], mask: tf.Tensor, noise: tf.Tensor | None) -> None:
        self.layers, self.mask, self._noise = layers, mask, noise

    def forward(self, fed: FedWeights) -> _Trace:
        """Runs the loop over time; returns the tensors that the backward pass needs."""
        steps, batch, dtype = tf.shape(fed.x)[0], tf.shape(fed.x)[1], fed.x.dtype
        rows, size = fed.x.shape[1], fed.values.shape[-1]
        histories, saved = [], []
        for layer, states in zip(self.layers, fed.states, strict=True):
            types = (dtype, tf.float32)[:layer.cell.num_states]
            histories.append(tuple(step_array(kind, steps + 1, [rows, state.shape[-1]]).write(0, tf.cast(state, kind))
                                   for kind, state in zip(types, states, strict=True)))
            saved.append(tuple(step_array(tf.float32 if wide else dtype, steps, [rows, columns])
                               for columns, wide in layer.cell.saved_sizes([state.shape[-1] for state in states])))
        context = tf.zeros([batch, size], dtype)
        arrays = _Trace(tuple(histories), tuple(saved), step_array(dtype, steps + 1, [rows, size]).write(0, context),
                        step_array(tf.float32, steps, [rows, None]))

        def body(step: tf.Tensor, carried: Any) -> Any:
            states, context, before, arrays = carried
            new, step_saved, query = self.advance(fed, step, states, context)
            context, weights = self.attend(fed, query, before, step)
            histories = tuple(tuple(array.write(step + 1, tf.cast(state, array.dtype))
                                    for array, state in zip(history, now, strict=True))
                              for history, now in zip(arrays.states, new, strict=True))
            saved = tuple(tuple(array.write(step, value) for array, value in zip(old, now, strict=True))
                          for old, now in zip(arrays.saved, step_saved, strict=True))
            arrays = _Trace(histories, saved, arrays.contexts.write(step + 1, context),
                            arrays.weights.write(step, weights))
            return new, context, self.carried(fed, before, weights), arrays

        *_, arrays = turns(steps, body, (fed.states, context, first_weights(fed), arrays))
        return _Trace(*(tf.nest.map_structure(lambda array: array.stack(), part) for part in arrays))

    def advance(self, fed: FedWeights, step: tf.Tensor, states: Any, context: tf.Tensor) -> Any:
        """Computes the layers for one step; returns (new states, saved tensors, query ``[batch, output]``)."""
        new, all_saved, dtype = [], [], fed.x.dtype
        y = context
        for number, layer in enumerate(self.layers):
            x = _times(y, _at(layer.keep_input, step))
            z = tf.matmul(x, fed.kernels[number])
            z += fed.x[step] if number == 0 else tf.cast(fed.biases[number - 1], dtype)
            z = z if layer.masks is None else tf.concat([z, layer.masks[step]], -1)
            after, saved = layer.cell.step(z, states[number], fed.cells[number])
            y = tf.cast(after[0], dtype)
            y = _times(y + x if layer.residual else y, _at(layer.keep_output, step))
            new.append(after)
            all_saved.append(saved)
        return tuple(new), tuple(all_saved), y

    @staticmethod
    def carried(fed: FedWeights, before: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Returns the weights of a step or, for location-sensitive attention, the sum of all weights so far."""
        return before + weights if fed.location else weights

    def attend(self, fed: FedWeights, query: tf.Tensor, before: tf.Tensor,
               step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (context ``[batch, memory_size]``, attention weights ``[batch, source]`` FP32) of one step."""
        query = self._projected(fed, query)
        if fed.dynamic:
            scores = dynamic_scores(query, before, fed.attention[2], fed.dynamic)
        elif fed.attention:
            inside = self.squashed(fed, query, before)
            scores = times_matrix(inside, tf.cast(fed.attention[2], query.dtype)[:, tf.newaxis])[..., 0]
        else:
            scores = tf.matmul(fed.keys, query[:, :, tf.newaxis])[..., 0]
        if fed.score_bias:
            weights = monotonic_weights(self.shifted(fed, tf.cast(scores, tf.float32), step), before, self.mask)
        else:
            weights = masked_softmax(tf.cast(scores, tf.float32), self.mask)
        context = tf.matmul(tf.cast(weights, query.dtype)[:, tf.newaxis], fed.values)[:, 0]
        return context, weights

    @staticmethod
    def squashed(fed: FedWeights, query: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        """Returns the tanh inside additive scores, ``[batch, source, units]``, for projected queries."""
        inside = query[:, tf.newaxis] + fed.keys
        if fed.location:
            (filters,) = fed.location
            inside += times_matrix(tf.cast(location_windows(before, filters.shape[0]), filters.dtype), filters)
        return tf.tanh(inside)

    def shifted(self, fed: FedWeights, scores: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Returns the scores ``[batch, source]`` FP32 of monotonic attention, with bias and noise."""
        scores += fed.score_bias[0]
        return scores if self._noise is None else scores + self._noise[step]

    @staticmethod
    def _projected(fed: FedWeights, queries: tf.Tensor) -> tf.Tensor:
        if not fed.attention:
            return queries
        kernel, bias, _ = fed.attention
        return times_matrix(queries, kernel) + tf.cast(bias, queries.dtype)

    def inputs_and_outputs(self, trace: _Trace) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Returns (inputs of each layer, outputs of each layer) ``[time, batch, channels]``, both after dropout."""
        inputs, outputs = [], []
        y = trace.contexts[:-1]
        for layer, history in zip(self.layers, trace.states, strict=True):
            inputs.append(_times(y, layer.keep_input))
            y = history[0][1:]
            outputs.append(_times(y + inputs[-1] if layer.residual else y, layer.keep_output))
            y = outputs[-1]
        return inputs, outputs

    def backward(self, fed: FedWeights, trace: _Trace, d_outputs: tf.Tensor, d_contexts: tf.Tensor,
                 d_attention: tf.Tensor | None) -> FedWeights:
        """Returns the gradients of the tensors ``fed``.

        ``d_outputs``, ``d_contexts`` and ``d_attention`` are the gradients of the results; the last is None if the
        attention weights have none.
        """
        inputs, outputs = self.inputs_and_outputs(trace)
        queries = self._projected(fed, outputs[-1])
        d_states, grads = _Backward(self, fed, trace, queries, d_outputs, d_contexts, d_attention).run()
        weights = tf.transpose(tf.cast(trace.weights, fed.x.dtype), [1, 2, 0])
        d_values = tf.matmul(weights, tf.transpose(grads.contexts, [1, 0, 2]))
        d_keys = tf.cast(grads.keys, fed.x.dtype)
        attention: tuple[tf.Tensor, ...] = ()
        if fed.attention:
            flat = as_rows(grads.queries)
            attention = (tf.matmul(as_rows(outputs[-1]), flat, transpose_a=True), sum_over_rows(flat), grads.vector)
        else:
            d_keys = tf.matmul(tf.transpose(grads.scores, [1, 2, 0]), tf.transpose(queries, [1, 0, 2]))
        sums = [dz[..., :kernel.shape[1]] for dz, kernel in zip(grads.sums, fed.kernels, strict=True)]
        kernels = tuple(tf.matmul(as_rows(x), as_rows(dz), transpose_a=True)
                        for x, dz in zip(inputs, sums, strict=True))
        cells = []
        for number, layer in enumerate(self.layers):
            cells.append((*layer.cell.weight_gradients(
                as_rows(trace.states[number][0][:-1]), as_rows(grads.sums[number]),
                tuple(as_rows(rows) for rows in grads.rows[number]),
                tuple(as_rows(saved) for saved in trace.saved[number])), *grads.vectors[number]))
        return FedWeights(sums[0], d_keys, d_values, attention, kernels,
                          tuple(sum_over_rows(as_rows(dz)) for dz in sums[1:]), tuple(cells), d_states,
                          grads.score_bias, tuple(tf.cast(d, fed.x.dtype) for d in grads.location), grads.dynamic)


class _Gradients(NamedTuple):
    """Gradients that the backward loop computes.

    Attributes:
      sums: for each layer, gradients of the sums inside the gates, followed by zeros for the cell's masks, if any,
        ``[time, batch, columns]``.
      rows: for each layer, the ``rows`` of ``cells.StepGradient``.
      contexts: gradients of the contexts, ``[time, batch, memory_size]``.
      queries: gradients of the projected queries, ``[time, batch, units]``.
      scores: gradients of the scores, ``[time, batch, source]``.
      keys: for additive attention, the gradient of the keys, ``[batch, source, units]`` FP32.
      vector: for additive attention, the gradient of the score vector, ``[units]`` FP32.
      vectors: for each layer, the ``sums`` of ``cells.StepGradient``, summed over the steps.
      score_bias: for monotonic attention, the gradient of the bias of the scores, ``[]`` FP32; otherwise empty.
      location: for location-sensitive attention, the gradient of the filters, ``[taps, units]`` FP32; otherwise empty.
      dynamic: for dynamic convolution attention, the gradients of its weights; otherwise empty.
    """

    sums: Any
    rows: Any
    contexts: Any
    queries: Any
    scores: Any
    keys: Any
    vector: Any
    vectors: Any
    score_bias: Any
    location: Any
    dynamic: Any


class _Backward:
    """The loop of the backward pass."""

    def __init__(self, loop: _Loop, fed: FedWeights, trace: _Trace, queries: tf.Tensor, d_outputs: tf.Tensor,
                 d_contexts: tf.Tensor, d_attention: tf.Tensor | None) -> None:
        self.d_attention = d_attention
        self.loop, self.fed, self.trace, self.queries = loop, fed, trace, queries
        self.d_outputs, self.d_contexts, self.first = d_outputs, d_contexts, first_weights(fed)
        # For location-sensitive attention, the sum of the weights before each step.
        self.coverage = tf.cumsum(trace.weights, exclusive=True) if fed.location else None
        self.cells = [transposed(weights) for weights in fed.cells]
        self.kernels, self.attention = transposed(fed.kernels), transposed(fed.attention)

    def run(self) -> tuple[Any, _Gradients]:
        """Returns the gradients of the initial states, and all other gradients."""
        steps = tf.shape(self.fed.x)[0]

        def body(turn: tf.Tensor, carried: Any) -> Any:
            return self._step(steps - 1 - turn, *carried)

        d_states = tf.nest.map_structure(tf.zeros_like, self.fed.states)
        d_context = tf.zeros(tf.shape(self.trace.contexts[0]), tf.float32)
        # Only with monotonic or location-sensitive attention do the weights of a step affect later ones.
        affected = self.fed.score_bias or self.fed.location or self.fed.dynamic
        d_weights = tf.zeros_like(self.first) if affected else tf.zeros([0])
        d_states, *_, grads = turns(steps, body, (d_states, d_context, d_weights, self._nothing(steps)))
        stacked = (tf.nest.map_structure(lambda array: array.stack(), part) for part in grads[:5])
        return d_states, _Gradients(*stacked, *grads[5:])

    def _nothing(self, steps: tf.Tensor) -> _Gradients:
        """Returns initial values: an empty array for gradients of single steps, zeros for gradients of all steps."""
        fed, dtype, rows = self.fed, self.fed.x.dtype, self.fed.x.shape[1]
        sums, by_row, vectors = [], [], []
        for layer, weights, states, kernel in zip(self.loop.layers, fed.cells, fed.states, fed.kernels,
                                                  strict=True):
            columns = kernel.shape[1] + (0 if layer.masks is None else layer.masks.shape[-1])
            sums.append(step_array(dtype, steps, [rows, columns]))
            by_row.append(tuple(step_array(dtype, steps, [rows, states[0].shape[-1]])
                                for _ in range(layer.cell.num_rows)))
            vectors.append(tuple(tf.zeros_like(weight) for weight in weights[len(weights) - layer.cell.num_sums:]))
        units = fed.attention[0].shape[-1] if fed.attention else fed.keys.shape[-1]
        return _Gradients(tuple(sums), tuple(by_row), step_array(dtype, steps, [rows, fed.values.shape[-1]]),
                          step_array(dtype, steps, [rows, units]), step_array(dtype, steps, [rows, None]),
                          tf.zeros(tf.shape(fed.keys) if fed.attention else [0, 0, 0]),
                          tf.zeros([units if fed.attention else 0]), tuple(vectors),
                          tuple(tf.zeros([]) for _ in fed.score_bias),
                          tuple(tf.zeros(filters.shape) for filters in fed.location),
                          tuple(tf.zeros(weight.shape) for weight in fed.dynamic))

    def _step(self, step: tf.Tensor, d_states: Any, d_context: tf.Tensor, d_weights: tf.Tensor,
              grads: _Gradients) -> Any:
        dtype = self.fed.x.dtype
        d_context = d_context + tf.cast(self.d_contexts[step], tf.float32)
        d_scores, d_weights = self._through_weights(step, tf.cast(d_context, dtype), d_weights)
        grads = grads._replace(score_bias=tuple(bias + tf.reduce_sum(d_scores) for bias in grads.score_bias))
        d_scores = tf.cast(d_scores, dtype)
        if self.fed.dynamic:
            d_query, d_weights, d_vector, *dynamic = self._through_dynamic(step, d_scores)
            d_keys = tf.zeros_like(grads.keys)
            grads = grads._replace(dynamic=tuple(a + b for a, b in zip(grads.dynamic, dynamic, strict=True)))
        else:
            d_query, d_keys, d_vector = self._through_scores(step, d_scores)
        if self.fed.location:
            d_weights, d_filters = self._through_location(step, d_keys, d_weights)
            grads = grads._replace(location=(grads.location[0] + d_filters,))
        grads = grads._replace(contexts=grads.contexts.write(step, tf.cast(d_context, dtype)),
                               queries=grads.queries.write(step, d_query), scores=grads.scores.write(step, d_scores))
        dy = tf.cast(self.d_outputs[step], tf.float32)
        if self.fed.attention:
            grads = grads._replace(keys=grads.keys + d_keys, vector=grads.vector + d_vector)
            dy += product(d_query, self.attention[0])
        else:
            dy += tf.cast(d_query, tf.float32)
        d_states, d_context, grads = self._through_layers(step, dy, d_states, grads)
        return d_states, d_context, d_weights, grads

    def _through_weights(self, step: tf.Tensor, d_context: tf.Tensor,
                         d_weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the gradients of the scores and of the attention weights of the previous step.

        Both are ``[batch, source]`` FP32. Unless the attention is monotonic, the second is returned unchanged; for
        location-sensitive attention, it is the gradient of the sum of the weights of all steps so far.
        """
        fed = self.fed
        by_context = tf.cast(tf.matmul(fed.values, d_context[:, :, tf.newaxis])[..., 0], tf.float32)
        if not fed.score_bias:
            weights = self.trace.weights[step]
            by_context += d_weights if fed.location or fed.dynamic else 0.0
            by_context += 0.0 if self.d_attention is None else self.d_attention[step]
            return weights * (by_context - tf.reduce_sum(weights * by_context, -1, keepdims=True)), d_weights
        before = self._weights_before(step)
        scores = self.loop.shifted(fed, self._scores(step), step)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([scores, before])
            weights = monotonic_weights(scores, before, self.loop.mask)
        d_scores, d_before = tape.gradient(weights, [scores, before], by_context + d_weights)
        return d_scores, d_before

    def _weights_before(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the attention weights of the previous step, ``[batch, source]`` FP32."""
        before = tf.cond(step > 0, lambda: self.trace.weights[step - 1], lambda: self.first)
        return tf.ensure_shape(before, self.first.shape)

    def _through_dynamic(self, step: tf.Tensor, d_scores: tf.Tensor) -> Any:
        """Returns the gradients of the projected query, the previous weights, the score vector and ``dynamic``."""
        query, before, vector = self.queries[step], self._weights_before(step), self.fed.attention[2]
        inputs = [query, before, vector, *self.fed.dynamic]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs)
            scores = dynamic_scores(query, before, vector, self.fed.dynamic)
        return tape.gradient(scores, inputs, tf.cast(d_scores, tf.float32))

    def _scores(self, step: tf.Tensor) -> tf.Tensor:
        """Recomputes the scores of a step, ``[batch, source]`` FP32."""
        fed, query = self.fed, self.queries[step]
        if not fed.attention:
            return tf.cast(tf.matmul(fed.keys, query[:, :, tf.newaxis])[..., 0], tf.float32)
        column = tf.cast(fed.attention[2], query.dtype)[:, tf.newaxis]
        return tf.cast(times_matrix(tf.tanh(query[:, tf.newaxis] + fed.keys), column)[..., 0], tf.float32)

    def _through_scores(self, step: tf.Tensor, d_scores: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the gradients of the projected query, the keys and the score vector."""
        fed = self.fed
        if not fed.attention:
            return tf.matmul(d_scores[:, tf.newaxis], fed.keys)[:, 0], tf.zeros([0, 0, 0]), tf.zeros([0])
        before = self.first if self.coverage is None else self.coverage[step]
        squashed = self.loop.squashed(fed, self.queries[step], before)
        d_query, d_keys, d_vector = additive_gradient(squashed, tf.cast(fed.attention[2], d_scores.dtype), d_scores)
        return d_query, tf.cast(d_keys, tf.float32), d_vector

    def _through_location(self, step: tf.Tensor, d_inside: tf.Tensor,
                          d_coverage: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the gradients of the sum of the weights before the step, and of the filters, FP32.

        ``d_inside`` ``[batch, source, units]`` is the gradient of the sums inside the tanh, and ``d_coverage``
        ``[batch, source]`` that of the sum of the weights after the step.
        """
        (filters,) = self.fed.location
        taps, flat = filters.shape[0], tf.cast(as_rows(d_inside), filters.dtype)
        windows = tf.cast(location_windows(self.coverage[step], taps), filters.dtype)  # type: ignore[index]
        d_filters = tf.matmul(as_rows(windows), flat, transpose_a=True)
        d_windows = tf.reshape(tf.matmul(flat, filters, transpose_b=True), tf.shape(windows))
        return d_coverage + location_sums(tf.cast(d_windows, tf.float32)), tf.cast(d_filters, tf.float32)

    def _through_layers(self, step: tf.Tensor, dy: tf.Tensor, d_states: Any, grads: _Gradients) -> Any:
        fed, trace, dtype = self.fed, self.trace, self.fed.x.dtype
        before, sums, by_row, vectors = list(d_states), list(grads.sums), list(grads.rows), list(grads.vectors)
        for number in reversed(range(len(self.loop.layers))):
            layer, history = self.loop.layers[number], trace.states[number]
            dy = _times(dy, _at(layer.keep_output, step))
            one = layer.cell.step_gradient(
                (d_states[number][0] + dy, *d_states[number][1:]), tuple(saved[step] for saved in trace.saved[number]),
                tuple(states[step] for states in history), tuple(states[step + 1] for states in history),
                self.cells[number])
            before[number] = tuple(one.states)
            sums[number] = sums[number].write(step, tf.cast(one.x, dtype))
            by_row[number] = tuple(array.write(step, tf.cast(value, dtype))
                                   for array, value in zip(by_row[number], one.rows, strict=True))
            vectors[number] = tuple(a + b for a, b in zip(vectors[number], one.sums, strict=True))
            dx = product(one.x[:, :fed.kernels[number].shape[1]], self.kernels[number])
            dy = _times(dx + dy if layer.residual else dx, _at(layer.keep_input, step))
        return tuple(before), dy, grads._replace(sums=tuple(sums), rows=tuple(by_row), vectors=tuple(vectors))
