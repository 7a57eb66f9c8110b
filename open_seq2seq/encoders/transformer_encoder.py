"""The Transformer's encoder, and the Transformer as a language model."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.parts.carried_state import CarriedState
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import add_dropped, dropout, keep_scale
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.recompute import run_layers
from open_seq2seq.parts.transformer.attention import Cache, FeedForward, SelfAttention, check_heads
from open_seq2seq.parts.transformer.embedding import SharedEmbedding, scaled_rows
from open_seq2seq.parts.transformer.normalization import check_norm_params, make_norm
from open_seq2seq.parts.transformer.position import MASKED, causal_bias, distance_bias, padding_bias, position_signal


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


class MemoryAttention(SelfAttention):
    """Self-attention with a memory: the keys and values of the last positions are carried over to the next chunk.

    No gradient flows into earlier chunks.

    Args:
      memory_length: number of positions in the memory.
      args: the arguments of ``SelfAttention``.
    """

    def __init__(self, memory_length: int, *args: Any) -> None:
        super().__init__(*args)
        self._memory_length = memory_length
        shape = [self.num_heads, memory_length, self.depth]
        self.keys, self.values = self.carried_state(shape), self.carried_state(shape)

    def _with_memory(self, key: tf.Tensor, value: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Appends the keys and values of chunks to the memory, which is updated.

        Returns:
          (keys, values), each ``[batch, heads, memory_length + time, depth]``. The attention bias has to mask the
          positions of the memory that are still empty.
        """
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), 1)
        return self._extended(self.keys, key, lengths), self._extended(self.values, value, lengths)

    def _extended(self, memory: CarriedState, new: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Appends ``new`` ``[batch, heads, time, depth]`` to the memory along time; updates the memory.

        Returns:
          ``[batch, heads, memory_length + time, depth]``.
        """
        whole = tf.concat([tf.cast(memory.read(), new.dtype), new], 2)
        last = lengths[:, tf.newaxis] + tf.range(self._memory_length)
        memory.write(tf.gather(whole, last, axis=2, batch_dims=1))
        return whole


class CausalLayer(EncoderLayer):
    """A layer of the Transformer's encoder that can also be run chunk by chunk with a memory."""

    def _make_attention(self, params: Any, *arguments: Any) -> SelfAttention:
        if params["carry_state"]:
            return MemoryAttention(params["memory_length"], *arguments)
        return super()._make_attention(params, *arguments)


class TransformerLMEncoder(LanguageEncoder):
    """Stack of causal self-attention layers that predicts each token from those before it.

    See Vaswani et al. 2017, https://arxiv.org/abs/1706.03762. By default, each chunk of a text is processed separately.
    With ``carry_state``, the keys and values of the last ``memory_length`` positions are carried over to the next chunk
    (Dai et al. 2019, https://arxiv.org/abs/1901.02860). Generation caches keys and values, so that each step processes
    only the newest token.
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
            "position_encoding": Param(["sinusoidal", "alibi"], "sinusoidal", "How attention depends on positions. "
                                       "sinusoidal: sinusoids are added to the embeddings; alibi: a bias proportional "
                                       "to the distance is added to the attention scores (ALiBi).", on_change=REFUSE),
            "memory_length": Param((int, type(None)), None, "With position_encoding alibi: maximum number of earlier "
                                   "tokens that each token attends to. With carry_state, they include tokens of "
                                   "earlier chunks. None for all earlier tokens of the chunk.", "tokens", minimum=1,
                                   maximum=10**6),
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
        self.count = self.carried_state([], tf.int32) if params["carry_state"] else None
        self.layers = [CausalLayer({**params, "remove_padding": False}, norm_params, initializer, regularizer)
                       for _ in range(params["encoder_layers"])]
        self.output_norm = make_norm(size, norm_params)
        self.output_layer = self._make_output_layer(self.embedding, initializer, regularizer)

    def _problems(self) -> list[str]:
        params, path, problems = self.params, self.params_path, []
        if params["carry_state"] and params["memory_length"] is None:
            problems.append("'data_layer_params/carry_state' is True, but TransformerLMEncoder carries no state from "
                            f"chunk to chunk without a memory: set '{path}/memory_length', or carry_state to False.")
        if params["memory_length"] is not None and params["position_encoding"] != "alibi":
            problems.append(f"'{path}/memory_length' is {params['memory_length']}, but sinusoids number the tokens of "
                            "each chunk from its beginning: set position_encoding to alibi.")
        if params["norm_params"].get("type") == "batch_norm":
            problems.append(f"'{path}/norm_params/type' is batch_norm, whose statistics would depend on later tokens: "
                            "choose layernorm_L2 or layernorm_L1.")
        return problems

    def _embedded(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Returns the scaled embeddings of ids, plus sinusoids unless ``position_encoding`` is ``alibi``.

        Args:
          ids: ``[batch, time]`` int32.
          positions: positions of the ids in their text or chunk, ``[time]`` int32.

        Returns:
          ``[batch, time, hidden_size]`` FP32.
        """
        size = self.params["hidden_size"]
        scale = tf.fill([1, 1], math.sqrt(size))
        rows = scaled_rows(tf.convert_to_tensor(self.embedding), tf.reshape(ids, [-1]), scale)
        rows = tf.reshape(rows, tf.concat([tf.shape(ids), [size]], 0))
        return rows if self.params["position_encoding"] == "alibi" else rows + position_signal(positions, size)

    def _bias(self, lengths: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Returns the attention bias of chunks; with ``carry_state``, also updates the number of positions remembered.

        Args:
          lengths: lengths of the chunks in tokens ``[batch]`` int32.
          length: number of positions, including padding.

        Returns:
          FP32 tensor that broadcasts to ``[batch, heads, length, keys]``. The queries are the positions of the chunk.
          The keys are the same positions; with ``carry_state``, the ``memory_length`` positions before the chunk
          precede them.
        """
        if self.params["position_encoding"] == "sinusoidal":
            return causal_bias(length)
        heads, window, steps = self.params["num_heads"], self.params["memory_length"], tf.range(length)
        if self.count is None:
            return distance_bias(heads, steps, steps, window)
        count, keys = self.count.read(), tf.range(-window, length)
        self.count.write(tf.minimum(count + lengths, window))
        missing = tf.where(keys >= -count[:, tf.newaxis], 0.0, MASKED)
        return distance_bias(heads, steps, keys, window) + missing[:, tf.newaxis, tf.newaxis]

    def _hidden(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        length, params = tf.shape(ids)[1], self.params
        x = dropout(tf.cast(self._embedded(ids, tf.range(length)), self.compute_dtype),
                    params["layer_postprocess_dropout"], self.training)
        mask, bias = tf.sequence_mask(lengths, length), self._bias(lengths, length)
        x = run_layers(self.layers, x, mask, bias, training=self.training, recompute=params["recompute"])
        outputs = self.output_norm(x, mask, self.training)
        return {"outputs": outputs, "raw_outputs": outputs, "state": None}

    def prepare(self) -> dict[str, Any]:
        return {"layers": [layer.prepare(self.compute_dtype) for layer in self.layers],
                "output": self.output_layer.prepare(self.compute_dtype)}

    def initial_cache(self, batch: tf.Tensor) -> list[Cache]:
        return [layer.self_attention.initial_cache(batch, 1, self.compute_dtype) for layer in self.layers]

    def step(self, ids: tf.Tensor, number: tf.Tensor, cache: list[Cache],
             prepared: Any) -> tuple[tf.Tensor, list[Cache]]:
        x, cache = self._continued(in_shape(ids, [None, 1]), number[tf.newaxis], cache, prepared)
        return self.output_layer.logits(self.output_norm(x), prepared["output"]), cache

    def read(self, ids: tf.Tensor, number: tf.Tensor, cache: list[Cache], prepared: Any) -> list[Cache]:
        return self._continued(ids, number + tf.range(tf.shape(ids)[1]), cache, prepared)[1]

    def _continued(self, ids: tf.Tensor, positions: tf.Tensor, cache: list[Cache],
                   prepared: Any) -> tuple[tf.Tensor, list[Cache]]:
        """Returns (output of the last layer ``[batch, new, hidden]``, the new cache) for ids ``[batch, new]``."""
        x = tf.cast(self._embedded(ids, positions), self.compute_dtype)
        x = in_shape(x, [None, ids.shape[1], self.params["hidden_size"]])
        grown: list[Any] = []
        bias = self._bias_so_far(positions)
        for layer, old, weights in zip(self.layers, cache, prepared["layers"], strict=True):
            x, new = layer(x, None, bias, weights=weights, cache=old)
            grown.append(new)
        return x, grown

    def _bias_so_far(self, positions: tf.Tensor) -> tf.Tensor | None:
        """Returns the attention bias of the newest positions.

        Args:
          positions: the newest positions, ``[new]`` int32. There is a key for every position up to the last of them.

        Returns:
          FP32 tensor that broadcasts to ``[batch, heads, new, time + new]``, or None if the bias would be zero.
        """
        keys = tf.range(positions[-1] + 1)
        if self.params["position_encoding"] == "alibi":
            return distance_bias(self.params["num_heads"], positions, keys, self.params["memory_length"])
        if positions.shape[0] == 1:
            return None
        return tf.where(keys <= positions[:, tf.newaxis], 0.0, MASKED)[tf.newaxis, tf.newaxis]
