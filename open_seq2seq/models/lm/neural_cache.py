"""The continuous cache of recent hidden states (Grave et al. 2017, https://arxiv.org/abs/1612.04426)."""

from __future__ import annotations

import math

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.parts.component import Module


def cache_params() -> dict[str, Param]:
    """Returns the declarations of the cache's settings."""
    return {
        "size": Param(int, 500, "Number of recent tokens in the cache.", "tokens", minimum=1, maximum=10**6),
        "weight": Param(float, 0.1, "Weight of the cache's probabilities.", minimum=0.0, below=1.0),
        "scale": Param(float, 0.3, "Factor of the dot products of hidden states.", minimum=0.0),
    }


class NeuralCache(Module):
    """Mixes a model's probabilities with those of the tokens that followed similar hidden states.

    P(w) = (1 - weight) · P_model(w) + weight · Σ softmax(scale · h · h_i) [w_i = w], where h is the current hidden
    state. The softmax and the sum are over the last ``size`` tokens w_i of the same row, and h_i is the hidden state
    from which w_i was predicted. The cache is carried over from chunk to chunk, so results do not depend on how a text
    is cut into chunks.

    Args:
      hidden_size: number of channels of the hidden states.
      size: number of recent tokens.
      weight: weight of the cache's probabilities.
      scale: factor of the dot products of hidden states.
    """

    def __init__(self, hidden_size: int, size: int, weight: float, scale: float) -> None:
        super().__init__(name="neural_cache")
        self._size, self._weight, self._scale = size, weight, scale
        self.hidden = self.carried_state([size, hidden_size])
        self.ids = self.carried_state([size], tf.int32)
        self.count = self.carried_state([], tf.int32)

    def __call__(self, hidden: tf.Tensor, ids: tf.Tensor, negative_log_probs: tf.Tensor,
                 lengths: tf.Tensor) -> tf.Tensor:
        """Returns minus the log probability of each token under the mixture, in nats, ``[batch, time]`` FP32.

        The tokens and their hidden states are then added to the cache.

        Args:
          hidden: hidden states ``[batch, time, hidden]``, from which the tokens are predicted.
          ids: the tokens ``[batch, time]`` int32.
          negative_log_probs: minus the model's log probabilities of the tokens, in nats, ``[batch, time]`` FP32.
          lengths: ``[batch]`` int32, in tokens.
        """
        hidden = tf.cast(hidden, tf.float32)
        count, time = self.count.read(), tf.shape(ids)[1]
        keys = tf.concat([self.hidden.read(), hidden], 1)
        labels = tf.concat([self.ids.read(), ids], 1)
        # In ``labels``, token t of the chunk has the index size + t, and the tokens in its cache have the indices t to
        # size + t - 1.
        position, step = tf.range(self._size + time), tf.range(time)[:, tf.newaxis]
        recent = (position >= step) & (position < self._size + step)
        mask = recent & (position >= self._size - count[:, tf.newaxis, tf.newaxis])
        scores = tf.where(mask, self._scale * tf.matmul(hidden, keys, transpose_b=True), -1e9)
        same = tf.cast(labels[:, tf.newaxis] == ids[:, :, tf.newaxis], tf.float32)
        cached = tf.reduce_sum(tf.nn.softmax(scores) * same, -1)
        mixed = (1.0 - self._weight) * tf.exp(-negative_log_probs) + self._weight * cached
        self._remember(keys, labels, tf.minimum(count + lengths, self._size), lengths)
        # The mixture's probability is at least (1 - weight) · P_model. The minimum enforces this where P_model, unlike
        # its logarithm, is 0 in FP32. Tokens with an empty cache keep the model's probability.
        by_mixture = tf.minimum(-tf.math.log(mixed), negative_log_probs - math.log1p(-self._weight))
        return tf.where(tf.reduce_any(mask, -1), by_mixture, negative_log_probs)

    def _remember(self, keys: tf.Tensor, labels: tf.Tensor, count: tf.Tensor, lengths: tf.Tensor) -> None:
        indices = lengths[:, tf.newaxis] + tf.range(self._size)
        self.hidden.write(tf.gather(keys, indices, batch_dims=1))
        self.ids.write(tf.gather(labels, indices, batch_dims=1))
        self.count.write(count)
