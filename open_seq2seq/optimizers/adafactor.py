"""Adafactor: adaptive updates with a factored second moment."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers.optimizer import Optimizer, Slot, Variables


def _rms(x: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_mean(tf.square(x)))


class Adafactor(Optimizer):
    """Adafactor (Shazeer & Stern 2018, algorithms 4 and 5), with the learning rate of ``lr_policy``.

    For a variable with two or more axes, the moving average of squared gradients is stored as one value for each row
    and one for each column of the last two axes; for a vector it is stored in full. The policy's learning rate is the
    paper's ρ: by default it is multiplied by the root mean square of the variable, so a rate of 1e-2 changes weights by
    about 1 % per update. See https://arxiv.org/abs/1804.04235.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "decay_rate": Param(float, 0.8, "Exponent in the decay of the mean square: at update t, the decay is "
                                "1 - t^-decay_rate.",
                                above=0.0),
            "beta1": Param(float, 0.0, "Decay of the moving average of updates; 0 disables it.",
                           minimum=0.0, below=1.0),
            "clipping_threshold": Param((float, type(None)), 1.0,
                                        "Largest root mean square of an update before it is multiplied by the learning "
                                        "rate; None disables clipping.",
                                        above=0.0),
            "factored": Param(bool, True, "Whether to store the mean square of a matrix per row and column instead of "
                              "in full."),
            "multiply_by_parameter_scale": Param(
                bool, True, "Whether to multiply the learning rate by the variable's root mean square."),
            "epsilon1": Param(float, 1e-30, "Added to squared gradients.", minimum=0.0),
            "epsilon2": Param(float, 1e-3, "Lower bound on the root mean square in multiply_by_parameter_scale.",
                              minimum=0.0),
        }

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        slots = {"m": Slot(shape)} if self.params["beta1"] else {}
        if self.params["factored"] and len(shape) >= 2:
            return {**slots, "row": Slot(shape[:-1]), "column": Slot(shape[:-2] + shape[-1:])}
        return {**slots, "v": Slot(shape)}

    def _begin(self, learning_rate: tf.Tensor, update_index: tf.Tensor) -> Any:
        """Returns (learning rate, decay of the mean square), FP32 scalars; the first update has decay 0."""
        count = tf.cast(update_index, tf.float64) + 1.0
        return learning_rate, tf.cast(1.0 - count ** -self.params["decay_rate"], tf.float32)

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        rate, decay = step
        if self.params["multiply_by_parameter_scale"]:
            rate *= tf.maximum(_rms(tf.convert_to_tensor(variable)), self.params["epsilon2"])
        change = gradient * self._inverse_root(gradient, slots, decay)
        if self.params["clipping_threshold"] is not None:
            change /= tf.maximum(1.0, _rms(change) / self.params["clipping_threshold"])
        change *= rate
        if self.params["beta1"]:
            beta1 = self.params["beta1"]
            change = slots["m"].assign(beta1 * slots["m"] + (1.0 - beta1) * change)
        variable.assign_sub(change)

    def _inverse_root(self, gradient: tf.Tensor, slots: Variables, decay: tf.Tensor) -> tf.Tensor:
        """Updates the moving average of squared gradients and returns its inverse square root.

        The shape of the result broadcasts to that of the gradient.
        """
        squares = tf.square(gradient) + self.params["epsilon1"]

        def mean(kind: str, new: tf.Tensor) -> tf.Tensor:
            return slots[kind].assign(decay * slots[kind] + (1.0 - decay) * new)

        if "v" in slots:
            return tf.math.rsqrt(tf.convert_to_tensor(mean("v", squares)))
        row = tf.convert_to_tensor(mean("row", tf.reduce_mean(squares, -1)))
        column = tf.convert_to_tensor(mean("column", tf.reduce_mean(squares, -2)))
        # Divides the rows by their mean first, because the product of rows and columns could underflow.
        row_factor = tf.math.rsqrt(row / tf.reduce_mean(row, -1, keepdims=True))
        return row_factor[..., tf.newaxis] * tf.math.rsqrt(column)[..., tf.newaxis, :]
