"""Penalties that teach the attention of speech synthesis to follow the text, each summed over an example's steps.

In all of them, ``alignments`` are attention weights ``[batch, steps, symbols]``, and ``steps`` and ``symbols`` are the
numbers of each example ``[batch]``.
"""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.parts.ctc import ctc_loss

_TINY = 1e-8
_BLANK = -1.0  # logit of the blank in the forward sum
_MARGIN = 0.01  # least progress of a step, in shares of the mean progress


def guided_attention(alignments: tf.Tensor, steps: tf.Tensor, symbols: tf.Tensor, sigma: float) -> tf.Tensor:
    """Returns the attention of each example that is far from the diagonal, summed over its steps ``[batch]``.

    Step t of T and symbol n of N have the weight ``1 - exp(-(n / N - t / T)² / (2 sigma²))``, with the example's own
    numbers of steps and symbols (Tachibana et al. 2017, https://arxiv.org/abs/1710.08969, section 3.3).

    Args:
      alignments: attention weights ``[batch, steps, symbols]``.
      steps: number of steps of each example ``[batch]``.
      symbols: number of symbols of each example ``[batch]``.
      sigma: width of the diagonal, as a share of the text.
    """
    weights = tf.cast(alignments, tf.float32)
    shape = tf.shape(weights)
    t, n = (tf.cast(tf.range(size), tf.float32) for size in (shape[1], shape[2]))
    time = t / tf.cast(tf.maximum(steps, 1), tf.float32)[:, tf.newaxis]
    place = n / tf.cast(tf.maximum(symbols, 1), tf.float32)[:, tf.newaxis]
    far = 1.0 - tf.exp(-(place[:, tf.newaxis] - time[:, :, tf.newaxis]) ** 2 / (2.0 * sigma ** 2))
    inside = tf.sequence_mask(steps, shape[1], tf.float32)[:, :, tf.newaxis] \
        * tf.sequence_mask(symbols, shape[2], tf.float32)[:, tf.newaxis]
    return tf.reduce_sum(weights * far * inside, [1, 2])


def attention_to_durations(alignments: tf.Tensor, durations: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
    """Returns the negative logarithm of the weight of the symbol that is spoken, summed over the steps ``[batch]``.

    Args:
      alignments, steps: see above.
      durations: number of frames of each symbol ``[batch, symbols]``.
    """
    weights = tf.cast(alignments, tf.float32)
    time, size = tf.shape(weights)[1], tf.shape(weights)[2]
    ends = tf.cumsum(tf.cast(durations, tf.int32), axis=1)
    spoken = tf.minimum(tf.searchsorted(ends, tf.tile(tf.range(time)[tf.newaxis], [tf.shape(ends)[0], 1]), "right"),
                        size - 1)
    losses = -tf.math.log(tf.gather(weights, spoken, batch_dims=2) + _TINY)
    return tf.reduce_sum(losses * tf.sequence_mask(steps, time, tf.float32), 1)


def backward_attention(alignments: tf.Tensor, steps: tf.Tensor, symbols: tf.Tensor) -> tf.Tensor:
    """Returns by how many symbols the mean position goes back, summed over the steps ``[batch]``.

    This is the regulariser of Regotron (Georgiou et al. 2022, https://arxiv.org/abs/2204.13437): progress of less than
    1 % of the mean progress is penalised, too.

    Args:
      alignments, steps, symbols: see above.
    """
    weights = tf.cast(alignments, tf.float32)
    positions = tf.linalg.matvec(weights, tf.cast(tf.range(tf.shape(weights)[2]), tf.float32))
    margin = _MARGIN * tf.cast(symbols, tf.float32) / tf.cast(tf.maximum(steps, 1), tf.float32)
    back = tf.nn.relu(positions[:, :-1] - positions[:, 1:] + margin[:, tf.newaxis])
    return tf.reduce_sum(back * tf.sequence_mask(steps - 1, tf.shape(back)[1], tf.float32), 1)


def forward_sum(alignments: tf.Tensor, steps: tf.Tensor, symbols: tf.Tensor) -> tf.Tensor:
    """Returns the negative log probability of all monotonic alignments that pass each symbol ``[batch]``.

    This is the loss of One TTS Alignment (Badlani et al. 2021, https://arxiv.org/abs/2108.10447), with its static prior
    (``beta_binomial``). It is 0 for texts with more symbols than steps.

    Args:
      alignments, steps, symbols: see above.
    """
    weights = tf.cast(alignments, tf.float32)
    batch, time, size = tf.unstack(tf.shape(weights))
    logits = tf.math.log(weights + _TINY) + beta_binomial(steps, symbols, time, size)
    logits = tf.where(tf.sequence_mask(symbols, size)[:, tf.newaxis], logits, -1e9)
    logits = tf.concat([logits, tf.fill([batch, time, 1], _BLANK)], 2)
    losses = ctc_loss(logits, tf.tile(tf.range(size)[tf.newaxis], [batch, 1]), symbols, steps)
    return tf.where(symbols <= steps, losses, 0.0)


def beta_binomial(steps: tf.Tensor, symbols: tf.Tensor, time: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the log probabilities ``[batch, time, size]`` of the beta-binomial prior, near the diagonal the largest.

    At step t of T, counted from 1, the symbol has the distribution of N - 1 draws with the parameters t and T + 1 - t.

    Args:
      steps, symbols: see above.
      time, size: numbers of steps and symbols with padding, whose values have no meaning.
    """
    t, k = tf.cast(tf.range(1, time + 1), tf.float32)[tf.newaxis, :, tf.newaxis], tf.cast(tf.range(size), tf.float32)
    most = tf.cast(tf.maximum(steps, 1), tf.float32)[:, tf.newaxis, tf.newaxis]
    n = tf.cast(tf.maximum(symbols, 1), tf.float32)[:, tf.newaxis, tf.newaxis] - 1.0
    a, k = tf.minimum(t, most), tf.minimum(k, n)
    b, log = most + 1.0 - a, tf.math.lgamma
    return (log(n + 1) - log(k + 1) - log(n - k + 1) + log(k + a) + log(n - k + b) - log(n + a + b)
            + log(a + b) - log(a) - log(b))
