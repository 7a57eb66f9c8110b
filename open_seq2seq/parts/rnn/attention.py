"""Attention for recurrent decoders, with additive, dot-product or monotonic scores, or scores that know locations."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.primitives import convolve
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.precision import cast_weight, element_wise_dtype
from open_seq2seq.parts.randomness import next_seed
from open_seq2seq.parts.rnn.cells import through_tanh

KINDS = ("bahdanau", "chorowski", "zhaopeng")
# Number of the filters of the location term, and their width in source positions.
_FILTERS, _TAPS = 10, 101


class Memory(NamedTuple):
    """Keys and values of the source, which all steps and all hypotheses of an example share.

    Attributes:
      keys: ``[batch, source, units]`` in the compute dtype.
      values: ``[batch, source, channels]`` in the compute dtype.
      mask: boolean ``[batch, source]``, False at padding.
    """

    keys: tf.Tensor
    values: tf.Tensor
    mask: tf.Tensor


class AdditiveAttention(Module):
    """Attention with the scores ``v · tanh(key + query + location + bias)``, in three kinds.

    * ``bahdanau`` has no location term (Bahdanau et al. 2014, https://arxiv.org/abs/1409.0473); ``v`` is normalised and
      has a learned scale (Salimans and Kingma 2016, https://arxiv.org/abs/1602.07868).
    * ``chorowski``: the location term is a convolution over previous attention weights (Chorowski et al. 2015,
      https://arxiv.org/abs/1506.07503).
    * ``zhaopeng``: the location term is the sum of previous attention weights times a fertility computed from the query
      (Tu et al. 2016, https://arxiv.org/abs/1601.04811).

    Args:
      kind: one of ``KINDS``.
      memory_size: number of channels of the source.
      query_size: number of channels of the query.
      units: size of the space in which keys and queries are compared.
      use_coverage: whether ``chorowski`` uses the sum of the attention weights of all previous steps instead of those
        of the last step.
      initializer: initialiser of the matrices, vectors and filters.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, kind: str, memory_size: int, query_size: int, units: int, use_coverage: bool = True,
                 initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="attention")
        self._kind = kind
        self._adds_up = use_coverage or kind == "zhaopeng"
        self.memory_kernel = self.weight([memory_size, units], initializer, regularizer=regularizer)
        self.query_kernel = self.weight([query_size, units], initializer, regularizer=regularizer)
        self.score_vector = self.weight([units, 1], initializer)
        self.bias = self.weight([units], "zeros")
        if kind == "bahdanau":
            self.score_scale = self.weight([], lambda _: tf.constant(units ** -0.5))
        elif kind == "chorowski":
            self.place_filters = self.weight([_TAPS, 1, _FILTERS], initializer)
            self.place_bias = self.weight([_FILTERS], "zeros")
            self.place_kernel = self.weight([_FILTERS, units], initializer, regularizer=regularizer)
        else:
            self.fertility_vector = self.weight([query_size, 1], initializer)
            self.place_kernel = self.weight([1, units], initializer, regularizer=regularizer)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Returns the keys and values of a source.

        Args:
          values: the source, ``[batch, source, memory_size]`` in the compute dtype.
          lengths: lengths of the source, ``[batch]``.
        """
        keys = times_matrix(values, cast_weight(self.memory_kernel, values.dtype))
        return Memory(keys, values, tf.sequence_mask(lengths, tf.shape(values)[1]))

    def __call__(self, query: tf.Tensor, coverage: tf.Tensor, memory: Memory) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Attends once for each hypothesis.

        Args:
          query: ``[batch, beam, query_size]`` in the compute dtype.
          coverage: weights or sums of weights from previous steps, for the location term: the third result of the
            previous step, ``[batch, beam, source]`` FP32; zeros at the first step.
          memory: keys and values of the source.

        Returns:
          (contexts ``[batch, beam, memory_size]``; attention weights ``[batch, beam, source]`` FP32; ``coverage`` for
          the next step, ``[batch, beam, source]`` FP32).
        """
        dtype = memory.keys.dtype
        inside = times_matrix(query, cast_weight(self.query_kernel, dtype)) + tf.cast(self.bias, dtype)
        inside = inside[:, :, tf.newaxis] + memory.keys[:, tf.newaxis]
        if self._kind != "bahdanau":
            inside += tf.cast(self._place(query, coverage), dtype)
        vector = tf.convert_to_tensor(self.score_vector)
        if self._kind == "bahdanau":
            vector = vector * (self.score_scale / tf.norm(vector))
        scores = tf.cast(times_matrix(tf.tanh(inside), tf.cast(vector, dtype))[..., 0], tf.float32)
        # -1e9 instead of minus infinity, so that an empty source does not give NaN.
        weights = tf.nn.softmax(tf.where(memory.mask[:, tf.newaxis], scores, -1e9))
        context = tf.matmul(tf.cast(weights, dtype), memory.values)
        return context, weights, coverage + weights if self._adds_up else weights

    def _place(self, query: tf.Tensor, coverage: tf.Tensor) -> tf.Tensor:
        """Returns the location term of the scores, ``[batch, beam, source, units]`` FP32."""
        if self._kind == "zhaopeng":
            vector = tf.convert_to_tensor(self.fertility_vector)
            fertility = tf.sigmoid(times_matrix(tf.cast(query, tf.float32), vector))
            return tf.expand_dims(fertility * coverage, -1) * self.place_kernel[0]
        shape = tf.shape(coverage)
        rows = tf.reshape(coverage, [shape[0] * shape[1], shape[2], 1])
        features = convolve(rows, tf.convert_to_tensor(self.place_filters), [1], "SAME", [1]) + self.place_bias
        features = times_matrix(features, tf.convert_to_tensor(self.place_kernel))
        return tf.reshape(features, tf.concat([shape, [features.shape[-1]]], 0))


@tf.custom_gradient
def additive_scores(queries: tf.Tensor, keys: tf.Tensor, vector: tf.Tensor) -> Any:
    """Returns ``vector · tanh(query + key)`` for each query and key.

    A loop computes the tanh for one query of each example at a time, and the backward pass recomputes it. Thus, no
    tensor ``[batch, queries, source, units]`` is needed.

    Args:
      queries: ``[batch, queries, units]``, projected and with the bias, in the dtype of the keys.
      keys: ``[batch, source, units]``, in the dtype in which the tanh is computed.
      vector: ``[units]`` FP32.

    Returns:
      ``[batch, queries, source]`` FP32.
    """
    column = tf.cast(vector, keys.dtype)[:, tf.newaxis]
    by_query, count = tf.transpose(queries, [1, 0, 2]), tf.shape(queries)[1]

    def squashed(number: tf.Tensor) -> tf.Tensor:
        return tf.tanh(by_query[number][:, tf.newaxis] + keys)

    def body(number: tf.Tensor, scores: tf.TensorArray) -> Any:
        row = tf.cast(times_matrix(squashed(number), column)[..., 0], tf.float32)
        return number + 1, scores.write(number, row)

    start = tf.TensorArray(tf.float32, count, element_shape=[keys.shape[0], keys.shape[1]])
    _, scores = tf.while_loop(lambda number, _: number < count, body, (tf.constant(0), start))

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        d_scores = tf.transpose(tf.cast(dy, keys.dtype), [1, 0, 2])

        def back(number: tf.Tensor, array: tf.TensorArray, d_keys: tf.Tensor, d_vector: tf.Tensor) -> Any:
            d_query, d_inside, d_row = additive_gradient(squashed(number), column[:, 0], d_scores[number])
            return number + 1, array.write(number, d_query), d_keys + tf.cast(d_inside, tf.float32), d_vector + d_row

        d_queries = tf.TensorArray(keys.dtype, count, element_shape=[keys.shape[0], keys.shape[2]])
        first = (tf.constant(0), d_queries, tf.zeros(tf.shape(keys)), tf.zeros_like(vector))
        _, d_queries, d_keys, d_vector = tf.while_loop(lambda number, *_: number < count, back, first)
        return tf.transpose(d_queries.stack(), [1, 0, 2]), tf.cast(d_keys, keys.dtype), d_vector

    return tf.transpose(scores.stack(), [1, 0, 2]), grad


def additive_gradient(squashed: tf.Tensor, vector: tf.Tensor, d_scores: tf.Tensor,
                      ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the gradients of ``vector · tanh(query + key)`` for one query of each example.

    Args:
      squashed: the tanh, ``[batch, source, units]``.
      vector: ``[units]`` in the dtype of ``squashed``.
      d_scores: gradients of the scores, ``[batch, source]`` in the dtype of ``squashed``.

    Returns:
      (gradients of the query ``[batch, units]``, of the keys ``[batch, source, units]``, of the vector ``[units]``
      FP32).
    """
    d_inside = through_tanh(squashed, d_scores[:, :, tf.newaxis] * vector)
    flat = tf.reshape(squashed, [-1, squashed.shape[-1]])
    d_vector = tf.matmul(tf.reshape(d_scores, [1, -1]), flat)[0]
    return tf.reduce_sum(d_inside, 1), d_inside, tf.cast(d_vector, tf.float32)


class GlobalAttention(Module):
    """Attention over the whole source, with additive or dot-product scores.

    * ``bahdanau``: ``v · tanh(key + query)`` (Bahdanau et al. 2014, https://arxiv.org/abs/1409.0473). With
      ``normalized``, ``v`` has a learned norm and there is a bias inside the tanh (Salimans and Kingma 2016,
      https://arxiv.org/abs/1602.07868).
    * ``luong``: ``query · key`` (Luong et al. 2015, https://arxiv.org/abs/1508.04025). With
      ``normalized``, the scores are multiplied by a learned scalar.

    Args:
      kind: ``bahdanau`` or ``luong``.
      memory_size: number of channels of the source.
      query_size: number of channels of the query.
      units: size of the space in which keys and queries are compared; for ``luong``, must be ``query_size``.
      normalized: whether ``bahdanau`` is normalised, or ``luong`` scaled, as described above.
      initializer: initialiser of the matrices and of ``v``.
      regularizer: regulariser of the matrices.
      scale: initial value of the norm of ``v``, or of the scalar; by default 1/√units for ``bahdanau`` and 1 for
        ``luong``.

    Attributes:
      is_monotonic: whether the weights of a step depend on those of the previous step, as in
        ``MonotonicAttention``.
    """

    is_monotonic = False

    def __init__(self, kind: str, memory_size: int, query_size: int, units: int, normalized: bool = False,
                 initializer: Any = None, regularizer: Any = None, scale: float | None = None) -> None:
        super().__init__(name="attention")
        self.memory_kernel = self.weight([memory_size, units], initializer, regularizer=regularizer)
        self.is_additive, self.units, self.normalized = kind == "bahdanau", units, normalized
        if self.is_additive:
            self.query_kernel = self.weight([query_size, units], initializer, regularizer=regularizer)
            self.score_vector = self.weight([units, 1], initializer)
        if normalized:
            first = scale or (units ** -0.5 if self.is_additive else 1.0)
            self.score_scale = self.weight([], lambda _: tf.constant(first))
        if normalized and self.is_additive:
            self.bias = self.weight([units], "zeros")

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Returns the keys and values of a source.

        Args:
          values: the source, ``[batch, source, memory_size]`` in the compute dtype.
          lengths: lengths of the source, ``[batch]``.
        """
        kernel = self.memory_kernel
        # The scale of the scores is applied to the keys, once for all queries.
        scaled = kernel * self.score_scale if self.normalized and not self.is_additive else kernel
        keys = times_matrix(values, tf.cast(scaled, values.dtype))
        return Memory(keys, values, tf.sequence_mask(lengths, tf.shape(values)[1]))

    def direction(self) -> tf.Tensor:
        """Returns the vector ``v`` of additive scores, ``[units]`` FP32."""
        vector = tf.convert_to_tensor(self.score_vector)[:, 0]
        return vector * (self.score_scale / tf.norm(vector)) if self.normalized else vector

    def project(self, queries: tf.Tensor) -> tf.Tensor:
        """Projects queries ``[…, query_size]`` to ``[…, units]``; for ``luong``, returns them unchanged."""
        if not self.is_additive:
            return queries
        projected = times_matrix(queries, cast_weight(self.query_kernel, queries.dtype))
        return projected + tf.cast(self.bias, queries.dtype) if self.normalized else projected

    def weights(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        """Returns the value of ``attention`` in ``fed_recurrence.FedWeights``."""
        if not self.is_additive:
            return ()
        bias = tf.convert_to_tensor(self.bias) if self.normalized else tf.zeros([self.units])
        return cast_weight(self.query_kernel, dtype), bias, self.direction()

    def location(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        """Returns the value of ``location`` in ``fed_recurrence.FedWeights``; see ``LocationAttention``."""
        return ()

    def dynamic(self) -> tuple[tf.Tensor, ...]:
        """Returns the value of ``dynamic``; see ``DynamicConvolutionAttention``."""
        return ()

    def scores(self, queries: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns the scores ``[batch, queries, source]`` FP32 of queries ``[batch, queries, query_size]``."""
        queries = self.project(queries)
        if self.is_additive:
            return additive_scores(tf.cast(queries, memory.keys.dtype), memory.keys, self.direction())
        return tf.cast(tf.matmul(queries, memory.keys, transpose_b=True), tf.float32)

    def scores_of_all_steps(self, queries: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns the same as ``scores``, but additive scores are computed in the faster ``element_wise_dtype``.

        The keys are cast to this dtype, which takes less time than it saves only if there are many queries.
        """
        if self.is_additive:
            memory = memory._replace(keys=tf.cast(memory.keys, element_wise_dtype(memory.keys.dtype)))
        return self.scores(queries, memory)

    def step(self, queries: tf.Tensor, memory: Memory, before: tf.Tensor) -> tf.Tensor:
        """Returns the attention weights ``[batch, queries, source]`` FP32 of one step of each hypothesis.

        Args:
          queries: one query for each hypothesis, ``[batch, queries, query_size]`` in the compute dtype.
          memory: the source.
          before: the weights of the previous step, ``[batch, queries, source]``; used only if ``is_monotonic``.
        """
        return masked_softmax(self.scores(queries, memory), memory.mask[:, tf.newaxis])

    def all_steps(self, queries: tf.Tensor, memory: Memory, training: bool = False) -> tf.Tensor:
        """Returns the attention weights ``[batch, queries, source]`` FP32, where each query belongs to one step.

        Args:
          queries: the queries in the order of the steps, ``[batch, queries, query_size]`` in the compute dtype.
          memory: the source.
          training: whether this is a training step.
        """
        return masked_softmax(self.scores_of_all_steps(queries, memory), memory.mask[:, tf.newaxis])

    def __call__(self, queries: tf.Tensor, memory: Memory, training: bool = False,
                 before: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends once for each query.

        Args:
          queries: ``[batch, queries, query_size]`` in the compute dtype.
          memory: the source.
          training: whether this is a training step.
          before: if the queries belong to hypotheses instead of steps, the weights of the previous step,
            ``[batch, queries, source]`` FP32; otherwise None.

        Returns:
          (contexts ``[batch, queries, memory_size]``, attention weights ``[batch, queries, source]`` FP32).
        """
        weights = self.all_steps(queries, memory, training) if before is None else self.step(queries, memory, before)
        return tf.matmul(tf.cast(weights, memory.values.dtype), memory.values), weights


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the softmax over the positions where ``mask`` is True, and zeros elsewhere.

    Args:
      scores: ``[…, source]`` FP32.
      mask: boolean, broadcasts to ``[…, source]``; may be False everywhere.

    Returns:
      ``[…, source]`` FP32.
    """
    return tf.where(mask, tf.nn.softmax(tf.where(mask, scores, -1e9)), 0.0)


def monotonic_weights(scores: tf.Tensor, before: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the probability with which a process that moves along the source stops at each position.

    The process starts where the process of the previous step stopped. At each position j that it reaches, it stops with
    the probability ``p_j = sigmoid(score_j)``. The result is ``p_j · Σ_{i ≤ j} before_i · Π_{i ≤ k < j} (1 - p_k)``
    (Raffel et al. 2017, https://arxiv.org/abs/1704.00784, equation 8). The products are computed as sums of logarithms.

    Args:
      scores: ``[…, source]`` FP32.
      before: the result of the previous step, ``[…, source]`` FP32.
      mask: boolean ``[…, source]``, False at padding.

    Returns:
      ``[…, source]`` FP32; the sum is below 1 if the process can pass the end of the source without stopping.
    """
    scores = tf.where(mask, scores, -1e9)
    passed = tf.cumsum(tf.math.log_sigmoid(-scores), axis=-1, exclusive=True)
    positions = tf.range(tf.shape(scores)[-1])
    reached = tf.where(positions[:, tf.newaxis] <= positions,
                       tf.expand_dims(passed, -2) - tf.expand_dims(passed, -1), -1e9)
    return tf.sigmoid(scores) * tf.reduce_sum(tf.expand_dims(before, -1) * tf.exp(reached), -2)


class MonotonicAttention(GlobalAttention):
    """``GlobalAttention`` whose weights are computed by ``monotonic_weights`` instead of a softmax.

    Args:
      noise: standard deviation of noise that is added to the scores in training.
      score_bias: initial value of a learned number that is added to the scores.
      kwargs: arguments of ``GlobalAttention``.
    """

    is_monotonic = True

    def __init__(self, noise: float = 0.0, score_bias: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._noise = noise
        self.score_bias = self.weight([], lambda _: tf.constant(score_bias))

    def noise(self, shape: Any, training: bool) -> tf.Tensor | None:
        """Returns normally distributed FP32 noise of this shape for the scores; None if no noise is to be added."""
        if not training or self._noise == 0.0:
            return None
        return self._noise * tf.random.stateless_normal(shape, next_seed(), alg="philox")

    def first_weights(self, leading: Any, memory_size: tf.Tensor) -> tf.Tensor:
        """Returns the attention before the first step: 1 at the first position, else 0.

        Args:
          leading: sizes of the axes before the source's axis.
          memory_size: length of the padded source, a scalar.

        Returns:
          ``[*leading, source]`` FP32.
        """
        return tf.one_hot(tf.zeros(leading, tf.int32), memory_size)

    def step(self, queries: tf.Tensor, memory: Memory, before: tf.Tensor) -> tf.Tensor:
        scores = self.scores(queries, memory) + self.score_bias
        return monotonic_weights(scores, before, memory.mask[:, tf.newaxis])

    def all_steps(self, queries: tf.Tensor, memory: Memory, training: bool = False) -> tf.Tensor:
        scores = self.scores_of_all_steps(queries, memory) + self.score_bias
        noise = self.noise(tf.shape(scores), training)
        scores = tf.transpose(scores if noise is None else scores + noise, [1, 0, 2])
        first = self.first_weights([tf.shape(scores)[1]], tf.shape(scores)[2])
        weights = tf.scan(lambda before, now: monotonic_weights(now, before, memory.mask), scores, first)
        return tf.transpose(weights, [1, 0, 2])


_DYNAMIC_TAPS, _DYNAMIC_FILTERS = 21, 8  # of the static and the dynamic filters of dynamic convolution attention
_PRIOR_TAPS, _ALPHA, _BETA = 11, 0.1, 0.9  # of its prior
_LEAST_PRIOR = 1e-6


def location_windows(coverage: tf.Tensor, taps: int) -> tf.Tensor:
    """Returns the neighbourhood of each position, zeros outside of the source; ``[batch, source, taps]``.

    The window of position j begins at position j - (taps - 1) // 2.

    Args:
      coverage: ``[batch, source]``.
      taps: number of positions in each neighbourhood.
    """
    before, source = (taps - 1) // 2, tf.shape(coverage)[1]
    padded = tf.pad(coverage, [[0, 0], [before, taps - 1 - before]])
    return tf.gather(padded, tf.range(source)[:, tf.newaxis] + tf.range(taps), axis=1)


def location_sums(d_windows: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of ``coverage`` ``[batch, source]`` for that of ``location_windows(coverage, taps)``."""
    taps, source = d_windows.shape[2], tf.shape(d_windows)[1]
    before = (taps - 1) // 2
    # Position j is tap k of the window of position j - k + before.
    padded = tf.pad(d_windows, [[0, 0], [taps - 1 - before, before], [0, 0]])
    rows = tf.range(source)[:, tf.newaxis] + taps - 1 - tf.range(taps)
    flat = tf.reshape(padded, [tf.shape(padded)[0], -1])
    return tf.reduce_sum(tf.gather(flat, rows * taps + tf.range(taps), axis=1), -1)


class LocationAttention(GlobalAttention):
    """Additive attention with the scores ``v · tanh(key + query + location + bias)``.

    The location term is computed from the sum of the attention weights of all previous steps by a convolution over
    the source with a bias, and a matrix (Chorowski et al. 2015, https://arxiv.org/abs/1506.07503; Shen et al. 2018,
    https://arxiv.org/abs/1712.05884, section 2.2).

    Args:
      memory_size: number of channels of the source.
      query_size: number of channels of the query.
      units: size of the space in which keys and queries are compared.
      use_bias: whether there is a bias inside the tanh, besides that of the convolution.
      filters: number of filters of the convolution.
      taps: width of the filters, in source positions.
      initializer: initialiser of the matrices, filters and of ``v``.
      regularizer: regulariser of the matrices and filters.
    """

    def __init__(self, memory_size: int, query_size: int, units: int, use_bias: bool = False, filters: int = 32,
                 taps: int = 32, initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__("bahdanau", memory_size, query_size, units, initializer=initializer, regularizer=regularizer)
        self.inner_bias = self.weight([units], "zeros") if use_bias else None
        self.filters = self.weight([taps, 1, filters], initializer, regularizer=regularizer)
        self.filter_bias = self.weight([filters], "zeros")
        self.location_kernel = self.weight([filters, units], initializer, regularizer=regularizer)

    def location(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        """Returns the value of ``location`` in ``fed_recurrence.FedWeights``: filters and matrix as one product."""
        return (tf.cast(tf.matmul(self.filters[:, 0], self.location_kernel), dtype),)

    def weights(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        bias = tf.matmul(self.filter_bias[tf.newaxis], self.location_kernel)[0]
        bias = bias if self.inner_bias is None else bias + self.inner_bias
        return cast_weight(self.query_kernel, dtype), bias, self.direction()


def _step_prior() -> list[float]:
    """Returns the probability of each number of symbols that a step goes on: a beta-binomial distribution."""
    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    n = _PRIOR_TAPS - 1
    return [math.comb(n, k) * math.exp(log_beta(k + _ALPHA, n - k + _BETA) - log_beta(_ALPHA, _BETA))
            for k in range(_PRIOR_TAPS)]


def dynamic_scores(query: tf.Tensor, before: tf.Tensor, vector: tf.Tensor,
                   weights: tuple[tf.Tensor, ...]) -> tf.Tensor:
    """Returns the scores ``[batch, source]`` of ``DynamicConvolutionAttention``, in FP32.

    Args:
      query: the projected query before the tanh, ``[batch, units]``.
      before: the attention weights of the previous step, ``[batch, source]`` FP32.
      vector: ``v``, ``[units]`` FP32.
      weights: see ``DynamicConvolutionAttention.dynamic``.
    """
    static, kernel, matrix, bias = weights

    @tf.custom_gradient
    def windows(coverage: tf.Tensor) -> Any:
        return location_windows(coverage, _DYNAMIC_TAPS), location_sums

    around = tf.ensure_shape(windows(before), [None, None, _DYNAMIC_TAPS])
    filters = tf.reshape(tf.matmul(tf.tanh(tf.cast(query, tf.float32)), kernel), [-1, _DYNAMIC_TAPS, _DYNAMIC_FILTERS])
    inside = tf.matmul(around, static + times_matrix(filters, matrix))
    # The first taps of a window are the positions up to its centre.
    prior = tf.linalg.matvec(around[..., :_PRIOR_TAPS], tf.constant(_step_prior()[::-1]))
    return tf.linalg.matvec(tf.tanh(inside + bias), vector) + tf.math.log(tf.maximum(prior, _LEAST_PRIOR))


class DynamicConvolutionAttention(GlobalAttention):
    """Attention that depends only on the previous attention weights and the query, not on the source.

    The scores are ``v · tanh(U f + T g + b) + log p``: ``f`` are convolutions of the previous weights with learned
    filters, ``g`` those with filters that are computed from the query, and ``p`` a convolution with the prior
    probabilities of going on by 0 to 10 symbols, one on average (Battenberg et al. 2020,
    https://arxiv.org/abs/1910.10288). All is computed in FP32.

    Args:
      query_size: number of channels of the query.
      units: number of channels inside the tanh, and of the layer that computes filters.
      initializer: initialiser of the matrices, filters and of ``v``.
      regularizer: regulariser of the matrices and filters.
    """

    def __init__(self, query_size: int, units: int, initializer: Any = None, regularizer: Any = None) -> None:
        super(GlobalAttention, self).__init__(name="attention")
        self.is_additive, self.units, self.normalized = True, units, False
        self.query_kernel = self.weight([query_size, units], initializer, regularizer=regularizer)
        self.query_bias = self.weight([units], "zeros")
        self.filter_kernel = self.weight([units, _DYNAMIC_TAPS * _DYNAMIC_FILTERS], initializer,
                                         regularizer=regularizer)
        self.dynamic_kernel = self.weight([_DYNAMIC_FILTERS, units], initializer, regularizer=regularizer)
        self.filters = self.weight([_DYNAMIC_TAPS, 1, _DYNAMIC_FILTERS], initializer, regularizer=regularizer)
        self.location_kernel = self.weight([_DYNAMIC_FILTERS, units], initializer, regularizer=regularizer)
        self.inner_bias = self.weight([units], "zeros")
        self.score_vector = self.weight([units, 1], initializer)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Returns the values of a source, and keys without channels."""
        return Memory(values[..., :0], values, tf.sequence_mask(lengths, tf.shape(values)[1]))

    def weights(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        return cast_weight(self.query_kernel, dtype), tf.convert_to_tensor(self.query_bias), self.direction()

    def dynamic(self) -> tuple[tf.Tensor, ...]:
        """Returns the value of ``dynamic`` in ``fed_recurrence.FedWeights``."""
        static = tf.matmul(self.filters[:, 0], self.location_kernel)
        others = (self.filter_kernel, self.dynamic_kernel, self.inner_bias)
        return static, *(tf.convert_to_tensor(one) for one in others)
