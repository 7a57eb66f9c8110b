"""Decoders that consist of one linear layer: for CTC, for each position, and for classes of whole examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param, without_effect
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.decoding.ctc.decoder import CtcDecoder, beam_search_params
from open_seq2seq.decoding.ctc.greedy import greedy_decode
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.pooling import POOLINGS, pooled
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError

_HIDDEN_SIZE = Param((int, type(None)), None, "Number of channels of the encoder's output; by default the encoder's "
                     "output_size.", "channels", minimum=1)
# Parameters of other decoders' language models, and what to do instead.
_OBSOLETE = {
    "trie_weight": "the language model scores whole words of its lexicon; remove the parameter",
    "lm_weight": "it is called alpha",
    "word_count_weight": "it is called beta",
    "valid_word_count_weight": "other words are forbidden or have the cost oov_penalty; remove the parameter",
    "lm_binary_path": "the language model is an ARPA file; name it in lm_path",
}


class _LinearDecoder(Decoder):
    """Base of decoders that consist of one linear layer."""

    def _make_layer(self, inputs: int, outputs: int) -> None:
        self.kernel = self.weight([inputs, outputs], self.make_initializer(), regularizer=self.make_regularizer())
        self.bias = self.weight([outputs], "zeros")

    def _logits(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the logits ``[…, outputs]`` FP32 of ``x`` ``[…, inputs]``."""
        product = times_matrix(tf.cast(x, self.compute_dtype), cast_weight(self.kernel, self.compute_dtype))
        return tf.cast(product, tf.float32) + self.bias


class FullyConnectedCTCDecoder(_LinearDecoder):
    """A linear layer from the encoder's output to the symbols and the blank, which is last; decodes greedily.

    Returns ``logits`` ``[batch, time, tgt_vocab_size]`` in FP32, ``src_length`` ``[batch]`` in frames, and ``outputs``.
    In training steps, ``outputs`` is None; otherwise it contains the greedily decoded ids ``[batch, symbols]``, their
    lengths, and, for each symbol, its first frame, the frame after its last one, and its confidence.

    With ``use_language_model``, the model decodes the logits in evaluation and inference by prefix beam search
    (``open_seq2seq.decoding.ctc.CtcDecoder``), whose settings are parameters of this decoder.
    """

    tells_times = True

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "tgt_vocab_size": Param(int, doc="Number of symbols, including the blank; set from the data layer.",
                                    unit="symbols", derived=True, minimum=2),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            **beam_search_params(),
            "hidden_size": _HIDDEN_SIZE,
            "use_language_model": Param(bool, False, "Whether evaluation and inference use prefix beam search, with "
                                        "the language model lm_path if it is given, instead of greedy decoding.",
                                        on_change=FREE),
            "infer_logits_to_pickle": Param(bool, False, "Whether inference writes logits, for scripts/decode.py, "
                                            "to the output file instead of texts.", on_change=FREE),
            **{name: Param(object, None, f"Obsolete with a language model: {why}. Has no effect without one.",
                           on_change=FREE) for name, why in _OBSOLETE.items()},
            **without_effect("decoder_library_path", reason=", because decoding needs no compiled library"),
            **without_effect("trie_path", "lm_trie_path", reason=", because the lexicon is the words of lm_path"),
            **without_effect("alphabet_config_path", reason=", because the alphabet is that of the data layer"),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        problems = [f"'{self.params_path}/{key}' is obsolete: {why}." for key, why in _OBSOLETE.items()
                    if self.params[key] is not None and self.params["use_language_model"]]
        hidden_size, missing = self._encoder_size("hidden_size")
        if problems + missing:
            raise ConfigError(problems + missing)
        self._make_layer(int(hidden_size), self.params["tgt_vocab_size"])

    def beam_decoder(self, labels: Sequence[str]) -> CtcDecoder:
        """Creates a prefix beam search with this decoder's parameters.

        Args:
          labels: the alphabet without the blank, in the order of the ids.

        Raises:
          ConfigError, DataError: see ``CtcDecoder``.
        """
        return CtcDecoder(labels, {key: self.params[key] for key in beam_search_params()}, path=self.params_path)

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = input_dict["encoder_output"]
        logits, lengths = self._logits(encoded["outputs"]), lengths_of(encoded)
        # Training steps do not need outputs, and XLA cannot compile results of unknown length.
        outputs = None if self.training else list(greedy_decode(logits, lengths))
        return {"logits": logits, "src_length": lengths, "outputs": outputs}


