"""The sublayers of the Transformer: attention, for whole sequences and with a cache for steps, and feed-forward."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.parts.attention_record import record_attention
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import add_bias, bias_relu_dropped, scaled_weight
from open_seq2seq.parts.dropout import keep_mask_of, keep_scale, mask_out
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.observation import observe
from open_seq2seq.parts.precision import of_weights
from open_seq2seq.parts.row_selection import gather_rows, rows_to_compute, scatter_rows
from open_seq2seq.utils.errors import ConfigError

Cache = dict[str, tf.Tensor]


def check_heads(params: Any, path: str) -> None:
    """Raises ConfigError unless ``hidden_size`` is a multiple of ``num_heads``."""
    if params["hidden_size"] % params["num_heads"]:
        raise ConfigError([f"'{path}/hidden_size' must be a multiple of num_heads ({params['num_heads']}), got "
                           f"{params['hidden_size']}."])


def attend(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, bias: tf.Tensor | None, dropout_rate: float = 0.0,
           training: bool = False, to_source: bool = False) -> tf.Tensor:
    """Averages values, weighted by the softmax of query-key products (Vaswani et al. 2017, §3.2.1).

    Nothing is scaled here: for scaled dot products, the caller multiplies the query by ``depth^-0.5``; with dropout, it
    multiplies the value by the scale of dropout.

    Args:
      query: ``[batch, heads, query time, depth]``.
      key: ``[batch, heads, time, depth]``.
      value: ``[batch, heads, time, depth]``.
      bias: FP32 tensor that broadcasts to ``[batch, heads, query time, time]``, or None; it gets no gradient.
      dropout_rate: fraction of the attention weights to drop.
      training: whether to apply dropout.
      to_source: whether the keys are a source, so that ``recording_attention`` records the weights.

    Returns:
      ``[batch, heads, query time, depth]``.
    """
    scores = tf.cast(_product(query, key, transpose_b=True), tf.float32)
    observe(scores, "scores")
    weights = tf.nn.softmax(scores if bias is None else _plus_constant(scores, bias))
    if to_source:
        record_attention(weights)
    weights = tf.cast(weights, value.dtype)
    if training and dropout_rate > 0.0:
        weights = mask_out(weights, keep_mask_of(weights, dropout_rate))
    return _product(weights, value)


def _product(x: tf.Tensor, y: tf.Tensor, transpose_b: bool = False) -> tf.Tensor:
    """Returns ``tf.matmul(x, y, transpose_b=…)`` of tensors with the same batch and heads.

    TensorFlow's own gradient computes the axes along which a factor was broadcast, and sums over them; here are none.
    """
    @tf.custom_gradient
    def product(x: tf.Tensor, y: tf.Tensor) -> Any:
        def grad(dz: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            if transpose_b:
                return tf.matmul(dz, y), tf.matmul(dz, x, transpose_a=True)
            return tf.matmul(dz, y, transpose_b=True), tf.matmul(x, dz, transpose_a=True)

        return tf.matmul(x, y, transpose_b=transpose_b), grad

    return product(x, y)


@tf.custom_gradient
def _plus_constant(scores: tf.Tensor, bias: tf.Tensor) -> Any:
    """Returns ``scores + bias``, of the shape of the scores; the bias has no gradient."""
    return scores + bias, lambda dy: (dy, None)


@tf.custom_gradient
def _side_by_side(*matrices: tf.Tensor) -> Any:
    """Concatenates matrices along their columns; the gradient is split in one operation."""
    return tf.concat(matrices, 1), lambda dy: tf.split(dy, [matrix.shape[1] for matrix in matrices], 1)


class Attention(Module):
    """Base of attention layers, with four weight matrices and no biases.

    Args:
      hidden_size: number of input and output channels.
      num_heads: number of heads; must divide ``hidden_size``.
      dropout_rate: fraction of the attention weights to drop.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      memory_size: number of channels of the sequence that is attended to; ``hidden_size`` by default.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout_rate: float = 0.0, initializer: Any = None,
                 regularizer: Any = None, memory_size: int | None = None) -> None:
        super().__init__(name="attention")
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.depth = hidden_size // num_heads
        self.dropout_rate = dropout_rate
        shape, memory_shape = [hidden_size, hidden_size], [memory_size or hidden_size, hidden_size]
        self.query = self.weight(shape, initializer, regularizer=regularizer)
        self.key = self.weight(memory_shape, initializer, regularizer=regularizer)
        self.value = self.weight(memory_shape, initializer, regularizer=regularizer)
        self.output = self.weight(shape, initializer, regularizer=regularizer)

    def projection(self, names: str, dtype: tf.DType, training: bool = False) -> tf.Tensor:
        """Returns matrices, concatenated for a single product: ``[channels, len(names) · hidden_size]``.

        The query's matrix is multiplied by ``depth^-0.5``, and the value's matrix by the scale of dropout, because
        scaling matrices takes less time than scaling activations.

        Args:
          names: letters of the matrices in their order: ``q`` for the query, ``k`` for the key, ``v`` for the value.
          dtype: dtype of the result.
          training: whether dropout is applied.
        """
        matrices = {"q": (self.query, self.depth ** -0.5), "k": (self.key, 1.0),
                    "v": (self.value, keep_scale(self.dropout_rate, training))}
        columns = np.repeat(np.array([matrices[name][1] for name in names], np.float32), self.hidden_size)

        def compute() -> tf.Tensor:
            joined = _side_by_side(*(tf.convert_to_tensor(matrices[name][0]) for name in names))
            return tf.cast(joined * columns, dtype)

        return of_weights(compute)

    def output_projection(self, dtype: tf.DType, scale: float = 1.0) -> tf.Tensor:
        """Returns the output matrix times ``scale``, ``[hidden_size, hidden_size]`` in ``dtype``."""
        return of_weights(lambda: scaled_weight(self.output, scale, dtype))

    def _split(self, x: tf.Tensor, kernel: tf.Tensor) -> list[tf.Tensor]:
        """Projects ``[batch, time, channels]`` to one ``[batch, heads, time, depth]`` per matrix in ``kernel``."""
        shape = tf.shape(x)
        projected = tf.matmul(tf.reshape(x, [-1, kernel.shape[0]]), kernel)
        parts = kernel.shape[1] // self.hidden_size
        if x.shape[1] == 1:  # in a decoding step, where heads and time need not change places
            return [tf.reshape(part, tf.stack([shape[0], self.num_heads, 1, self.depth]))
                    for part in tf.split(projected, parts, 1)]
        split = tf.reshape(projected, tf.stack([shape[0], shape[1], parts, self.num_heads, self.depth]))
        return tf.unstack(tf.transpose(split, [2, 0, 3, 1, 4]), parts)

    def _merge(self, context: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Projects ``[batch, heads, time, depth]`` to ``[batch, time, hidden]``."""
        shape = tf.shape(context)
        by_time = context if context.shape[2] == 1 else tf.transpose(context, [0, 2, 1, 3])
        flat = tf.reshape(by_time, [-1, self.hidden_size])
        return tf.reshape(tf.matmul(flat, kernel), tf.stack([shape[0], shape[2], self.hidden_size]))


class SelfAttention(Attention):
    """Attention from a sequence to itself."""

    def kernels(self, dtype: tf.DType, training: bool = False,
                output_scale: float = 1.0) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the weights for ``__call__``; decoding computes them once for all steps.

        The weights are the concatenated matrices of query, key and value, and the output matrix.

        Args:
          dtype: dtype of the weights.
          training: whether to multiply the values by the scale of dropout.
          output_scale: factor that multiplies the output matrix.
        """
        return self.projection("qkv", dtype, training), self.output_projection(dtype, output_scale)

    def initial_cache(self, batch: tf.Tensor, beam: int, dtype: tf.DType) -> Cache:
        """Returns an empty cache: ``key`` and ``value``, each ``[batch, beam, heads, 0, depth]``."""
        empty = tf.zeros(tf.stack([batch, beam, self.num_heads, 0, self.depth]), dtype)
        return {"key": empty, "value": empty}

    def __call__(self, x: tf.Tensor, bias: tf.Tensor | None, kernels: tuple[tf.Tensor, tf.Tensor],
                 training: bool = False, cache: Cache | None = None,
                 mask: tf.Tensor | None = None) -> tuple[tf.Tensor, Cache | None]:
        """Attends within sequences and, with a cache, also to the positions before them.

        The cache grows by the positions of ``x``. On average, this takes half as many operations as attending to a
        cache of full length. The copy that growing requires takes no additional time, because beam search copies the
        cache in any case.

        Args:
          x: ``[rows, time, hidden]``; with a cache, the rows are all hypotheses, ``batch · beam``.
          bias: FP32 tensor that broadcasts to ``[rows, heads, time, earlier + time]``, or None.
          kernels: the result of the method ``kernels``.
          training: whether to apply dropout.
          cache: ``key`` and ``value`` of earlier positions, each ``[batch, beam, heads, earlier, depth]``; None for
            whole sequences.
          mask: boolean ``[rows, time]``, False at padding; None if there is none.

        Returns:
          (output ``[rows, time, hidden]``, the cache with the new positions, or None without a cache).
        """
        query, key, value = self._split(x, kernels[0])
        if cache is None:
            key, value = self._with_memory(key, value, mask)
        else:
            cache = {"key": self._appended(cache["key"], key), "value": self._appended(cache["value"], value)}
            key, value = self._by_row(cache["key"]), self._by_row(cache["value"])
        context = attend(query, key, value, bias, self.dropout_rate, training)
        return self._merge(context, kernels[1]), cache

    def _with_memory(self, key: tf.Tensor, value: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns keys and values ``[rows, heads, time, depth]`` after those that the attention remembers: none."""
        return key, value

    def _appended(self, cached: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
        """Appends ``[batch · beam, heads, time, depth]`` to ``[batch, beam, heads, earlier, depth]`` along time."""
        shape = tf.shape(cached)
        new = tf.reshape(new, tf.stack([shape[0], shape[1], self.num_heads, -1, self.depth]))
        return tf.concat([cached, new], 3)

    def _by_row(self, cached: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, beam, heads, time, depth]`` as ``[batch · beam, heads, time, depth]``."""
        shape = tf.shape(cached)
        return tf.reshape(cached, tf.stack([shape[0] * shape[1], self.num_heads, -1, self.depth]))


class CrossAttention(Attention):
    """Attention from one sequence to another."""

    def memory(self, encoded: tf.Tensor, training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the source's (keys, values), each ``[batch, heads, source time, depth]``.

        Args:
          encoded: ``[batch, source time, memory_size]``.
          training: whether to multiply the values by the scale of dropout.
        """
        key, value = self._split(encoded, self.projection("kv", encoded.dtype, training))
        return key, value

    def kernels(self, dtype: tf.DType, output_scale: float = 1.0) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (query matrix, output matrix) for ``__call__``; decoding computes them once for all steps.

        Args:
          dtype: dtype of the weights.
          output_scale: factor that multiplies the output matrix.
        """
        return self.projection("q", dtype), self.output_projection(dtype, output_scale)

    def __call__(self, x: tf.Tensor, memory: tuple[tf.Tensor, tf.Tensor], bias: tf.Tensor | None,
                 kernels: tuple[tf.Tensor, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Attends from ``x`` to the source; returns ``[batch, time or beam, hidden]``.

        The second axis of ``x`` is either time or the hypotheses of a beam, which share the keys and values of their
        sentence.

        Args:
          x: ``[batch, time or beam, hidden]``.
          memory: the result of the method ``memory``.
          bias: FP32 ``[batch, 1, 1, source time]``, or None.
          kernels: the result of the method ``kernels``.
          training: whether to apply dropout.
        """
        (query,) = self._split(x, kernels[0])
        key, value = memory
        context = attend(query, key, value, bias, self.dropout_rate, training, to_source=True)
        return self._merge(context, kernels[1])


class FeedForward(Module):
    """``relu(x W₁ + b₁) W₂ + b₂`` with dropout after the ReLU (Vaswani et al. 2017, §3.3).

    Args:
      hidden_size: number of input and output channels.
      filter_size: number of channels between the two matrices.
      relu_dropout: dropout rate after the ReLU.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, hidden_size: int, filter_size: int, relu_dropout: float = 0.0, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="feed_forward")
        self.relu_dropout = relu_dropout
        self.filter_kernel = self.weight([hidden_size, filter_size], initializer, regularizer=regularizer)
        self.filter_bias = self.weight([filter_size], "zeros")
        self.output_kernel = self.weight([filter_size, hidden_size], initializer, regularizer=regularizer)
        self.output_bias = self.weight([hidden_size], "zeros")

    def kernels(self, dtype: tf.DType, training: bool = False, output_scale: float = 1.0) -> list[tf.Tensor]:
        """Returns the weights for ``__call__``; decoding computes them once for all steps.

        Args:
          dtype: the compute dtype.
          training: whether to apply dropout. The scale of dropout multiplies the first matrix and bias, because a
            positive factor before a ReLU has the same effect as after it.
          output_scale: factor that multiplies the result; it is applied to the second matrix and bias.
        """
        scale = keep_scale(self.relu_dropout, training)
        return of_weights(lambda: [
            scaled_weight(self.filter_kernel, scale, dtype), self.filter_bias * scale,
            scaled_weight(self.output_kernel, output_scale, dtype), self.output_bias * output_scale])

    def __call__(self, x: tf.Tensor, kernels: list[tf.Tensor], training: bool = False,
                 mask: tf.Tensor | None = None) -> tf.Tensor:
        """Transforms each position; returns ``[..., hidden]``.

        Args:
          x: ``[..., hidden]`` in the compute dtype.
          kernels: the result of the method ``kernels``.
          training: whether to apply dropout.
          mask: boolean ``[...]``; if given, most positions where it is False are not computed but set to zeros, except
            for XLA.
        """
        shape = tf.shape(x)
        flat = tf.reshape(x, [-1, x.shape[-1]])
        if mask is None or current_pass().for_xla:
            return tf.reshape(self._transform(flat, kernels, training), shape)
        rows = rows_to_compute(tf.reshape(mask, [-1]))
        y = self._transform(gather_rows(flat, rows), kernels, training)
        return tf.reshape(scatter_rows(y, rows, tf.shape(flat)[0]), shape)

    def _transform(self, x: tf.Tensor, kernels: list[tf.Tensor], training: bool) -> tf.Tensor:
        filter_kernel, filter_bias, output_kernel, output_bias = kernels
        filtered = bias_relu_dropped(tf.matmul(x, filter_kernel), filter_bias, self.relu_dropout, training)
        observe(filtered, "filtered")
        return add_bias(tf.matmul(filtered, output_kernel), output_bias)
