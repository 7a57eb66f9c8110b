"""Cross-entropy over large vocabularies, computed with as few passes over the logits as possible.

With targets ``q`` (``on`` at the label, ``off`` elsewhere), the loss for a row of logits x is
``Σ q_j (lse − x_j) = lse − off · Σ x_j − (on − off) · x_label``, where lse is the log-sum-exp of x, and its gradient is
``softmax(x) − q``. The softmax is computed in one pass over the logits. No further pass is needed for lse, because it
is ``x_label − log softmax(x)_label``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass

# Largest number of rows whose logits are computed at once.
CHUNK_ROWS = 1024
# Below this probability of the label, log softmax is too imprecise, and lse is computed directly.
_SMALLEST = 1e-30
# Factor that prevents overflow of FP16 sums over a chunk of rows.
_FP16_ROOM = 1.0 / 64


class SoftTargets(NamedTuple):
    """Smoothed targets (label smoothing, Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, §7).

    Attributes:
      on: probability of the label.
      off: probability of each other id.
    """

    on: float
    off: float

    @classmethod
    def of(cls, smoothing: float, vocab_size: int) -> SoftTargets:
        """Returns the targets in which the ``vocab_size - 1`` other ids have the total probability ``smoothing``."""
        return cls(1.0 - smoothing, smoothing / (vocab_size - 1))

    def entropy(self, vocab_size: int) -> float:
        """Returns the smallest possible cross-entropy for these targets, in nats."""
        # Without smoothing, 1e-20 avoids the logarithm of 0.
        return -(self.on * math.log(self.on) + (vocab_size - 1) * self.off * math.log(self.off + 1e-20))


def _softmax(logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(tf.cast(logits, tf.float32) if logits.dtype == tf.float16 else logits)


def _label_indices(labels: tf.Tensor) -> tf.Tensor:
    return tf.stack([tf.range(tf.size(labels)), labels], 1)


def _minus_at(x: tf.Tensor, indices: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns ``x`` ``[rows, vocabulary]`` with ``values`` ``[n]`` subtracted at the indices ``indices`` ``[n, 2]``."""
    if x.dtype == tf.bfloat16 and not current_pass().for_xla and tf.config.list_logical_devices("GPU"):
        # The operation below has no kernel for bfloat16 on GPUs: TensorFlow would copy x to the host and back.
        return x - tf.scatter_nd(indices, values, tf.shape(x))
    return tf.tensor_scatter_nd_sub(x, indices, values)


def _row_losses(logits: tf.Tensor, probabilities: tf.Tensor, indices: tf.Tensor, logit_sums: tf.Tensor | None,
                targets: SoftTargets) -> tf.Tensor:
    """Returns the cross-entropies ``[rows]`` FP32.

    Args:
      logits: ``[rows, vocabulary]``.
      probabilities: the softmax of the logits.
      indices: indices of the labels in ``logits``, ``[rows, 2]``.
      logit_sums: with label smoothing, the sums of the logits, ``[rows]`` FP32; otherwise None.
      targets: probabilities of the label and of the other ids.
    """
    label_logits = tf.cast(tf.gather_nd(logits, indices), tf.float32)
    if current_pass().for_xla:  # which computes both in the same pass over the logits; a branch would cost more
        normalizers = tf.reduce_logsumexp(tf.cast(logits, tf.float32), -1)
    else:
        likelihood = tf.cast(tf.gather_nd(probabilities, indices), tf.float32)
        normalizers = tf.cond(
            tf.reduce_all(likelihood > _SMALLEST), lambda: label_logits - tf.math.log(likelihood),
            lambda: tf.reduce_logsumexp(tf.cast(logits, tf.float32), -1))
    losses = normalizers - (targets.on - targets.off) * label_logits
    return losses if logit_sums is None else losses - targets.off * logit_sums


