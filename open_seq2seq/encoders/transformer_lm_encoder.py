"""The Transformer as a language model: self-attention to earlier tokens only, with a cache for generation."""

from __future__ import annotations

import functools
import math
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.encoders.transformer_encoder import EncoderLayer, check_heads
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.recompute import recomputed
from open_seq2seq.parts.transformer.embedding import scaled_rows
from open_seq2seq.parts.transformer.normalization import check_norm_params, make_norm
from open_seq2seq.parts.transformer.position import causal_bias, position_signal

Cache = list[dict[str, tf.Tensor]]


class CausalLayer(EncoderLayer):
    """A layer of the Transformer's encoder that can also be run token by token."""

    def prepare(self, dtype: tf.DType) -> dict[str, Any]:
        """Returns the cast weights for ``step``."""
        return {"attention": self.self_attention.kernels(dtype), "filter": self.feed_forward.kernels(dtype)}

    def step(self, x: tf.Tensor, cache: dict[str, tf.Tensor],
             prepared: dict[str, Any]) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Transforms the newest token of each text.

        Args:
          x: ``[batch, 1, hidden]``.
          cache: keys and values of the earlier tokens; see ``SelfAttention.initial_cache``.
          prepared: the result of ``prepare``.

        Returns:
          (output ``[batch, 1, hidden]``, the cache with the newest token).
        """
        attended, cache = self.self_attention.step(self.self_attention_norm(x), cache, prepared["attention"])
        x = x + attended
        return x + self.feed_forward(self.feed_forward_norm(x), prepared["filter"]), cache


class TransformerLMEncoder(LanguageEncoder):
    """Stack of causal self-attention layers that predicts each token from those before it.

    See Vaswani et al. 2017, https://arxiv.org/abs/1706.03762. Each chunk of a text is processed separately: no state
    is carried over. Generation caches keys and values, so that each step processes only the newest token.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **LanguageEncoder.get_required_params(),
            "encoder_layers": Param(int, doc="Number of layers.", minimum=1, maximum=1000),
            "hidden_size": Param(int, doc="Number of channels between layers; a multiple of num_heads.", minimum=1),
            "num_heads": Param(int, doc="Number of attention heads.", minimum=1, on_change=REFUSE),
            "filter_size": Param(int, doc="Number of channels inside the feed-forward sublayer.", minimum=1),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        def rate(doc: str) -> Param:
            return Param(float, 0.1, doc, minimum=0.0, below=1.0)

        return {
            **LanguageEncoder.get_optional_params(),
            "attention_dropout": rate("Dropout rate for attention weights."),
            "relu_dropout": rate("Dropout rate inside the feed-forward sublayer."),
            "layer_postprocess_dropout": rate("Dropout rate for embeddings and each sublayer's output."),
            "norm_params": Param(dict, {"type": "layernorm_L2"},
                                 "Normalisation: type (layernorm_L2 or layernorm_L1) and its settings.",
                                 on_change=REFUSE),
            "recompute": Param(bool, False, "Whether to use gradient checkpointing; see TransformerEncoder.",
                               on_change=FREE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, size = self.params, self.params["hidden_size"]
        norm_params = check_norm_params(params["norm_params"], f"{self.params_path}/norm_params")
        check_heads(params, self.params_path)
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        self.output_size = size
        table = tf.keras.initializers.RandomNormal(0.0, size ** -0.5)
        self.embedding = self.weight([params["vocab_size"], size], table, regularizer=regularizer)
        self.layers = [CausalLayer({**params, "remove_padding": False}, norm_params, initializer, regularizer)
                       for _ in range(params["encoder_layers"])]
        self.output_norm = make_norm(size, norm_params)
        self.output_layer = self._make_output_layer(self.embedding, initializer, regularizer)

    def _problems(self) -> list[str]:
        params, path, problems = self.params, self.params_path, []
        if params["carry_state"]:
            problems.append("'data_layer_params/carry_state' is True, but TransformerLMEncoder carries no state from "
                            "chunk to chunk: set it to False, and raise data_layer_params/bptt for more context.")
        if params["norm_params"].get("type") == "batch_norm":
            problems.append(f"'{path}/norm_params/type' is batch_norm, whose statistics would depend on later tokens: "
                            "choose layernorm_L2 or layernorm_L1.")
        return problems

    def _embedded(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Returns embeddings with positions, FP32 ``[batch, time, hidden]``, for ids ``[batch, time]``."""
        size = self.params["hidden_size"]
        scale = tf.fill([1, 1], math.sqrt(size))
        rows = scaled_rows(tf.convert_to_tensor(self.embedding), tf.reshape(ids, [-1]), scale)
        return tf.reshape(rows, tf.concat([tf.shape(ids), [size]], 0)) + position_signal(positions, size)

    def _hidden(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        length, params = tf.shape(ids)[1], self.params
        x = dropout(tf.cast(self._embedded(ids, tf.range(length)), self.compute_dtype),
                    params["layer_postprocess_dropout"], self.training)
        mask, bias = tf.sequence_mask(lengths, length), causal_bias(length)
        for layer in self.layers:
            run = functools.partial(layer, training=self.training)
            x = recomputed(run, x, mask, bias) if params["recompute"] and self.training else run(x, mask, bias)
        outputs = self.output_norm(x, mask, self.training)
        return {"outputs": outputs, "raw_outputs": outputs, "state": None}

    def prepare(self) -> list[dict[str, Any]]:
        return [layer.prepare(self.compute_dtype) for layer in self.layers]

    def initial_cache(self, batch: tf.Tensor) -> Cache:
        return [layer.self_attention.initial_cache(batch, 1, self.compute_dtype) for layer in self.layers]

    def step(self, ids: tf.Tensor, number: tf.Tensor, cache: Cache, prepared: Any) -> tuple[tf.Tensor, Cache]:
        x = tf.cast(self._embedded(ids, number[tf.newaxis]), self.compute_dtype)
        x = tf.ensure_shape(x, [None, 1, self.params["hidden_size"]])
        grown = []
        for layer, old, constants in zip(self.layers, cache, prepared, strict=True):
            x, new = layer.step(x, old, constants)
            grown.append(new)
        return self.output_layer.logits(self.output_norm(x)), grown
