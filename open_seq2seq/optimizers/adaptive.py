"""Optimizers with a separate step size for each weight: Adam and its kin, Adagrad, RMSProp, Ftrl, and Adafactor."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers.optimizer import Optimizer, Slot, Variables


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015) in the formulation just before section 2.1 of the paper, as in TensorFlow.

    ``m = β1·m + (1-β1)·g``; ``v = β2·v + (1-β2)·g²``;
    ``w -= lr · sqrt(1-β2^t)/(1-β1^t) · m / (sqrt(v) + ε)`` for t = 1, 2, …

    ε is added to the square root of the *uncorrected* v ("epsilon hat" in the paper), so it has more effect in early
    updates than in the paper's algorithm 1. See https://arxiv.org/abs/1412.6980.
    """

    _nesterov = False

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "beta1": Param(float, 0.9, "Decay of the moving average of gradients.", minimum=0.0, below=1.0),
            "beta2": Param(float, 0.999, "Decay of the moving average of squared gradients.", minimum=0.0, below=1.0),
            "epsilon": Param(float, 1e-8, "Added to the square root of the average of squared gradients.",
                             minimum=0.0),
        }

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        return {"m": Slot(shape), "v": Slot(shape)}

    def _begin(self, learning_rate: tf.Tensor, update_index: tf.Tensor) -> Any:
        """Returns (learning rate, bias-corrected learning rate), FP32 scalars.

        The correction is computed in FP64, because 1 - β^t loses digits in FP32; β is rounded to FP32, as TensorFlow's
        kernel rounds it.
        """
        count = tf.cast(update_index, tf.float64) + 1.0
        beta1, beta2 = (tf.constant(np.float32(self.params[name]), tf.float64) for name in ("beta1", "beta2"))
        correction = tf.sqrt(1.0 - beta2**count) / (1.0 - beta1**count)
        return learning_rate, tf.cast(tf.cast(learning_rate, tf.float64) * correction, tf.float32)

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        # The kernel would correct the bias with the powers of beta; 0 disables this, because lr is already corrected.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=slots["m"].handle, v=slots["v"].handle, beta1_power=0.0, beta2_power=0.0,
            lr=step[1], beta1=self.params["beta1"], beta2=self.params["beta2"], epsilon=self.params["epsilon"],
            grad=gradient, use_nesterov=self._nesterov)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019): in addition, ``w -= lr · weight_decay · w``.

    The decay follows the learning-rate schedule and applies to every variable.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Adam.get_optional_params(),
            "weight_decay": Param(float, 0.01, "Weight decay, multiplied by the current learning rate.", minimum=0.0),
        }

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        # w is not multiplied by 1 - lr · decay, because the rounding error of this factor would affect all weights.
        variable.assign_sub(step[0] * self.params["weight_decay"] * variable)
        super()._update_dense(variable, gradient, slots, step)


class LazyAdam(Adam):
    """Adam that updates only the rows of an embedding table that have a gradient, and their moving averages.

    This saves most of the work on large embedding tables. Unlike in Adam, the moving averages of a row do not decay
    while it has no gradient. Dense gradients are handled as in Adam.
    """

    updates_rows = True

    def _update_rows(self, variable: tf.Variable, gradient: tf.IndexedSlices, slots: Variables, step: Any) -> None:
        # Rounded to FP32 as in the dense kernel, because the bias correction uses the rounded values.
        beta1, beta2 = np.float32(self.params["beta1"]), np.float32(self.params["beta2"])
        rows, values = gradient.indices, gradient.values
        m = beta1 * tf.gather(slots["m"], rows) + (np.float32(1.0) - beta1) * values
        v = beta2 * tf.gather(slots["v"], rows) + (np.float32(1.0) - beta2) * tf.square(values)
        # Uses the handles, because slots on several devices (ON_READ variables) have no scatter_update.
        for slot, new in ((slots["m"], m), (slots["v"], v)):
            tf.raw_ops.ResourceScatterUpdate(resource=slot.handle, indices=rows, updates=new)
        change = step[1] * m / (tf.sqrt(v) + self.params["epsilon"])
        variable.scatter_sub(tf.IndexedSlices(change, rows))


class Nadam(Adam):
    """Adam with Nesterov momentum (Dozat 2016): ``β1·m + (1-β1)·g`` instead of m."""

    _nesterov = True


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
