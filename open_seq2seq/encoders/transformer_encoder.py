"""The Transformer's encoder."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import add_dropped, dropout, keep_scale
from open_seq2seq.parts.recompute import run_layers
from open_seq2seq.parts.transformer.attention import Cache, SelfAttention
from open_seq2seq.parts.transformer.embedding import SharedEmbedding
from open_seq2seq.parts.transformer.feed_forward import FeedForward
from open_seq2seq.parts.transformer.normalization import check_norm_params, make_norm
from open_seq2seq.parts.transformer.position import padding_bias, position_signal
from open_seq2seq.utils.errors import ConfigError


class EncoderLayer(Module):
    """Self-attention and feed-forward sublayers with residual connections."""

    def __init__(self, params: Any, norm_params: dict[str, Any], initializer: Any, regularizer: Any) -> None:
        super().__init__(name="encoder_layer")
        hidden_size = params["hidden_size"]
        self.post_dropout = params["layer_postprocess_dropout"]
        self.remove_padding = params["remove_padding"]
        self.self_attention_norm = make_norm(hidden_size, norm_params)
        self.self_attention = self._make_attention(
            params, hidden_size, params["num_heads"], params["attention_dropout"], initializer, regularizer)
        self.feed_forward_norm = make_norm(hidden_size, norm_params)
        self.feed_forward = FeedForward(
            hidden_size, params["filter_size"], params["relu_dropout"], initializer, regularizer)

    def _make_attention(self, params: Any, *arguments: Any) -> SelfAttention:
        return SelfAttention(*arguments)

    def prepare(self, dtype: tf.DType, training: bool = False) -> dict[str, Any]:
        """Returns the weights for ``__call__`` in ``dtype``; generation computes them once for all steps."""
        scale = keep_scale(self.post_dropout, training)
        return {"self_attention": self.self_attention.kernels(dtype, training, scale),
                "feed_forward": self.feed_forward.kernels(dtype, training, scale)}

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, bias: tf.Tensor | None, training: bool = False,
                 weights: dict[str, Any] | None = None, cache: Cache | None = None) -> tuple[tf.Tensor, Cache | None]:
        """Applies the layer to whole sequences or, with a cache, to the positions after those in the cache.

        Args:
          x: ``[batch, time, hidden]`` in the compute dtype.
          mask: boolean ``[batch, time]``, False at padding; None if there is none.
          bias: FP32 tensor that is added to the attention scores; it broadcasts to ``[batch, heads, time, keys]`` and
            is -1e9 at keys that must not be attended to.
          training: whether to apply dropout.
          weights: the result of ``prepare``; by default computed in this call.
          cache: see ``SelfAttention``.

        Returns:
          (output ``[batch, time, hidden]``, the new cache).
        """
        weights = weights or self.prepare(x.dtype, training)
        y, cache = self.self_attention(self.self_attention_norm(x, mask, training), bias, weights["self_attention"],
                                       training, cache, mask)
        x = add_dropped(x, y, self.post_dropout, training)
        rows = mask if self.remove_padding else None
        y = self.feed_forward(self.feed_forward_norm(x, mask, training), weights["feed_forward"], training, rows)
        return add_dropped(x, y, self.post_dropout, training), cache


class TransformerEncoder(Encoder):
    """Stack of self-attention layers (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762).

    Normalisation is applied before each sublayer and after the last layer. By default, ``TransformerDecoder`` uses the
    same embedding.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "encoder_layers": Param(int, doc="Number of layers.", minimum=1, maximum=1000),
            "hidden_size": Param(int, doc="Number of channels between layers; a multiple of num_heads.", minimum=1),
            "num_heads": Param(int, doc="Number of attention heads.", minimum=1, on_change=REFUSE),
            "attention_dropout": Param(float, doc="Dropout rate for attention weights.", minimum=0.0, below=1.0),
            "filter_size": Param(int, doc="Number of channels inside the feed-forward sublayer.", minimum=1),
            "src_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
            "relu_dropout": Param(float, doc="Dropout rate inside the feed-forward sublayer.", minimum=0.0, below=1.0),
            "layer_postprocess_dropout": Param(float, doc="Dropout rate for embeddings and each sublayer's output.",
                                               minimum=0.0, below=1.0),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "remove_padding": Param(bool, True, "Whether the feed-forward sublayer skips padding; results are the "
                                    "same.", on_change=FREE),
            "pad_embeddings_2_eight": Param(bool, False, "Whether to round the number of rows of the embedding table "
                                            "up to a multiple of 8."),
            "norm_params": Param(dict, {"type": "layernorm_L2"},
                                 "Normalisation: type (layernorm_L2, layernorm_L1, batch_norm) and its settings.",
                                 on_change=REFUSE),
            "recompute": Param(bool, False, "Whether to use gradient checkpointing: training keeps only each layer's "
                               "input and recomputes the rest in the backward pass. This needs less memory and more "
                               "time; results are the same.",
                               on_change=FREE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "transformer_encoder",
                 mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        norm_params = check_norm_params(params["norm_params"], f"{self.params_path}/norm_params")
        check_heads(params, self.params_path)
        self.output_size = params["hidden_size"]
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        self.embedding = SharedEmbedding(
            params["src_vocab_size"], params["hidden_size"], params["pad_embeddings_2_eight"])
        self.layers = [
            EncoderLayer(params, norm_params, initializer, regularizer) for _ in range(params["encoder_layers"])]
        self.output_norm = make_norm(params["hidden_size"], norm_params)

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes ids.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, time]`` and lengths ``[batch]``, int32.

        Returns:
          A dict with ``outputs`` ``[batch, time, hidden_size]`` in the compute dtype, ``outputs_length`` and
          ``src_lengths`` ``[batch]``, ``inputs_attention_bias`` ``[batch, 1, 1, time]``, ``embedding_softmax_layer``,
          ``encoder_input`` (the ids), and ``state`` (None).
        """
        ids, lengths = input_dict["source_tensors"][:2]
        length = tf.shape(ids)[1]
        mask = tf.sequence_mask(lengths, length)
        bias = padding_bias(mask)
        x = self.embedding.lookup(ids) + position_signal(tf.range(length), self.params["hidden_size"])
        x = dropout(tf.cast(x, self.compute_dtype), self.params["layer_postprocess_dropout"], self.training)
        x = run_layers(self.layers, x, mask, bias, training=self.training, recompute=self.params["recompute"])
        return {
            "outputs": self.output_norm(x, mask, self.training),
            "outputs_length": lengths,
            "src_lengths": lengths,
            "inputs_attention_bias": bias,
            "embedding_softmax_layer": self.embedding,
            "encoder_input": ids,
            "state": None,
        }


def check_heads(params: Any, path: str) -> None:
    """Raises ConfigError unless ``hidden_size`` is a multiple of ``num_heads``."""
    if params["hidden_size"] % params["num_heads"]:
        raise ConfigError([f"'{path}/hidden_size' must be a multiple of num_heads ({params['num_heads']}), got "
                           f"{params['hidden_size']}."])
