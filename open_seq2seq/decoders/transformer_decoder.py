"""The Transformer's decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.decoders.autoregressive import (
    TranslationDecoder,
    optional_translation_params,
    required_translation_params,
)
from open_seq2seq.decoders.decoder import Decoder, check_loss_of_same_positions
from open_seq2seq.decoding.beam_search import BeamResult
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.convs2s.conv_layer import check_padding
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.dropout import add_dropped, dropout, keep_scale
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.output_layer import OutputProjection, needs_logits
from open_seq2seq.parts.recompute import run_layers
from open_seq2seq.parts.transformer.attention import Cache, CrossAttention, FeedForward, SelfAttention, check_heads
from open_seq2seq.parts.transformer.embedding import SharedEmbedding, mask_extra_ids
from open_seq2seq.parts.transformer.normalization import check_norm_params, make_norm
from open_seq2seq.parts.transformer.position import causal_bias, padding_bias, position_signal
from open_seq2seq.utils.errors import ConfigError

_START_ID = 0  # embedded as zeros, so sequences start with a zero vector


class DecoderLayer(Module):
    """Self-attention, attention to the source, and feed-forward, each with a residual connection.

    Args:
      params: the decoder's checked parameters.
      norm_params: the checked ``norm_params``.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      source_size: number of channels of the source.
    """

    def __init__(self, params: Any, norm_params: dict[str, Any], initializer: Any, regularizer: Any,
                 source_size: int) -> None:
        super().__init__(name="decoder_layer")
        hidden_size, heads, rate = params["hidden_size"], params["num_heads"], params["attention_dropout"]
        self.post_dropout = params["layer_postprocess_dropout"]
        self.self_attention_norm = make_norm(hidden_size, norm_params)
        self.self_attention = SelfAttention(hidden_size, heads, rate, initializer, regularizer)
        self.cross_attention_norm = make_norm(hidden_size, norm_params)
        self.cross_attention = CrossAttention(hidden_size, heads, rate, initializer, regularizer, source_size)
        self.feed_forward_norm = make_norm(hidden_size, norm_params)
        self.feed_forward = FeedForward(
            hidden_size, params["filter_size"], params["relu_dropout"], initializer, regularizer)

    def prepare(self, encoded: tf.Tensor, training: bool = False) -> dict[str, Any]:
        """Returns the values that are the same at all steps: keys and values of the source, and cast kernels.

        The kernels have the dtype of ``encoded``, so that they are not cast at each step.

        Args:
          encoded: ``[batch, source time, source_size]``.
          training: whether dropout is applied.
        """
        dtype, scale = encoded.dtype, keep_scale(self.post_dropout, training)
        return {
            "memory": self.cross_attention.memory(encoded, training),
            "self_attention": self.self_attention.kernels(dtype, training, scale),
            "cross_attention": self.cross_attention.kernels(dtype, scale),
            "feed_forward": self.feed_forward.kernels(dtype, training, scale),
        }

    def __call__(self, x: tf.Tensor, source_bias: tf.Tensor, encoded: tf.Tensor | None = None,
                 mask: tf.Tensor | None = None, bias: tf.Tensor | None = None, training: bool = False,
                 prepared: dict[str, Any] | None = None, cache: Cache | None = None) -> tuple[tf.Tensor, Cache | None]:
        """Transforms whole target sequences or, with a cache, the newest position of each hypothesis.

        Args:
          x: ``[batch, time, hidden]``; with a cache, ``[batch, beam, hidden]``.
          source_bias: ``[batch, 1, 1, source time]``, -1e9 at padding, else 0.
          encoded: ``[batch, source time, source_size]``; not needed with ``prepared``.
          mask: boolean ``[batch, time]``, False at padding; None if there is none.
          bias: ``[1, 1, time, time]``, added to the attention scores: -1e9 at positions after the query's, else 0.
          training: whether to apply dropout.
          prepared: the result of ``prepare``; by default computed in this call.
          cache: see ``SelfAttention``.

        Returns:
          (output of the shape of ``x``, the new cache).
        """
        prepared = prepared or self.prepare(encoded, training)
        shape, y = tf.shape(x), self.self_attention_norm(x, mask, training)
        if cache is not None:  # each hypothesis attends to its own positions
            y = tf.reshape(y, [-1, 1, y.shape[-1]])
        y, cache = self.self_attention(y, bias, prepared["self_attention"], training, cache)
        x = add_dropped(x, tf.reshape(y, shape), self.post_dropout, training)
        y = self.cross_attention(self.cross_attention_norm(x, mask, training), prepared["memory"], source_bias,
                                 prepared["cross_attention"], training)
        x = add_dropped(x, y, self.post_dropout, training)
        y = self.feed_forward(self.feed_forward_norm(x, mask, training), prepared["feed_forward"], training)
        return add_dropped(x, y, self.post_dropout, training), cache


class TransformerDecoder(TranslationDecoder):
    """Stack of layers with masked self-attention and attention to the source (Vaswani et al. 2017).

    The encoder's embedding table is also used for target embeddings and the output projection; with
    ``share_source_embedding: False``, the decoder has its own table, and any encoder can be used: the attention
    projects the encoder's outputs, whatever their size. Targets are shifted right and start with a zero vector, so no
    start symbol is needed.

    Targets are ids ``[batch, time]`` that end with EOS. With targets, the decoder returns ``logits``
    ``[batch, time, rows of the table]``, ``outputs`` (the most likely ids ``[batch, time]``), and ``projection``, from
    which a loss can be computed without all logits in memory. Without targets, ``outputs`` are the best ids
    ``[batch, length]``.
    """

    start_id = _START_ID
    source_parts = ("memories", "source_bias")

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "EOS_ID": Param(int, doc="Id that ends a sentence.", minimum=0, on_change=REFUSE),
            "layer_postprocess_dropout": Param(float, doc="Dropout rate for embeddings and each sublayer's output.",
                                               minimum=0.0, below=1.0),
            "num_hidden_layers": Param(int, doc="Number of layers.", minimum=1, maximum=1000),
            "hidden_size": Param(int, doc="Number of channels between layers: a multiple of num_heads and, with "
                                 "share_source_embedding, the size of the encoder's embeddings.", minimum=1),
            "num_heads": Param(int, doc="Number of attention heads.", minimum=1, on_change=REFUSE),
            "attention_dropout": Param(float, doc="Dropout rate for attention weights.", minimum=0.0, below=1.0),
            "relu_dropout": Param(float, doc="Dropout rate inside the feed-forward sublayer.", minimum=0.0, below=1.0),
            "filter_size": Param(int, doc="Number of channels inside the feed-forward sublayer.", minimum=1),
            "batch_size": Param(int, doc="Set by the model; has no effect.", unit="sentences",
                                derived=True, minimum=1),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
            **required_translation_params(),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "GO_SYMBOL": Param(int, None, "Accepted for old configs; has no effect, because sequences start with a "
                               "zero vector.", minimum=0,
                               on_change=FREE),
            "PAD_SYMBOL": Param(int, 0, "Id of padding; must be 0."),
            "END_SYMBOL": Param(int, None, "Accepted for old configs; has no effect, because EOS_ID is used.",
                                minimum=0),
            "norm_params": Param(dict, {"type": "layernorm_L2"},
                                 "Normalisation: type (layernorm_L2, layernorm_L1, batch_norm) and its settings.",
                                 on_change=REFUSE),
            "share_source_embedding": Param(bool, True, "Whether to use the encoder's embedding table; source and "
                                            "target then need the same vocabulary. Otherwise, the decoder has its own "
                                            "table.", on_change=REFUSE),
            "recompute": Param(bool, False, "Whether to use gradient checkpointing; see TransformerEncoder.",
                               on_change=FREE),
            **optional_translation_params(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "transformer_decoder",
                 mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        check_heads(params, path)
        check_padding(params, path)
        norm_params = check_norm_params(params["norm_params"], f"{path}/norm_params")
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        self._source_size: int = getattr(getattr(model, "encoder", None), "output_size", None) or params["hidden_size"]
        self.embedding = None if params["share_source_embedding"] else SharedEmbedding(
            params["tgt_vocab_size"], params["hidden_size"])
        self.layers = [DecoderLayer(params, norm_params, initializer, regularizer, self._source_size)
                       for _ in range(params["num_hidden_layers"])]
        self.output_norm = make_norm(params["hidden_size"], norm_params)

    def _embedding(self, encoder_output: Mapping[str, Any]) -> SharedEmbedding:
        """Returns the embedding of the targets, by default the one that encoder and decoder share.

        Raises:
          ConfigError: the encoder's output has no embedding, or one with another hidden size or too few rows.
        """
        if self.embedding is not None:
            return self.embedding
        embedding: SharedEmbedding | None = encoder_output.get("embedding_softmax_layer")
        if embedding is None:
            raise ConfigError(["TransformerDecoder needs the encoder's embedding table: use an encoder that returns a "
                               "parts.transformer.embedding.SharedEmbedding as 'embedding_softmax_layer', or set "
                               f"'{self.params_path}/share_source_embedding' to False."])
        if embedding.hidden_size != self.params["hidden_size"] or embedding.rows < self.params["tgt_vocab_size"]:
            raise ConfigError([
                f"'{self.params_path}' has {self.params['tgt_vocab_size']} ids and hidden_size "
                f"{self.params['hidden_size']}, but the encoder's embedding table, which the decoder shares, has "
                f"{embedding.rows} ids and hidden_size {embedding.hidden_size}: set the same vocabulary and "
                "hidden_size for both, or share_source_embedding to False."])
        return embedding

    def _teacher_force(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        check_loss_of_same_positions(self.model, type(self).__name__)
        embedding = self._embedding(encoder_output)
        length = tf.shape(ids)[1]
        mask = tf.sequence_mask(lengths, length)
        # Id 0 is embedded as zeros, so shifting the ids is the same as shifting the embeddings.
        x = self._embedded(embedding, tf.pad(ids, [[0, 0], [1, 0]])[:, :-1], tf.range(length))
        x = run_layers(self.layers, dropout(x, self.params["layer_postprocess_dropout"], self.training),
                       _source_bias(encoder_output), self._encoded(encoder_output), mask,
                       causal_bias(length), training=self.training, recompute=self.params["recompute"])
        hidden = self.output_norm(x, mask, self.training)
        projection = OutputProjection(hidden, tf.convert_to_tensor(embedding.table), self.training)
        if not needs_logits(self):
            return {"logits": None, "outputs": None, "projection": projection}
        logits = embedding.logits(hidden)
        best = tf.argmax(mask_extra_ids(logits, self.params["tgt_vocab_size"]), -1, tf.int32)
        return {"logits": logits, "outputs": [best], "projection": projection}

    def _encoded(self, encoder_output: Mapping[str, Any]) -> tf.Tensor:
        """Returns the encoder's outputs in the compute dtype."""
        outputs = tf.cast(encoder_output["outputs"], self.compute_dtype)
        if outputs.shape[-1] not in (None, self._source_size):
            raise ConfigError([f"The encoder's outputs have {outputs.shape[-1]} channels, but the decoder was made for "
                               f"{self._source_size}: give the encoder an attribute output_size, or set "
                               f"'{self.params_path}/hidden_size' to the same number."])
        return outputs

    def _embedded(self, embedding: SharedEmbedding, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Returns embeddings ``[batch, time or beam, hidden]`` of ids at ``positions`` ``[time]`` (one for a beam)."""
        x = embedding.lookup(ids) + position_signal(positions, self.params["hidden_size"])
        return tf.cast(x, self.compute_dtype)

    def initial_cache(self, encoder_output: Mapping[str, Any], beam_size: int) -> list[Cache]:
        """Returns an empty cache for each layer, with tensors ``[batch, beam, heads, 0, depth]``."""
        batch = tf.shape(encoder_output["outputs"])[0]
        return [layer.self_attention.initial_cache(batch, beam_size, self.compute_dtype) for layer in self.layers]

    def prepare(self, encoder_output: Mapping[str, Any]) -> dict[str, Any]:
        """Returns keys and values of the source, the bias that masks its padding, and weights in the compute dtype."""
        embedding = self._embedding(encoder_output)
        encoded = self._encoded(encoder_output)
        layers = [layer.prepare(encoded) for layer in self.layers]
        return {
            "memories": [constants.pop("memory") for constants in layers],
            "layers": layers,
            "source_bias": _source_bias(encoder_output),
            "embedding": embedding,
            "output": embedding.output_matrix(self.params["tgt_vocab_size"], self.compute_dtype),
        }

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: list[Cache],
             prepared: dict[str, Any]) -> tuple[tf.Tensor, list[Cache]]:
        x = self._embedded(prepared["embedding"], ids, step[None])
        grown: list[Any] = []
        for layer, constants, memory, old in zip(self.layers, prepared["layers"], prepared["memories"], cache,
                                                 strict=True):
            x, new = layer(x, prepared["source_bias"], prepared={**constants, "memory": memory}, cache=old)
            grown.append(new)
        return times_matrix(self.output_norm(x), prepared["output"]), grown

    def _outputs(self, result: BeamResult) -> list[tf.Tensor]:
        return [result.ids[:, 0]]


def _source_bias(encoder_output: Mapping[str, Any]) -> tf.Tensor:
    """Returns the bias ``[batch, 1, 1, source time]`` that masks padding of the source.

    It is taken from the encoder's output, or else computed from the lengths.
    """
    bias = encoder_output.get("inputs_attention_bias")
    if bias is not None:
        return bias
    return padding_bias(tf.sequence_mask(lengths_of(encoder_output), tf.shape(encoder_output["outputs"])[1]))
