"""A config's Transformer built from standard Keras layers, as a baseline for the cost of a step without the toolkit.

Same network and batches, written like a tutorial: pre-norm encoder and decoder, embeddings shared
with the softmax, dropout, label smoothing and Adam. Padding is computed like any other position, logits
are computed for the whole batch, and half precision uses Keras's dtype policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks.measuring.settings import compute_type
from open_seq2seq.parts.transformer.position import position_signal
from open_seq2seq.utils.errors import UserError


class PlainTransformer(tf.keras.layers.Layer):
    """A Transformer encoder and decoder built from Keras layers.

    Args:
      encoder: ``encoder_params`` of a Transformer's config.
      decoder: ``decoder_params`` of the same config.
      vocabulary: size of the vocabulary that source and target share.
      policy: Keras dtype policy, such as ``mixed_bfloat16``.
    """

    def __init__(self, encoder: Any, decoder: Any, vocabulary: int, policy: str) -> None:
        super().__init__()
        self._size, self._policy = encoder["hidden_size"], policy
        self._table = self.add_weight(shape=(vocabulary, self._size), name="table",
                                      initializer=tf.keras.initializers.RandomNormal(0.0, self._size ** -0.5))
        self._encoder_layers = [[self._attention(encoder), self._feed_forward(encoder)]
                         for _ in range(encoder["encoder_layers"])]
        self._decoder_layers = [[self._attention(decoder), self._attention(decoder), self._feed_forward(decoder)]
                         for _ in range(decoder["num_hidden_layers"])]
        self._final = [self._norm(), self._norm()]

    def _norm(self) -> Any:
        return tf.keras.layers.LayerNormalization(epsilon=1e-6, dtype=self._policy)

    def _attention(self, params: Any) -> Any:
        heads = params["num_heads"]
        layer = tf.keras.layers.MultiHeadAttention(heads, self._size // heads, dropout=params["attention_dropout"],
                                                   use_bias=False, dtype=self._policy)
        return layer, self._norm(), self._dropout(params["layer_postprocess_dropout"])

    def _feed_forward(self, params: Any) -> Any:
        layers = [tf.keras.layers.Dense(params["filter_size"], activation="relu", dtype=self._policy),
                  self._dropout(params["relu_dropout"]), tf.keras.layers.Dense(self._size, dtype=self._policy)]
        return layers, self._norm(), self._dropout(params["layer_postprocess_dropout"])

    def _dropout(self, rate: float) -> Any:
        return tf.keras.layers.Dropout(rate, dtype=self._policy)

    def _embed(self, ids: tf.Tensor) -> tf.Tensor:
        embedded = tf.gather(tf.convert_to_tensor(self._table), ids) * self._size ** 0.5
        embedded += position_signal(tf.range(tf.shape(ids)[1]), self._size)
        return tf.cast(embedded, tf.keras.dtype_policies.get(self._policy).compute_dtype)

    def call(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns logits ``[batch, time, vocabulary]`` for ids ``[batch, time]`` of both sides; 0 is padding."""
        seen, causal = (source != 0)[:, None, :], {"use_causal_mask": True}
        x = self._embed(source)
        for attention, feed_forward in self._encoder_layers:
            x = _attend(attention, x, None, attention_mask=seen)
            x = _transform(feed_forward, x)
        encoded = self._final[0](x)
        y = self._embed(tf.pad(target, [[0, 0], [1, 0]])[:, :-1])
        for attention, cross, feed_forward in self._decoder_layers:
            y = _attend(attention, y, None, **causal)
            y = _attend(cross, y, encoded, attention_mask=seen)
            y = _transform(feed_forward, y)
        y = self._final[1](y)
        return tf.einsum("bth,vh->btv", y, tf.cast(tf.convert_to_tensor(self._table), y.dtype))


def _attend(part: Any, x: tf.Tensor, memory: tf.Tensor | None, **masks: Any) -> tf.Tensor:
    layer, norm, dropout = part
    query = norm(x)
    return x + dropout(layer(query, query if memory is None else memory, training=True, **masks), training=True)


def _transform(part: Any, x: tf.Tensor) -> tf.Tensor:
    (first, inner, second), norm, dropout = part
    return x + dropout(second(inner(first(norm(x)), training=True)), training=True)


def plain_step(trainer: Any, learning_rate: float = 1e-4) -> Callable[[Any], Any]:
    """Returns a function that makes one update of a plain network on a batch and returns the loss.

    Args:
      trainer: the trainer of the config, which determines the network, the data and the dtype.
      learning_rate: Adam's learning rate.

    Raises:
      UserError: the config's encoder and decoder are not a Transformer.
    """
    params = trainer.model.params
    encoder, decoder = (params.get(f"{part}_params") or {} for part in ("encoder", "decoder"))
    if not {"encoder_layers", "filter_size"} <= set(encoder) or "num_hidden_layers" not in decoder:
        raise UserError("--plain works only for Transformers: leave --plain out for this config.")
    vocabulary = trainer.model.data_layer.target_vocab_size
    computed = compute_type(trainer)
    policy = computed if computed == "float32" else f"mixed_{computed}"
    network = PlainTransformer(encoder, decoder, vocabulary, policy)
    optimizer = tf.keras.optimizers.Adam(learning_rate, 0.9, 0.997, 1e-9)
    smoothing = params["loss_params"].get("label_smoothing", 0.0)

    def update(batch: Any) -> tf.Tensor:
        source, target = batch["source_tensors"][0], batch["target_tensors"][0]
        with tf.GradientTape() as tape:
            logits = tf.cast(network(source, target), tf.float32)
            labels = tf.one_hot(target, vocabulary) * (1.0 - smoothing) + smoothing / vocabulary
            losses = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
            weights = tf.cast(target != 0, tf.float32)
            loss = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
        variables = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    compiled = tf.function(update, input_signature=[trainer.model.data_layer.input_signature], autograph=False)
    return lambda batch: compiled(batch).numpy()
