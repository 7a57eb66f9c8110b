"""Decoder for classification: pooling over time, a linear layer, and a softmax over the classes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.pooling import POOLINGS, pooled
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError


class SoftmaxDecoder(Decoder):
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
            "hidden_size": Param((int, type(None)), None, "Number of channels of the encoder's output; by default the "
                                 "encoder's output_size.", "channels", minimum=1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        pooling = self.params["pooling"]
        self._poolings = [pooling] if isinstance(pooling, str) else list(pooling)
        problems = []
        if not self._poolings or not all(one in POOLINGS for one in self._poolings):
            problems.append(f"'{self.params_path}/pooling' is {pooling!r}, but must be one of {', '.join(POOLINGS)}, "
                            "or a list of these.")
        channels = self.params["hidden_size"] or getattr(getattr(model, "encoder", None), "output_size", None)
        if channels is None:
            problems.append(f"'{self.params_path}/hidden_size' is missing: set it, because the encoder has no "
                            "output_size.")
        if problems:
            raise ConfigError(problems)
        self._channels = int(channels or 0)
        self.kernel = self.weight([self._channels * len(self._poolings), self.params["num_classes"]],
                                  self.make_initializer(), regularizer=self.make_regularizer())
        self.bias = self.weight([self.params["num_classes"]], "zeros")

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
        vector = dropout(tf.cast(vector, self.compute_dtype), self.params["dropout"], self.training)
        logits = tf.cast(tf.matmul(vector, cast_weight(self.kernel, self.compute_dtype)), tf.float32) + self.bias
        return {"logits": logits, "outputs": [tf.nn.softmax(logits)]}
