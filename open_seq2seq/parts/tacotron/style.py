"""Global style tokens: an embedding of the style of a recording, as a mixture of a few fixed styles.

See Wang et al. 2018, https://arxiv.org/abs/1803.09017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings
from open_seq2seq.parts.tacotron.layers import (
    Dense,
    check_convolutions,
    make_convolution_block,
    make_direction,
    make_recurrent_layers,
)

_REFERENCE_SIZE = 128  # number of channels of the reference embedding, as in NVIDIA's OpenSeq2Seq
STYLE_PARAMS = {
    "conv_layers": Param(list, doc="Convolutions over time and frequency of the reference encoder, each a dict with "
                         "kernel_size and stride (time, frequency), num_channels and padding."),
    "num_rnn_layers": Param(int, doc="Number of recurrent layers of the reference encoder.", minimum=1, maximum=1000),
    "rnn_cell_dim": Param(int, doc="Number of units of these layers.", minimum=1),
    "rnn_unidirectional": Param(bool, doc="Whether these layers are unidirectional."),
    "rnn_type": Param((type, str), doc="Cell of these layers, as in core_cell.", names="cell"),
    "emb_size": Param(int, doc="Number of channels of the style tokens.", minimum=1),
    "attention_layer_size": Param(int, doc="Number of channels of the attention and of the style embedding.",
                                  minimum=1),
    "num_tokens": Param(int, doc="Number of style tokens.", minimum=1),
    "num_heads": Param(int, doc="Number of attention heads; must divide attention_layer_size.", minimum=1),
}


def style_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns one sentence for each problem in checked ``style_embedding_params``."""
    problems = check_convolutions(params["conv_layers"], f"{path}/conv_layers", 2)[1]
    if params["attention_layer_size"] % params["num_heads"]:
        problems.append(f"'{path}/num_heads' is {params['num_heads']} but has to divide attention_layer_size, which "
                        f"is {params['attention_layer_size']}.")
    return problems


class StyleAttention(Module):
    """Additive attention with several heads, whose keys and values are the style tokens.

    The weight of token k in a head is the softmax of ``Σ tanh(v · tanh(key_k + query))`` over the head's channels;
    all heads share ``v``. As in NVIDIA's OpenSeq2Seq, the tokens are random and are not trained.

    Args:
      query_size: number of channels of the query.
      params: checked ``style_embedding_params``.
      initializer: initialiser of the matrices and of ``v``.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, query_size: int, params: Mapping[str, Any], initializer: Any, regularizer: Any) -> None:
        super().__init__(name="style_attention")
        self._heads, size = params["num_heads"], params["attention_layer_size"]
        self.tokens = self.weight([params["num_tokens"], params["emb_size"]],
                                  tf.keras.initializers.RandomUniform(-1.0, 1.0), trainable=False)
        self.query = Dense(query_size, size, initializer, regularizer, False)
        self.key = Dense(params["emb_size"], size, initializer, regularizer, False)
        self.value = Dense(params["emb_size"], size, initializer, regularizer, False)
        self.output = Dense(size, size, initializer, regularizer, False)
        self.score_vector = self.weight([size // self._heads], tf.keras.initializers.RandomNormal(stddev=1.0))

    def __call__(self, query: tf.Tensor) -> tf.Tensor:
        """Returns style embeddings ``[batch, attention_layer_size]`` for queries ``[batch, query_size]``."""
        queries, keys = self._by_head(self.query(query)), self._by_head(self.key(tf.tanh(self.tokens)))
        inside = tf.tanh(queries[:, tf.newaxis] + keys)  # [batch, tokens, heads, channels]
        scores = tf.reduce_sum(tf.tanh(self.score_vector * inside), -1)
        return self._mixed(tf.nn.softmax(scores, 1))

    def by_weights(self, weights: Sequence[float]) -> tf.Tensor:
        """Returns the style embedding ``[1, attention_layer_size]`` for the weights of the tokens in all heads."""
        return self._mixed(tf.tile(tf.reshape(tf.constant(weights, tf.float32), [1, -1, 1]), [1, 1, self._heads]))

    def _by_head(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [-1, self._heads, x.shape[-1] // self._heads])

    def _mixed(self, weights: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings for weights ``[batch, tokens, heads]``."""
        mixed = tf.einsum("bkh,khc->bhc", weights, self._by_head(self.value(tf.tanh(self.tokens))))
        return self.output(tf.reshape(mixed, [tf.shape(weights)[0], self.output.kernel.shape[0]]))


class StyleEncoder(Module):
    """Encodes the style of a recording: convolutions, recurrent layers, and an attention over style tokens.

    All is computed in FP32. Padding does not affect the results.

    Args:
      num_features: number of features of each frame of the recording.
      params: checked ``style_embedding_params``.
      settings: settings of the convolutions.
      path: path of the parameters in the config, for messages.

    Attributes:
      output_size: number of channels of the style embedding.
    """

    def __init__(self, num_features: int, params: Mapping[str, Any], settings: BlockSettings, path: str) -> None:
        super().__init__(name="style_encoder")
        initializer, regularizer = settings.initializer, settings.regularizer
        self.blocks, width, channels = [], num_features, 1
        for layer in check_convolutions(params["conv_layers"], f"{path}/conv_layers", 2)[0]:
            self.blocks.append(make_convolution_block(layer, channels, 0.0, settings))
            width, channels = self.blocks[-1].layers[0].convolution.frequency.outputs(width), layer["num_channels"]

        def make(size: int) -> Any:
            return make_direction(params["rnn_type"], params["rnn_cell_dim"], size, 0.0, path, initializer,
                                  regularizer)

        self.layers = make_recurrent_layers(params["num_rnn_layers"], width * channels,
                                            not params["rnn_unidirectional"], make)
        self.reference = Dense(self.layers[-1].output_size, _REFERENCE_SIZE, initializer, regularizer)
        self.attention = StyleAttention(_REFERENCE_SIZE, params, initializer, regularizer)
        self.output_size = params["attention_layer_size"]

    def __call__(self, features: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns style embeddings ``[batch, output_size]`` FP32.

        Args:
          features: spectrograms ``[batch, time, num_features]`` FP32.
          lengths: numbers of frames, ``[batch]`` int32.
          training: whether to normalise by batch statistics.
        """
        mask = tf.sequence_mask(lengths, tf.shape(features)[1])
        x = tf.where(mask[:, :, tf.newaxis], features, 0.0)[..., tf.newaxis]
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        x = tf.transpose(tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], x.shape[2] * x.shape[3]]), [1, 0, 2])
        state = tf.zeros([])
        for layer in self.layers:
            x, states = layer.with_final_states(x, lengths, training)
            state = states[0]
        return self.attention(tf.tanh(self.reference(state)))