class FullyConnectedTimeDecoder(_LinearDecoder):
    """A linear layer from the encoder's output at each position to the symbols.

    Returns ``logits`` ``[batch, time, tgt_vocab_size]`` in FP32, ``src_length`` ``[batch]``, and ``outputs``: what
    ``logits_to_outputs_func`` returns, or by default the most probable symbol at each position ``[batch, time]`` and
    the lengths.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "tgt_vocab_size": Param(int, doc="Number of symbols; set from the data layer.", unit="symbols",
                                    derived=True, minimum=1),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "hidden_size": _HIDDEN_SIZE,
            "logits_to_outputs_func": Param((callable, type(None)), None, "Function of the logits and the decoder's "
                                            "input that returns a list of tensors, the outputs.", on_change=FREE),
            "infer_logits_to_pickle": Param(bool, False, "Whether inference of Speech2Text writes logits to the output "
                                            "file instead of texts; other models ignore it.", on_change=FREE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        hidden_size, problems = self._encoder_size("hidden_size")
        if problems:
            raise ConfigError(problems)
        self._make_layer(int(hidden_size), self.params["tgt_vocab_size"])

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = input_dict["encoder_output"]
        logits, lengths = self._logits(encoded["outputs"]), lengths_of(encoded)
        function = self.params["logits_to_outputs_func"]
        outputs = [tf.argmax(logits, -1, tf.int32), lengths] if function is None else function(logits, input_dict)
        return {"logits": logits, "src_length": lengths, "outputs": outputs}


class SoftmaxDecoder(_LinearDecoder):
    """Classifies whole sequences: pools the encoder's outputs over time and applies a linear layer.

    The encoder's ``outputs`` are ``[batch, time, channels]`` with lengths, or ``[batch, channels]``, which are not
    pooled. Returns ``logits`` ``[batch, num_classes]`` in FP32, and the probabilities of the classes, of the same
    shape, as the only tensor of ``outputs``.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "num_classes": Param(int, doc="Number of classes; set from the data layer.", unit="classes", derived=True,
                                 minimum=2),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "pooling": Param((str, list), "mean", "How outputs over time become one vector: mean, max, first, last, or "
                             "sqrtn (their sum divided by the square root of their number); with a list of these, the "
                             "vectors are concatenated.", on_change=REFUSE),
            "dropout": Param(float, 0.0, "Dropout rate of the pooled vector.", minimum=0.0, below=1.0),
            "hidden_size": _HIDDEN_SIZE,
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        pooling = self.params["pooling"]
        self._poolings = [pooling] if isinstance(pooling, str) else list(pooling)
        problems = []
        if not self._poolings or not all(one in POOLINGS for one in self._poolings):
            problems.append(f"'{self.params_path}/pooling' is {pooling!r}, but must be one of {', '.join(POOLINGS)}, "
                            "or a list of these.")
        channels, missing = self._encoder_size("hidden_size")
        if problems + missing:
            raise ConfigError(problems + missing)
        self._channels = int(channels)
        self._make_layer(self._channels * len(self._poolings), self.params["num_classes"])

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = input_dict["encoder_output"]
        hidden = encoded["outputs"]
        if hidden.shape[-1] != self._channels:
            raise ConfigError([f"'{self.params_path}/hidden_size' is {self._channels}, but the encoder's outputs have "
                               f"{hidden.shape[-1]} channels: set it to this number."])
        if hidden.shape.rank == 3:
            vector = pooled(hidden, lengths_of(encoded), self._poolings)
        elif len(self._poolings) == 1:
            vector = hidden
        else:
            raise ConfigError([f"'{self.params_path}/pooling' lists several poolings, but the encoder's outputs have "
                               "no time axis: remove 'pooling'."])
        vector = tf.cast(vector, self.compute_dtype)
        logits = self._logits(dropout(vector, self.params["dropout"], self.training))
        return {"logits": logits, "outputs": [tf.nn.softmax(logits)]}


