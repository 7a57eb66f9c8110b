"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers.optimizer import Optimizer, Slot, Variables


class SGD(Optimizer):
    """Gradient descent: ``w -= lr · g``."""

    updates_rows = True

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=step, delta=gradient)

    def _update_rows(self, variable: tf.Variable, gradient: tf.IndexedSlices, slots: Variables, step: Any) -> None:
        variable.scatter_sub(tf.IndexedSlices(step * gradient.values, gradient.indices))


class Momentum(Optimizer):
    """Gradient descent with momentum; the accumulator does not contain the learning rate.

    ``a = momentum · a + g``; ``w -= lr · a``, or with Nesterov momentum (Sutskever et al. 2013)
    ``w -= lr · (g + momentum · a)``.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "momentum": Param(float, 0.9, "Fraction of the accumulator that is kept at each update.", minimum=0.0,
                              below=1.0),
            "use_nesterov": Param(bool, False, "Whether to use Nesterov momentum."),
        }

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        return {"momentum": Slot(shape)}

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle, accum=slots["momentum"].handle, lr=step, grad=gradient,
            momentum=self.params["momentum"], use_nesterov=self.params["use_nesterov"])
