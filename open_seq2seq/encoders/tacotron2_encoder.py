"""The encoder of Tacotron 2, optionally with global style tokens."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import resolve_names
from open_seq2seq.config.params import FREE, REFUSE, Param, check_params
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.conv_blocks.block import BlockSettings, ConvBlock
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.rnn.layers import Direction
from open_seq2seq.parts.speakers import make_speaker_embedding, speaker_params
from open_seq2seq.parts.tacotron import (
    STYLE_PARAMS,
    StyleEncoder,
    check_convolutions,
    make_convolution_block,
    make_direction,
    make_recurrent_layers,
    style_problems,
)
from open_seq2seq.utils.errors import ConfigError


class Tacotron2Encoder(Encoder):
    """The encoder of Tacotron 2 (Shen et al. 2018, https://arxiv.org/abs/1712.05884): embeddings, convolutions, LSTMs.

    With ``style_embedding_enable``, the embedding of a style is appended to the output at each symbol (Wang et al.
    2018, https://arxiv.org/abs/1803.09017). The style is that of a recording or, in inference, may be given as the
    weights of the style tokens. If there are several speakers, the embedding of the speaker is added to the output at
    each symbol. Results do not depend on padding.

    Attributes:
      output_size: number of channels of the outputs.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "src_vocab_size": Param(int, doc="Number of symbols; set from the data layer.", unit="symbols",
                                    derived=True, minimum=1),
            "src_emb_size": Param(int, doc="Size of the embeddings of symbols.", minimum=1),
            "conv_layers": Param(list, doc="Convolutions over the symbols, each a dict with kernel_size and stride "
                                 "(lists with one number), num_channels and padding. May be empty.", on_change=REFUSE),
            "cnn_dropout_prob": Param(float, doc="Dropout rate after each convolution.", minimum=0.0, below=1.0),
            "activation_fn": Param((callable, str, type(None)), doc="Activation of the convolutions.",
                                   names="activation", on_change=REFUSE),
            "num_rnn_layers": Param(int, doc="Number of recurrent layers; may be 0.", minimum=0, maximum=1000),
            "rnn_cell_dim": Param(int, doc="Number of units in each direction of each recurrent layer.", minimum=1),
            "rnn_type": Param((type, str), doc="Cell of the recurrent layers, as in core_cell.", names="cell"),
            "rnn_unidirectional": Param(bool, doc="Whether recurrent layers are unidirectional."),
            "rnn_dropout_prob": Param(float, doc="Dropout rate after each recurrent layer.", minimum=0.0, below=1.0),
            "use_cudnn_rnn": Param(bool, doc="Whether to use cuDNN on GPUs if it supports rnn_type; weights and "
                                   "results are the same.", on_change=FREE),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "data_format": Param(["channels_last", "channels_first"], "channels_last", "Accepted for old configs; has "
                                 "no effect, because activations are always channels-last.", on_change=FREE),
            "bn_momentum": Param(float, 0.1, "Fraction of batch norm's old moving statistics kept at each step.",
                                 minimum=0.0, below=1.0),
            "bn_epsilon": Param(float, 1e-5, "Small number that batch norm adds to the variance.", above=0.0,
                                on_change=REFUSE),
            "zoneout_prob": Param(float, 0.0, "Probability with which an element of a state of the recurrent layers "
                                  "keeps its value from the previous step.", minimum=0.0, below=1.0),
            "style_embedding_enable": Param(bool, False, "Whether to append the embedding of a style to the outputs."),
            "style_embedding_params": Param(dict, {}, "Style tokens: a dict with conv_layers, num_rnn_layers, "
                                            "rnn_cell_dim, rnn_unidirectional, rnn_type, emb_size, "
                                            "attention_layer_size, num_tokens and num_heads.", on_change=REFUSE),
            "style_weights": Param((list, tuple, type(None)), None, "In inference: the weight of each style token, "
                                   "which replace the style of a recording.", on_change=FREE),
            "num_audio_features": Param((int, dict, type(None)), None, "Number of features of each frame of a "
                                        "recording whose style is read; set from the data layer.", derived=True),
            **speaker_params(),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, path = self.params, self.params_path
        layers, problems = check_convolutions(params["conv_layers"], f"{path}/conv_layers")
        style, style_faults = self._checked_style()
        if problems + style_faults:
            raise ConfigError(problems + style_faults)
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        settings = BlockSettings(resolve_activation(params["activation_fn"], f"{path}/activation_fn"), "batch_norm",
                                 params["bn_momentum"], params["bn_epsilon"], initializer, regularizer)
        self.embedding = self.weight([params["src_vocab_size"], params["src_emb_size"]], initializer)
        size = params["src_emb_size"]
        self.blocks: list[ConvBlock] = []
        for layer in layers:
            self.blocks.append(make_convolution_block(layer, size, params["cnn_dropout_prob"], settings))
            size = layer["num_channels"]

        def make(input_size: int) -> Direction:
            return make_direction(params["rnn_type"], params["rnn_cell_dim"], input_size, params["zoneout_prob"], path,
                                  initializer, regularizer, params["use_cudnn_rnn"])

        self.layers = make_recurrent_layers(params["num_rnn_layers"], size, not params["rnn_unidirectional"], make)
        self.output_size = self.layers[-1].output_size if self.layers else size
        self.style: StyleEncoder | None = None
        if params["style_embedding_enable"]:
            settings = settings._replace(activation=tf.nn.relu)
            features = params["num_audio_features"]
            self.style = StyleEncoder(features["mel"] if isinstance(features, dict) else features, style, settings,
                                      f"{path}/style_embedding_params")
            self.output_size += self.style.output_size
        self.speakers = make_speaker_embedding(params["num_speakers"], self.output_size, initializer, regularizer)

    def _checked_style(self) -> tuple[dict[str, Any], list[str]]:
        """Returns the checked parameters of the style tokens, and the problems found in them."""
        params, path = self.params, f"{self.params_path}/style_embedding_params"
        weights = params["style_weights"]
        if not params["style_embedding_enable"]:
            return {}, [] if weights is None else [
                f"'{self.params_path}/style_weights' needs style tokens: set style_embedding_enable to True."]
        checked, problems = check_params(params["style_embedding_params"], STYLE_PARAMS, {}, path)
        if not problems:
            checked, problems = resolve_names(checked, STYLE_PARAMS, path)
        problems = problems or style_problems(checked, path)
        if params["num_audio_features"] is None:
            problems.append(f"'{self.params_path}/num_audio_features' is missing: set it, because the data layer does "
                            "not provide it.")
        if weights is not None and not problems and not _are_weights(weights, checked["num_tokens"]):
            problems.append(f"'{self.params_path}/style_weights' has to be a list of {checked['num_tokens']} numbers, "
                            f"one for each style token, got {weights}.")
        return checked, problems

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes symbols.

        Args:
          input_dict: a dict whose ``source_tensors`` are ids ``[batch, text]`` and their numbers ``[batch]``, int32;
            then, for the style, spectrograms ``[batch, time, mels]`` and their numbers of frames ``[batch]``. If there
            are several speakers, also ``speakers`` ``[batch]`` int32.

        Returns:
          A dict with ``outputs`` ``[batch, text, output_size]`` in the compute dtype, zero at padding, ``src_length``
          and ``outputs_length`` ``[batch]``, and ``encoder_input``, the ids.
        """
        ids, lengths = input_dict["source_tensors"][:2]
        symbols = tf.sequence_mask(lengths, tf.shape(ids)[1])[:, :, tf.newaxis]
        x = tf.where(symbols, tf.gather(tf.convert_to_tensor(self.embedding), ids), 0.0)
        x = tf.cast(x, self.dtype_of("convolution"))
        for block in self.blocks:
            x, lengths = block(x, lengths, training=self.training)
        x = tf.transpose(tf.cast(x, self.dtype_of("recurrence")), [1, 0, 2])
        for layer in self.layers:
            x = dropout(layer(x, lengths, self.training), self.params["rnn_dropout_prob"], self.training)
        x = tf.cast(tf.transpose(x, [1, 0, 2]), self.compute_dtype)
        if self.style is not None:
            x = self._with_style(self.style, x, lengths, input_dict["source_tensors"][2:])
        if self.speakers is not None:
            x = self.speakers(x, lengths, input_dict["speakers"])
        return {"outputs": x, "src_length": lengths, "outputs_length": lengths, "encoder_input": ids}

    def _with_style(self, encoder: StyleEncoder, x: tf.Tensor, lengths: tf.Tensor,
                    recording: list[tf.Tensor]) -> tf.Tensor:
        """Appends the style to ``x`` ``[batch, text, channels]`` at each symbol."""
        weights = self.params["style_weights"]
        if weights is not None and self.mode not in ("train", "eval"):
            style = encoder.attention.by_weights(weights)
        elif len(recording) < 2:
            raise ConfigError(["The data layer gives no recordings whose style could be read: set style_input in "
                               f"'data_layer_params', or, in inference, '{self.params_path}/style_weights'."])
        else:
            style = encoder(tf.cast(recording[0], tf.float32), tf.cast(recording[1], tf.int32), self.training)
        shape = [tf.shape(x)[0], tf.shape(x)[1], encoder.output_size]
        tiled = tf.broadcast_to(tf.cast(style, x.dtype)[:, tf.newaxis], shape)
        mask = tf.sequence_mask(lengths, tf.shape(x)[1])[:, :, tf.newaxis]
        return tf.concat([x, tf.where(mask, tiled, tf.zeros([], x.dtype))], -1)


def _are_weights(weights: Any, count: int) -> bool:
    return len(weights) == count and all(isinstance(w, (int, float)) and not isinstance(w, bool) for w in weights)