class FullyConnectedDecoder(_LinearDecoder):
    """A linear layer from the encoder's outputs ``[batch, channels]`` to the classes.

    Returns ``logits`` ``[batch, output_dim]`` in FP32, and ``outputs``, a list that contains the logits.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            "output_dim": Param((int, type(None)), None, "Number of classes; by default that of the data layer.",
                                "classes", minimum=1, on_change=REFUSE),
            "num_classes": Param((int, type(None)), None, "Number of classes of the data layer; set by the model.",
                                 derived=True, minimum=1),
            "hidden_size": Param((int, type(None)), None, "Number of values that the encoder outputs for an example; "
                                 "by default the encoder's output_size (in FullyConnectedSCDecoder, multiplied by "
                                 "time_steps).",
                                 "channels", minimum=1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        self._make_layer(*self._sizes())

    def _sizes(self) -> tuple[int, int]:
        """Returns the numbers of input and output channels of the linear layer."""
        path, problems = self.params_path, []
        num_classes = self.params["num_classes"]
        outputs = self.params["output_dim"] or num_classes
        if outputs is None:
            problems.append(f"'{path}/output_dim' is missing: set it to the number of classes.")
        elif num_classes is not None and outputs < num_classes:
            problems.append(f"'{path}/output_dim' is {outputs}, but the data layer has {num_classes} classes: raise it "
                            "to that number, or leave it out.")
        inputs, missing = self._encoder_size("hidden_size")
        if problems + missing:
            raise ConfigError(problems + missing)
        return int(inputs), int(outputs)

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        logits = self._logits(self._features(input_dict["encoder_output"]))
        return {"logits": logits, "outputs": [logits]}

    def _features(self, encoded: dict[str, Any]) -> tf.Tensor:
        """Returns the input of the linear layer, ``[batch, hidden_size]``."""
        hidden = encoded["outputs"]
        if hidden.shape.rank != 2:
            raise ConfigError([f"'decoder' is {type(self).__name__}, which needs a vector for each example, but the "
                               f"encoder's outputs are {hidden.shape.rank}-dimensional: choose "
                               "FullyConnectedSCDecoder, which reads all positions."])
        return self._checked(hidden)

    def _checked(self, hidden: tf.Tensor) -> tf.Tensor:
        """Returns ``hidden``; raises ConfigError if its number of channels does not fit the linear layer."""
        inputs, channels = self.kernel.shape[0], hidden.shape[-1]
        if hidden.shape.rank == 2 and inputs != channels or inputs % channels:
            raise ConfigError([f"'{self.params_path}/hidden_size' is {inputs}, but the encoder's outputs have "
                               f"{channels} channels: correct it, or leave it out."])
        return hidden


class FullyConnectedSCDecoder(FullyConnectedDecoder):
    """A linear layer from the encoder's outputs at all positions, concatenated, to the classes.

    The encoder's outputs ``[batch, time, channels]`` have ``time_steps`` positions in every batch, as with
    ``SpeechCommandsDataLayer``. Outputs ``[batch, channels]`` are used as they are. Returns the same as
    ``FullyConnectedDecoder``.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **FullyConnectedDecoder.get_optional_params(),
            "time_steps": Param((int, type(None)), None, "Number of positions of the encoder's outputs; set by the "
                                "model.", derived=True, minimum=1),
        }

    def _sizes(self) -> tuple[int, int]:
        inputs, outputs = super()._sizes()
        return (inputs if self.params["hidden_size"] else inputs * (self.params["time_steps"] or 1)), outputs

    def _features(self, encoded: dict[str, Any]) -> tf.Tensor:
        hidden = self._checked(encoded["outputs"])
        if hidden.shape.rank == 2:
            return hidden
        inputs, channels = self.kernel.shape[0], hidden.shape[2]
        return tf.reshape(in_shape(hidden, [None, inputs // channels, channels]), [-1, inputs])