def weighted_cross_entropy(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, targets: SoftTargets) -> tf.Tensor:
    """Returns the weighted sum of the rows' cross-entropies, an FP32 scalar.

    Args:
      logits: ``[rows, vocabulary]`` of any floating-point dtype, which is also the gradient's dtype.
      labels: ``[rows]`` int32, ids in the vocabulary.
      weights: ``[rows]`` FP32, without a gradient.
      targets: probabilities of the label and of the other ids.
    """

    @tf.custom_gradient
    def total(logits: tf.Tensor) -> Any:
        logits = tf.stop_gradient(logits)  # see projected_cross_entropy
        probabilities, indices = _softmax(logits), _label_indices(labels)
        sums = tf.reduce_sum(tf.cast(logits, tf.float32), -1) if targets.off else None
        losses = _row_losses(logits, probabilities, indices, sums, targets)

        def grad(dy: tf.Tensor) -> tf.Tensor:
            factors = dy * weights
            at_labels = tf.cast(tf.fill(tf.shape(labels), targets.on - targets.off), probabilities.dtype)
            errors = _minus_at(probabilities, indices, at_labels)
            if targets.off:
                errors -= tf.cast(targets.off, errors.dtype)
            return tf.cast(errors * tf.cast(factors, errors.dtype)[:, None], logits.dtype)

        return tf.reduce_sum(tf.where(weights > 0.0, losses * weights, 0.0)), grad

    return total(logits)


def projected_cross_entropy(hidden: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor,
                            targets: SoftTargets, training: bool) -> tf.Tensor:
    """Returns the weighted sum of the rows' cross-entropies for the logits ``hidden · tableᵀ``.

    Rows are processed in chunks, so that only the logits of one chunk are in memory. In training, the same pass
    computes the gradients of ``hidden`` and ``table``. The logits' gradient, ``softmax − q``, has to be multiplied by
    the weights of the rows, and ``q`` contains the constant ``off``. Weights and constant are applied to
    ``[rows, hidden]`` tensors instead, because these are smaller than the logits.

    Args:
      hidden: ``[rows, hidden]`` in the compute dtype.
      table: ``[vocabulary, hidden]`` FP32.
      labels: ``[rows]`` int32.
      weights: ``[rows]`` FP32, without a gradient.
      targets: probabilities of the label and of the other ids.
      training: whether to compute the gradients in the same pass. If False, TensorFlow can still differentiate the
        result, but then keeps the logits of all chunks in memory.

    Returns:
      FP32 scalar.
    """
    if not training:
        return _in_chunks(hidden, table, labels, weights, targets, training)[0]

    @tf.custom_gradient
    def total(hidden: tf.Tensor, table: tf.Tensor) -> Any:
        # Without stop_gradient, a persistent tape would keep tensors for the loop's own gradient, which is not needed.
        loss, by_hidden, by_table = _in_chunks(
            tf.stop_gradient(hidden), tf.stop_gradient(table), labels, weights, targets, training)

        def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.cast(by_hidden * tf.cast(dy, by_hidden.dtype), hidden.dtype), by_table * dy

        return loss, grad

    return total(hidden, table)


