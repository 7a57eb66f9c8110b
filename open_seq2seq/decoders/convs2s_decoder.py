"""The convolutional decoder for translation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.decoders.autoregressive import (
    TranslationDecoder,
    optional_translation_params,
    required_translation_params,
)
from open_seq2seq.decoders.decoder import Decoder, check_loss, decoder_inputs, targets_begin_with_start
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.convs2s.conv_layer import (
    EMBEDDING_DEVIATION,
    ConvLayer,
    ConvSettings,
    LayerSettings,
    NormalizedLayer,
    PositionEmbedding,
    check_padding,
    conv_settings,
    drop_and_mask,
    optional_conv_params,
    required_conv_params,
)
from open_seq2seq.parts.convs2s.utils import check_layers
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.transformer.attention import attend
from open_seq2seq.parts.transformer.embedding import SharedEmbedding, mask_extra_ids
from open_seq2seq.parts.transformer.position import padding_bias
from open_seq2seq.utils.errors import ConfigError


class SourceMemory(NamedTuple):
    """Keys and values of the source, to which all layers of a decoder attend.

    Attributes:
      keys: ``[batch, source time, size]``.
      values: ``[batch, source time, size]``.
      bias: FP32 ``[batch, 1, 1, source time]``, -1e9 at padding.
      root: square root of the source's length in tokens, ``[batch, 1, 1]``.
    """

    keys: tf.Tensor
    values: tf.Tensor
    bias: tf.Tensor
    root: tf.Tensor


class SourceAttention(Module):
    """Dot-product attention from a decoder layer to the source (Gehring et al. 2017, §3.3).

    The query is the layer's state, projected to the size of embeddings, plus the target's embedding. The weighted mean
    of the values is multiplied by the square root of the source's length, because averaging reduces the variance. Then
    it is projected to ``channels``.

    Args:
      channels: number of channels of the layer.
      size: number of channels of embeddings, keys and values.
      settings: normalisation, initialisation and regularisation of the projections.
      scaling: factor by which both sums (query plus target embedding, and the residual connection) are multiplied.
    """

    def __init__(self, channels: int, size: int, settings: LayerSettings, scaling: float) -> None:
        super().__init__(name="source_attention")
        self.scaling = scaling
        self.query = NormalizedLayer(channels, size, settings, channels ** -0.5)
        self.output = NormalizedLayer(size, channels, settings, size ** -0.5)

    def kernels(self, dtype: tf.DType) -> dict[str, tf.Tensor]:
        """Returns the normalised kernels for ``__call__``; decoding computes them once for all steps."""
        return {"query": self.query.normalized_kernel(dtype), "output": self.output.normalized_kernel(dtype)}

    def __call__(self, x: tf.Tensor, embedded: tf.Tensor, memory: SourceMemory, kernels: Mapping[str, Any],
                 mask: tf.Tensor | None = None, training: bool = False) -> tf.Tensor:
        """Attends to the source and adds the result to the layer's state.

        The second axis is either time or the hypotheses of a beam, which share the memory of their sentence.

        Args:
          x: the layer's state, ``[batch, time or beam, channels]``.
          embedded: embeddings of the target, ``[batch, time or beam, size]``.
          memory: the source.
          kernels: the result of the method ``kernels``.
          mask: boolean ``[batch, time]``, False at padding, for batch statistics.
          training: whether to use batch statistics.

        Returns:
          ``[batch, time or beam, channels]``.
        """
        scaling = tf.cast(self.scaling, x.dtype)
        query = (self.query(x, mask, training, kernels["query"]) + embedded) * scaling
        context = attend(query[:, tf.newaxis], memory.keys[:, tf.newaxis], memory.values[:, tf.newaxis], memory.bias,
                         to_source=True)
        context = context[:, 0] * memory.root
        return (self.output(context, mask, training, kernels["output"]) + x) * scaling


class DecoderLayer(Module):
    """Causal convolution and attention to the source, each with a residual connection.

    Args:
      in_channels: number of input channels.
      channels: number of output channels.
      width: number of filter taps.
      size: size of the embeddings and of the source's keys and values.
      settings: settings of the convolution and of the attention's projections.
    """

    def __init__(self, in_channels: int, channels: int, width: int, size: int, settings: ConvSettings) -> None:
        super().__init__(name="decoder_layer")
        self.scaling = settings.scaling
        self.convolution = ConvLayer(in_channels, channels, width, settings)
        self.attention = SourceAttention(channels, size, settings.layer, settings.scaling)

    def kernels(self, dtype: tf.DType) -> dict[str, Any]:
        """Returns the normalised kernels for ``__call__``; decoding computes them once for all steps."""
        return {**self.convolution.kernels(dtype), "attention": self.attention.kernels(dtype)}

    def __call__(self, x: tf.Tensor, embedded: tf.Tensor, memory: SourceMemory, kernels: dict[str, Any],
                 mask: tf.Tensor | None = None, training: bool = False,
                 cache: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Transforms whole target sequences or, with a cache, each hypothesis' newest position.

        Args:
          x: ``[batch, time or beam, in_channels]``.
          embedded: embeddings of the inputs, ``[batch, time or beam, size]``.
          memory: keys and values of the source.
          kernels: the result of the method ``kernels``.
          mask: boolean ``[batch, time]``, False at padding; None with a cache.
          training: whether to apply dropout.
          cache: see ``ConvLayer.convolve``.

        Returns:
          (output ``[batch, time or beam, channels]``, the new cache).
        """
        y, cache = self.convolution.convolve(x, mask, training, kernels["convolution"], cache)
        y = self.attention(y, embedded, memory, kernels["attention"], mask, training)
        y += self.convolution.residual(x, mask, training, kernels["projection"])
        return y * tf.cast(self.scaling, y.dtype), cache


