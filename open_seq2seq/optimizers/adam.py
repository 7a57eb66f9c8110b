"""Adam and its relatives: AdamW, LazyAdam, Nadam."""

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
