"""Decoder that applies a linear layer at each position of a sequence."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError


class FullyConnectedTimeDecoder(Decoder):
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
            "hidden_size": Param((int, type(None)), None, "Number of channels of the encoder's output; by default the "
                                 "encoder's output_size.", "channels", minimum=1),
            "logits_to_outputs_func": Param((callable, type(None)), None, "Function of the logits and the decoder's "
                                            "input that returns a list of tensors, the outputs.", on_change=FREE),
            "infer_logits_to_pickle": Param(bool, False, "Whether inference of Speech2Text writes logits to the output "
                                            "file instead of texts; other models ignore it.", on_change=FREE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        hidden_size = self.params["hidden_size"] or getattr(getattr(model, "encoder", None), "output_size", None)
        if hidden_size is None:
            raise ConfigError([f"'{self.params_path}/hidden_size' is missing: set it, because the encoder has no "
                               "output_size."])
        self._kernel = self.weight([int(hidden_size or 0), self.params["tgt_vocab_size"]], self.make_initializer(),
                                   regularizer=self.make_regularizer())
        self._bias = self.weight([self.params["tgt_vocab_size"]], "zeros")

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = input_dict["encoder_output"]
        lengths = lengths_of(encoded)
        hidden = tf.cast(encoded["outputs"], self.compute_dtype)
        product = times_matrix(hidden, cast_weight(self._kernel, self.compute_dtype))
        logits = tf.cast(product, tf.float32) + self._bias
        function = self.params["logits_to_outputs_func"]
        outputs = [tf.argmax(logits, -1, tf.int32), lengths] if function is None else function(logits, input_dict)
        return {"logits": logits, "src_length": lengths, "outputs": outputs}
