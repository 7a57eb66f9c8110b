"""The convolutional encoder for translation."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.convs2s.conv_layer import (
    EMBEDDING_DEVIATION,
    ConvLayer,
    NormalizedLayer,
    PositionEmbedding,
    check_padding,
    conv_settings,
    drop_and_mask,
    optional_conv_params,
    required_conv_params,
)
from open_seq2seq.parts.convs2s.utils import check_layers
from open_seq2seq.parts.transformer.embedding import SharedEmbedding
from open_seq2seq.parts.transformer.position import padding_bias


class ConvS2SEncoder(Encoder):
    """Convolutions with residual connections over embedded ids (Gehring et al. 2017, https://arxiv.org/abs/1705.03122).

    A linear layer projects the embeddings to the channels of the first convolution, and another one projects the output
    of the last convolution to the size of the embeddings. The embedding of the first position is learned; in NVIDIA's
    OpenSeq2Seq, it was zeros.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "src_emb_size": Param(int, doc="Size of the embeddings and of the outputs.", minimum=1),
            "src_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="tokens", derived=True,
                                    minimum=1),
            "pad_embeddings_2_eight": Param(bool, doc="Whether to round the number of rows of the embedding table "
                                            "up to a multiple of 8."),
            **required_conv_params(),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            **optional_conv_params(),
            "att_layer_num": Param(int, 1, "Number of decoder layers that attend to the encoder. The gradient of the "
                                   "encoder's outputs is divided by twice this number.", minimum=1, maximum=10**6),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "convs2s_encoder",
                 mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        check_padding(params, path)
        settings = conv_settings(params, path, self.make_initializer(), self.make_regularizer(), is_causal=False)
        layers = check_layers(params["conv_nchannels_kwidth"], f"{path}/conv_nchannels_kwidth")
        size = self.output_size = params["src_emb_size"]
        self.embedding = SharedEmbedding(params["src_vocab_size"], size, params["pad_embeddings_2_eight"],
                                         deviation=EMBEDDING_DEVIATION, scale=1.0)
        self.positions = PositionEmbedding(params["max_input_length"], size, EMBEDDING_DEVIATION)
        self.input_layer = NormalizedLayer(
            size, layers[0][0], settings.layer, (params["embedding_dropout_keep_prob"] / size) ** 0.5)
        inputs = [layers[0][0], *(channels for channels, _ in layers)]
        self.layers = [ConvLayer(before, channels, width, settings)
                       for before, (channels, width) in zip(inputs[:-1], layers, strict=True)]
        self.output_layer = NormalizedLayer(inputs[-1], size, settings.layer, inputs[-1] ** -0.5)

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes ids.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, time]`` and lengths ``[batch]`` in tokens, both
            int32.

        Returns:
          A dict with ``outputs`` ``[batch, time, src_emb_size]`` in the compute dtype, zero at padding; ``outputs_b``
          in the same shape, ``scaling_factor`` times the sum of ``outputs`` and embeddings, to use as attention values;
          ``outputs_length`` and ``src_lengths`` ``[batch]``; ``inputs_attention_bias`` ``[batch, 1, 1, time]``;
          ``embedding_softmax_layer``; ``encoder_input`` (the ids); and ``state`` (None).
        """
        ids, lengths = input_dict["source_tensors"][:2]
        mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
        embedded = self.embedding.lookup(ids) + self.positions(tf.range(tf.shape(ids)[1]))
        embedded = drop_and_mask(tf.cast(embedded, self.dtype_of("convolution")),
                                 self.params["embedding_dropout_keep_prob"], mask, self.training)
        x = self.input_layer(embedded, mask, self.training)
        for layer in self.layers:
            x = layer(x, mask, self.training)
        x = drop_and_mask(self.output_layer(x, mask, self.training), 1.0, mask, self.training)
        outputs = scale_gradient(x, 0.5 / self.params["att_layer_num"])
        values = (outputs + embedded) * tf.cast(self.params["scaling_factor"], outputs.dtype)
        return {
            "outputs": tf.cast(outputs, self.compute_dtype),
            "outputs_b": tf.cast(values, self.compute_dtype),
            "outputs_length": lengths,
            "src_lengths": lengths,
            "inputs_attention_bias": padding_bias(mask),
            "embedding_softmax_layer": self.embedding,
            "encoder_input": ids,
            "state": None,
        }


def scale_gradient(x: tf.Tensor, factor: float) -> tf.Tensor:
    """Returns ``x``, a tensor of any shape. In the backward pass, its gradient is multiplied by ``factor``."""
    @tf.custom_gradient
    def same(x: tf.Tensor) -> Any:
        return tf.identity(x), lambda dy: dy * tf.cast(factor, dy.dtype)

    return same(x)
