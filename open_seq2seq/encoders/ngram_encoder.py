"""An encoder without layers: embeddings of tokens and of the n-grams that end at them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.dropout import keep_mask_of, keep_scale

_FACTOR = 0x9E3779B1  # of the hash of n-grams: an odd number near 2³² / golden ratio, which spreads products evenly


class NgramEncoder(Encoder):
    """Sums of the embeddings of each token and of the n-grams that end at it (Joulin et al. 2016).

    Pooled by ``SoftmaxDecoder``, this is a bag of n-grams, like fastText: https://arxiv.org/abs/1607.01759. It
    trains in seconds. Tokens have embeddings of their own. All longer
    n-grams share ``buckets`` embeddings, chosen by a hash of their ids, so that n-grams need no vocabulary.
    Embeddings are zero at the start, so that those that training has not seen change no result.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "src_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "embedding_size": Param(int, 8, "Size of the embeddings and of the outputs.", minimum=1),
            "max_ngram": Param(int, 2, "Number of tokens of the longest n-grams; 1 for tokens alone.", "tokens",
                               minimum=1, maximum=10, on_change=REFUSE),
            "buckets": Param(int, 1 << 20, "Number of embeddings that all n-grams of at least two tokens share.",
                             minimum=1, maximum=1 << 28),
            "embedding_scale": Param(float, 30.0, "Factor of the embeddings in the outputs. With a large one and a low "
                                     "learning rate, embeddings are learned while later layers hardly change, which "
                                     "overfits less.", above=0.0, on_change=REFUSE),
            "dropout": Param(float, 0.0, "Share of the tokens and n-grams that each training step leaves out.",
                             minimum=0.0, below=1.0),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "ngram_encoder",
                 mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        self.output_size = params["embedding_size"]
        rows = params["src_vocab_size"] + (params["buckets"] if params["max_ngram"] > 1 else 0)
        self.embedding = self.weight([rows, self.output_size], "zeros", regularizer=self.make_regularizer())

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes ids.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, time]`` and lengths ``[batch]``, int32.

        Returns:
          A dict with ``outputs`` ``[batch, time, embedding_size]`` in the compute dtype, zero at padding, and
          ``outputs_length`` ``[batch]``.
        """
        ids, lengths = input_dict["source_tensors"][:2]
        rows, mask = self._rows(ids, lengths)
        if self.training and self.params["dropout"]:
            mask &= keep_mask_of(mask, self.params["dropout"])
        scale = self.params["embedding_scale"] * keep_scale(self.params["dropout"], self.training)
        factors = tf.where(mask, scale, 0.0)
        embedded = tf.gather(self.embedding, rows) * tf.expand_dims(factors, -1)
        return {"outputs": tf.cast(tf.reduce_sum(embedded, axis=2), self.compute_dtype), "outputs_length": lengths}

    def _rows(self, ids: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the rows of the table for the n-grams that end at each position, and which of them exist.

        Both are ``[batch, time, max_ngram]``; the first is int64, the second boolean.
        """
        size = self.params["src_vocab_size"]
        number = hashed = tf.cast(ids, tf.int64)
        place = tf.range(tf.shape(ids)[1])
        mask = place < lengths[:, tf.newaxis]
        rows, masks = [tf.where((ids >= 0) & (ids < size), number, 0)], [mask]
        for order in range(1, self.params["max_ngram"]):
            # The hash of the n-gram that ends one token earlier; at the first position, there is none.
            before = tf.pad(hashed, [[0, 0], [1, 0]])[:, :-1]
            hashed = (before * _FACTOR + number + order) % (1 << 31)
            rows.append(size + hashed % self.params["buckets"])
            masks.append(mask & (place >= order))
        return tf.stack(rows, axis=2), tf.stack(masks, axis=2)