def label_surprises(hidden: tf.Tensor, labels: tf.Tensor, logits_of: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Returns minus the log probability of each row's label in nats, ``[rows]`` FP32.

    Rows are processed in chunks, so that only the logits of one chunk are in memory.

    Args:
      hidden: ``[rows, hidden]``.
      labels: ``[rows]`` int32.
      logits_of: function from some rows of ``hidden`` to their logits ``[…, vocabulary]``.
    """
    chunks = tf.maximum((tf.shape(hidden)[0] + CHUNK_ROWS - 1) // CHUNK_ROWS, 1)
    pieces = tf.TensorArray(tf.float32, chunks, element_shape=[None], infer_shape=False)

    def body(chunk: tf.Tensor, pieces: tf.TensorArray) -> tuple:
        part = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
        logits = tf.cast(logits_of(hidden[part]), tf.float32)
        return chunk + 1, pieces.write(chunk, tf.nn.sparse_softmax_cross_entropy_with_logits(labels[part], logits))

    _, pieces = tf.while_loop(lambda chunk, _: chunk < chunks, body, (0, pieces), parallel_iterations=1)
    return pieces.concat()


def _in_chunks(hidden: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, targets: SoftTargets,
               training: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the loss and its gradients; the arguments are those of ``projected_cross_entropy``.

    Returns:
      (loss, an FP32 scalar; gradient of ``hidden`` ``[rows, hidden]``; gradient of ``table`` ``[vocabulary, hidden]``
      FP32). If not training, the gradients have 0 rows.
    """
    dtype, size = hidden.dtype, hidden.shape[1]
    kernel, kernel_sum = tf.cast(table, dtype), tf.reduce_sum(table, 0)
    count = tf.shape(hidden)[0]
    chunks = tf.maximum((count + CHUNK_ROWS - 1) // CHUNK_ROWS, 1)
    rows = (count + chunks - 1) // chunks  # equal chunks, because a short last one would take as long as a full one
    extra = chunks * rows - count
    hidden = tf.pad(hidden, [[0, extra], [0, 0]])
    labels, weights = tf.pad(labels, [[0, extra]]), tf.pad(weights, [[0, extra]])
    wide = tf.float32 if dtype == tf.float16 else dtype
    pieces = tf.TensorArray(wide, chunks if training else 0, element_shape=[None, size])

    def body(chunk: tf.Tensor, loss: tf.Tensor, pieces: Any, by_table: tf.Tensor) -> tuple:
        # With a stop that is not constant, XLA would compute as many rows as there are.
        x = tf.slice(hidden, [chunk * rows, 0], [rows, size])
        weight, label = (tf.slice(values, [chunk * rows], [rows]) for values in (weights, labels))
        indices = _label_indices(label)
        logits = tf.matmul(x, kernel, transpose_b=True)
        probabilities = _softmax(logits)
        sums = tf.linalg.matvec(tf.cast(x, tf.float32), kernel_sum) if targets.off else None
        losses = _row_losses(logits, probabilities, indices, sums, targets)
        if training:
            at_labels = tf.fill(tf.shape(indices)[:1], tf.cast(targets.on - targets.off, probabilities.dtype))
            # The losses are computed before, so that the softmax is not needed any more and can be updated in place.
            with tf.control_dependencies([losses]):
                errors = tf.cast(_minus_at(probabilities, indices, at_labels), dtype)
            by_hidden = tf.cast(tf.matmul(errors, kernel), wide) - tf.cast(targets.off * kernel_sum, wide)
            pieces = pieces.write(chunk, by_hidden * tf.cast(weight, wide)[:, None])
            by_table += _table_gradient(errors, x * tf.cast(weight, dtype)[:, None])
        return chunk + 1, loss + tf.reduce_sum(losses * weight), pieces, by_table

    start = tf.zeros(tf.shape(table) if training else [0, size])
    if training and targets.off:
        start -= targets.off * tf.linalg.matvec(tf.cast(hidden, tf.float32), weights, transpose_a=True)
    _, loss, pieces, by_table = tf.while_loop(
        lambda chunk, *_: chunk < chunks, body, (0, 0.0, pieces, start), parallel_iterations=1)
    by_hidden = tf.reshape(pieces.stack(), [-1, size])[:count] if training else tf.zeros([0, size], wide)
    return loss, by_hidden, by_table


def _table_gradient(errors: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    if x.dtype != tf.float16:
        return tf.cast(tf.matmul(errors, x, transpose_a=True), tf.float32)
    small = x * tf.cast(_FP16_ROOM, tf.float16)
    return tf.cast(tf.matmul(errors, small, transpose_a=True), tf.float32) / _FP16_ROOM
