"""Optimizers with a separate step size for each weight: Adagrad, RMSProp and Ftrl."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers.optimizer import Optimizer, Slot, Variables


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011): ``a += g²``; ``w -= lr · g / sqrt(a)``."""

    updates_rows = True

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {"initial_accumulator_value": Param(float, 0.1, "Initial value of the sum of squared gradients.",
                                                   above=0.0)}

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        return {"accumulator": Slot(shape, self.params["initial_accumulator_value"])}

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        tf.raw_ops.ResourceApplyAdagrad(
            var=variable.handle, accum=slots["accumulator"].handle, lr=step, grad=gradient)

    def _update_rows(self, variable: tf.Variable, gradient: tf.IndexedSlices, slots: Variables, step: Any) -> None:
        # Uses basic operations, because XLA has no Adagrad kernel for sparse gradients.
        rows, values = gradient.indices, gradient.values
        sums = tf.gather(slots["accumulator"], rows) + tf.square(values)
        # Uses the handle, because slots on several devices (ON_READ variables) have no scatter_update.
        tf.raw_ops.ResourceScatterUpdate(resource=slots["accumulator"].handle, indices=rows, updates=sums)
        variable.scatter_sub(tf.IndexedSlices(step * values * tf.math.rsqrt(sums), rows))


class RMSProp(Optimizer):
    """RMSProp (Hinton, Coursera lecture 6e) with momentum.

    ``s = decay·s + (1-decay)·g²``, where s is initially 1; ``a = momentum·a + lr·g/sqrt(s + ε)``; ``w -= a``.
    If centred (Graves 2013), the root is ``sqrt(s - c² + ε)`` with ``c = decay·c + (1-decay)·g``.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "decay": Param(float, 0.9, "Decay of the moving average of squared gradients.", minimum=0.0, below=1.0),
            "momentum": Param(float, 0.0, "Fraction of the previous update that is added to the next.",
                              minimum=0.0, below=1.0),
            "epsilon": Param(float, 1e-10, "Added to the average of squared gradients, under the root.", minimum=0.0),
            "centered": Param(bool, False, "Whether to normalise by the variance of gradients, not by their mean "
                              "square."),
        }

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        slots = {"rms": Slot(shape, 1.0), "momentum": Slot(shape)}
        return {**slots, "mean_gradient": Slot(shape)} if self.params["centered"] else slots

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        arguments = {
            "var": variable.handle, "ms": slots["rms"].handle, "mom": slots["momentum"].handle, "lr": step,
            "rho": self.params["decay"], "momentum": self.params["momentum"], "epsilon": self.params["epsilon"],
            "grad": gradient}
        if self.params["centered"]:
            tf.raw_ops.ResourceApplyCenteredRMSProp(mg=slots["mean_gradient"].handle, **arguments)
        else:
            tf.raw_ops.ResourceApplyRMSProp(**arguments)


class Ftrl(Optimizer):
    """Follow the regularised leader (McMahan et al. 2013), with L1, L2 and L2 shrinkage.

    ``n' = n + g²``; ``z += g + 2·shrinkage·w - (n'^-p - n^-p)/lr · w``;
    ``w = (clip(z, -l1, l1) - z) / (n'^-p/lr + 2·l2)``, where n is the sum of squared gradients before the update, n'
    the sum after it, and p is ``learning_rate_power``, which is negative or 0. l1, l2 and shrinkage are the three
    strengths among the parameters.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "learning_rate_power": Param(float, -0.5, "Exponent of the sum of squares in the step size; at most 0.",
                                         maximum=0.0),
            "initial_accumulator_value": Param(float, 0.1, "Initial value of the sum of squared gradients.",
                                               minimum=0.0),
            "l1_regularization_strength": Param(float, 0.0, "Strength of the L1 penalty.", minimum=0.0),
            "l2_regularization_strength": Param(float, 0.0, "Strength of the L2 penalty.", minimum=0.0),
            "l2_shrinkage_regularization_strength": Param(float, 0.0, "Strength of an L2 penalty that is added to the "
                                                          "gradient, but not to the sum of squared gradients.",
                                                          minimum=0.0),
        }

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        return {"accumulator": Slot(shape, self.params["initial_accumulator_value"]), "linear": Slot(shape)}

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        def update() -> tf.Tensor:
            tf.raw_ops.ResourceApplyFtrlV2(
                var=variable.handle, accum=slots["accumulator"].handle, linear=slots["linear"].handle,
                grad=gradient, lr=step, l1=self.params["l1_regularization_strength"],
                l2=self.params["l2_regularization_strength"], lr_power=self.params["learning_rate_power"],
                l2_shrinkage=self.params["l2_shrinkage_regularization_strength"])
            return tf.constant(True)

        # No update at a learning rate of 0, as at the start of a warm-up: the update rule divides by the learning rate.
        tf.cond(step > 0.0, update, lambda: tf.constant(False))
