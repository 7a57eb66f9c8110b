"""Decoders that classify whole examples by one linear layer."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError


class FullyConnectedDecoder(Decoder):
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
        inputs, outputs = self._sizes()
        self._kernel = self.weight([inputs, outputs], self.make_initializer(), regularizer=self.make_regularizer())
        self._bias = self.weight([outputs], "zeros")

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
        inputs = self.params["hidden_size"] or getattr(getattr(self.model, "encoder", None), "output_size", None)
        if inputs is None:
            problems.append(f"'{path}/hidden_size' is missing: set it, because the encoder has no output_size.")
        if problems:
            raise ConfigError(problems)
        return int(inputs or 0), int(outputs or 0)

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        hidden = self._features(input_dict["encoder_output"])
        kernel = cast_weight(self._kernel, self.compute_dtype)
        product = times_matrix(tf.cast(hidden, self.compute_dtype), kernel)
        logits = tf.cast(product, tf.float32) + self._bias
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
        inputs, channels = self._kernel.shape[0], hidden.shape[-1]
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
        inputs, channels = self._kernel.shape[0], hidden.shape[2]
        return tf.reshape(in_shape(hidden, [None, inputs // channels, channels]), [-1, inputs])