class ConvS2SDecoder(TranslationDecoder):
    """Causal convolutions, each followed by attention to the source (Gehring et al. 2017).

    The search caches the last ``kernel width - 1`` inputs of each convolution. Any encoder can be used. Its
    ``outputs`` are the keys of the attention, and its ``outputs_b`` are the values; without ``outputs_b``, ``outputs``
    are both. If the encoder's ``output_size`` differs from ``tgt_emb_size``, a linear layer projects keys and values.

    Targets begin with the start symbol, and position t predicts target t + 1, as ``BasicSequenceLoss`` expects; with
    ``use_start_token: False`` in the data layer, position t predicts target t, as
    ``PaddedCrossEntropyLossWithSmoothing`` expects. With targets, the decoder returns ``logits``
    ``[batch, time, columns]``, with a column for each id or, with ``shared_embed``, for each row of the table, and
    ``outputs`` (the most likely ids ``[batch, time]``). Without targets, ``outputs`` are the best ids
    ``[batch, length]`` and their number without EOS ``[batch]``.
    """

    source_parts = ("memory",)

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "batch_size": Param(int, doc="Set by the model; has no effect.", unit="sentences", derived=True,
                                minimum=1),
            "tgt_emb_size": Param(int, doc="Size of the embeddings.", minimum=1),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
            "shared_embed": Param(bool, doc="Whether target embeddings and the output layer share one table: the "
                                  "encoder's, if it has one.", on_change=REFUSE),
            **required_conv_params(),
            "out_dropout_keep_prob": Param(float, doc="Keep probability of dropout before the output layer.", above=0.0,
                                           maximum=1.0),
            **required_translation_params(),
            "EOS_ID": Param(int, doc="Id that ends a sentence.", minimum=0, on_change=REFUSE),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            **optional_conv_params(),
            "pad_embeddings_2_eight": Param(bool, False, "Whether to round the number of rows of the decoder's "
                                            "own embedding table up to a multiple of 8."),
            "pos_embed": Param(bool, True, "Whether to add position embeddings to target embeddings.",
                               on_change=REFUSE),
            "out_emb_size": Param((int, type(None)), None, "Number of channels before the output layer; tgt_emb_size "
                                  "by default.", minimum=1),
            "GO_SYMBOL": Param((int, type(None)), None, "Id that starts a sentence; may be None only in training "
                               "with data_layer_params/use_start_token: True.",
                               minimum=0, on_change=REFUSE),
            "END_SYMBOL": Param((int, type(None)), None, "Accepted for old configs; has no effect, because EOS_ID is "
                                "used.", minimum=0),
            **optional_translation_params(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "convs2s_decoder",
                 mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        check_padding(params, path)
        self.reads_start = targets_begin_with_start(model)
        encoder = getattr(model, "encoder", None)
        table = getattr(encoder, "embedding", None)
        self._uses_encoders = params["shared_embed"] and isinstance(table, SharedEmbedding)
        self._check(table)
        settings = conv_settings(params, path, self.make_initializer(), self.make_regularizer(), is_causal=True)
        layers = check_layers(params["conv_nchannels_kwidth"], f"{path}/conv_nchannels_kwidth")
        self._make_embeddings(getattr(encoder, "output_size", None), settings)
        size, out_size = params["tgt_emb_size"], params["out_emb_size"] or params["tgt_emb_size"]
        self.input_layer = NormalizedLayer(
            size, layers[0][0], settings.layer, (params["embedding_dropout_keep_prob"] / size) ** 0.5)
        inputs = [layers[0][0], *(channels for channels, _ in layers)]
        self.layers = [DecoderLayer(before, channels, width, size, settings)
                       for before, (channels, width) in zip(inputs[:-1], layers, strict=True)]
        self.output_layer = NormalizedLayer(inputs[-1], out_size, settings.layer, inputs[-1] ** -0.5)
        self.vocabulary_layer = None if params["shared_embed"] else NormalizedLayer(
            out_size, params["tgt_vocab_size"], settings.layer, (params["out_dropout_keep_prob"] / out_size) ** 0.5)

    def _check(self, table: Any) -> None:
        params, path, problems = self.params, self.params_path, []
        size, out_size = params["tgt_emb_size"], params["out_emb_size"]
        if params["shared_embed"] and out_size not in (None, size):
            problems.append(f"'{path}/out_emb_size' is {out_size}, but must be tgt_emb_size ({size}), because the "
                            "output layer shares the embedding table: set shared_embed to False to use another size.")
        if self._uses_encoders and (table.hidden_size != size or table.rows < params["tgt_vocab_size"]):
            problems.append(
                f"'{path}' has {params['tgt_vocab_size']} ids and tgt_emb_size {size}, but the encoder's embedding "
                f"table, which the decoder shares, has {table.rows} ids of size {table.hidden_size}: set the same "
                "vocabulary and size for both, or shared_embed to False.")
        if params["GO_SYMBOL"] is None and not (self.mode == "train" and self.reads_start):
            problems.append(f"'{path}/GO_SYMBOL' is missing: set it to the id that starts a sentence.")
        if problems:
            raise ConfigError(problems)

    def _make_embeddings(self, encoder_size: int | None, settings: ConvSettings) -> None:
        params = self.params
        size = params["tgt_emb_size"]
        self.embedding = None if self._uses_encoders else SharedEmbedding(
            params["tgt_vocab_size"], size, params["pad_embeddings_2_eight"], deviation=EMBEDDING_DEVIATION, scale=1.0)
        self.positions = PositionEmbedding(
            params["max_input_length"], size, EMBEDDING_DEVIATION) if params["pos_embed"] else None
        self.source_layer = None if encoder_size in (None, size) else NormalizedLayer(
            encoder_size, size, settings.layer, encoder_size ** -0.5)

    def _table(self) -> SharedEmbedding:
        return self.model.encoder.embedding if self.embedding is None else self.embedding

    def _memory(self, encoder_output: Mapping[str, Any]) -> SourceMemory:
        keys = tf.cast(encoder_output["outputs"], self.dtype_of("convolution"))
        values = encoder_output.get("outputs_b")
        values = keys if values is None else tf.cast(values, keys.dtype)
        mask = tf.sequence_mask(lengths_of(encoder_output), tf.shape(keys)[1])
        if self.source_layer is not None:
            same = keys is values
            keys = self.source_layer(keys, mask, self.training)
            values = keys if same else self.source_layer(values, mask, self.training)
        elif keys.shape[-1] not in (None, self.params["tgt_emb_size"]):
            raise ConfigError([f"'{self.params_path}/tgt_emb_size' is {self.params['tgt_emb_size']}, but the encoder's "
                               f"outputs have {keys.shape[-1]} channels: set the same size for both, or give the "
                               "encoder an attribute output_size."])
        root = tf.sqrt(tf.cast(lengths_of(encoder_output), tf.float32))
        return SourceMemory(keys, values, padding_bias(mask), tf.cast(root, keys.dtype)[:, tf.newaxis, tf.newaxis])

    def _embed(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        embedded = self._table().lookup(ids)
        if self.positions is not None:
            embedded += self.positions(positions)
        return tf.cast(embedded, self.dtype_of("convolution"))

    def _hidden(self, ids: tf.Tensor, positions: tf.Tensor, prepared: dict[str, Any], mask: tf.Tensor | None = None,
                cache: list[tf.Tensor] | None = None) -> tuple[tf.Tensor, list[Any]]:
        """Runs all layers before the output layer; see ``DecoderLayer``.

        Args:
          ids: the decoder's inputs, ``[batch, time]``; with a cache, the newest of each hypothesis, ``[batch, beam]``.
          positions: their positions, ``[time]``; with a cache, a scalar.
          prepared: the result of ``prepare``.
          mask: boolean ``[batch, time]``, False at padding; None with a cache.
          cache: the cache of each layer.

        Returns:
          (hidden states ``[batch, time or beam, channels]``, the new cache).
        """
        embedded = drop_and_mask(self._embed(ids, positions), self.params["embedding_dropout_keep_prob"], mask,
                                 self.training)
        x, grown = self.input_layer(embedded, mask, self.training, prepared["input"]), []
        caches = cache or [None] * len(self.layers)
        for layer, kernels, old in zip(self.layers, prepared["layers"], caches, strict=True):
            x, new = layer(x, embedded, prepared["memory"], kernels, mask, self.training, old)
            grown.append(new)
        return self.output_layer(x, mask, self.training, prepared["output"]), grown

    def _teacher_force(self, encoder_output: Mapping[str, Any], ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, Any]:
        params = self.params
        check_loss(self.model, self.reads_start, type(self).__name__)
        inputs = decoder_inputs(ids, params["GO_SYMBOL"], self.reads_start)
        mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
        hidden, _ = self._hidden(inputs, tf.range(tf.shape(ids)[1]), self._constants(encoder_output), mask)
        hidden = drop_and_mask(hidden, params["out_dropout_keep_prob"], None, self.training)
        hidden = tf.cast(hidden, self.compute_dtype)
        logits = self._table().logits(hidden) if self.vocabulary_layer is None else (
            self.vocabulary_layer(hidden, mask, self.training))
        best = tf.argmax(mask_extra_ids(logits, params["tgt_vocab_size"]), -1, tf.int32)
        return {"logits": logits, "outputs": [best]}

    def _constants(self, encoder_output: Mapping[str, Any]) -> dict[str, Any]:
        """Returns keys and values of the source, and the normalised kernels before the output layer."""
        dtype = self.dtype_of("convolution")
        return {
            "memory": self._memory(encoder_output),
            "input": self.input_layer.normalized_kernel(dtype),
            "layers": [layer.kernels(dtype) for layer in self.layers],
            "output": self.output_layer.normalized_kernel(dtype),
        }

    def prepare(self, encoder_output: Mapping[str, Any]) -> dict[str, Any]:
        """Returns keys and values of the source, the normalised kernels and the output matrix."""
        vocabulary = self._table().output_matrix(self.params["tgt_vocab_size"], self.compute_dtype) \
            if self.vocabulary_layer is None else self.vocabulary_layer.normalized_kernel(self.compute_dtype)
        return {**self._constants(encoder_output), "vocabulary": vocabulary}

    def initial_cache(self, encoder_output: Mapping[str, Any], beam_size: int) -> list[tf.Tensor]:
        """Returns each layer's inputs before the first position, zeros ``[batch, beam, width - 1, channels]``."""
        batch, dtype = tf.shape(encoder_output["outputs"])[0], self.dtype_of("convolution")
        return [layer.convolution.initial_cache(batch, beam_size, dtype) for layer in self.layers]

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: list[tf.Tensor],
             prepared: dict[str, Any]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        hidden, cache = self._hidden(ids, step, prepared, cache=cache)
        hidden = tf.cast(hidden, self.compute_dtype)
        if self.vocabulary_layer is not None:
            return self.vocabulary_layer(hidden, kernel=prepared["vocabulary"]), cache
        return times_matrix(hidden, prepared["vocabulary"]), cache
