"""The encoder of Centaur: embeddings and residual convolutions over the symbols."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.centaur import ResidualConvolution, check_residual_layers
from open_seq2seq.parts.conv_blocks.block import BlockSettings
from open_seq2seq.parts.speakers import make_speaker_embedding, speaker_params
from open_seq2seq.parts.tacotron import Dense, unpadded_lengths
from open_seq2seq.parts.transformer.embedding import SharedEmbedding
from open_seq2seq.parts.transformer.position import padding_bias
from open_seq2seq.utils.errors import ConfigError


class CentaurEncoder(Encoder):
    """The encoder of Centaur, the convolutional model of speech synthesis of NVIDIA's OpenSeq2Seq.

    Embeddings, convolutions that are added to their inputs, and a dense layer without bias. Symbols of padding, whose
    id is 0, do not count, and results do not depend on them. If there are several speakers, the embedding of the
    speaker is added to the output at each symbol.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "src_vocab_size": Param(int, doc="Number of symbols; set from the data layer.", unit="symbols",
                                    derived=True, minimum=1),
            "embedding_size": Param(int, doc="Number of channels of the embeddings and of the convolutions.",
                                    minimum=1),
            "output_size": Param(int, doc="Number of channels of the outputs.", minimum=1),
            "conv_layers": Param(list, doc="Convolutions over the symbols, each a dict with kernel_size and stride "
                                 "(lists with one number; the stride has to be 1), num_channels (embedding_size), "
                                 "padding (SAME), activation_fn (relu) and is_causal (False; if True, padding is "
                                 "VALID). May be empty.", on_change=REFUSE),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "pad_embeddings_2_eight": Param(bool, False, "Whether to round the number of embeddings up to a multiple "
                                            "of eight."),
            "bn_momentum": Param(float, 0.95, "Fraction of batch norm's old moving statistics kept at each step.",
                                 minimum=0.0, below=1.0),
            "bn_epsilon": Param(float, 1e-5, "Small number that batch norm adds to the variance.", above=0.0,
                                on_change=REFUSE),
            "cnn_dropout_prob": Param(float, 0.5, "Dropout rate after each convolution.", minimum=0.0, below=1.0),
            "norm_type": Param((str, type(None)), None, "Accepted for old configs; has no effect.", on_change=FREE),
            **speaker_params(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path, size = self.params, f"{self.params_path}/conv_layers", self.params["embedding_size"]
        layers, problems = check_residual_layers(params["conv_layers"], path, size, causal=False)
        if problems:
            raise ConfigError(problems)
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        settings = BlockSettings(None, "batch_norm", params["bn_momentum"], params["bn_epsilon"], initializer,
                                 regularizer)
        self.output_size: int = params["output_size"]
        self.embedding = SharedEmbedding(params["src_vocab_size"], size, params["pad_embeddings_2_eight"], regularizer)
        self.blocks = [ResidualConvolution(layer, params["cnn_dropout_prob"], settings, f"{path}/{number}")
                       for number, layer in enumerate(layers)]
        self.projection = Dense(size, self.output_size, initializer, regularizer, False)
        self.speakers = make_speaker_embedding(params["num_speakers"], self.output_size, initializer, regularizer)

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes symbols.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, text]`` and their numbers ``[batch]``, int32. If
            there are several speakers, also ``speakers`` ``[batch]`` int32.

        Returns:
          A dict with ``outputs`` ``[batch, text, output_size]`` in the compute dtype, zero at padding;
          ``outputs_length`` ``[batch]``, the numbers of symbols without those of padding, at least 1;
          ``inputs_attention_bias`` ``[batch, 1, 1, text]`` FP32, -1e9 at padding; and ``encoder_input``, the ids.
        """
        ids, lengths = input_dict["source_tensors"][:2]
        lengths = tf.maximum(unpadded_lengths(ids, lengths), 1)  # networks need a symbol
        mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
        x = self.embedding.lookup(tf.where(mask, ids, 0))
        x = tf.cast(x, self.compute_dtype)
        for block in self.blocks:
            x = block.added(x, lengths, self.training, self.dtype_of("convolution"))
        x = self.projection(x)
        if self.speakers is not None:
            x = self.speakers(x, lengths, input_dict["speakers"])
        return {"outputs": x, "outputs_length": lengths, "encoder_input": ids,
                "inputs_attention_bias": padding_bias(mask)}
