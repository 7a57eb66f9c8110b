"""NovoGrad: momentum of gradients that are divided by the root of a moving average of their squared norm."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers.optimizer import Optimizer, Slot, Variables


class NovoGrad(Optimizer):
    """NovoGrad (Ginsburg et al. 2019, https://arxiv.org/abs/1905.11286, algorithm 1).

    Each variable has a scalar v, which is ``‖g‖²`` at the first gradient and then ``v = β2·v + (1-β2)·‖g‖²``. The
    update is ``m = β1·m + (g / (sqrt(v) + ε) + weight_decay·w)``; ``w -= lr·m``.

    NVIDIA's OpenSeq2Seq did not keep v between updates, so that β2 had no effect, and added ε under the root, not to
    it. With LARC, variables that begin at zero therefore change slowly at first. ``compat_no_ema`` reproduces both for
    its published recipes.

    Weight decay is part of what the momentum accumulates, and applies to every variable. A gradient of zeros does not
    count as the first gradient.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "beta1": Param(float, 0.95, "Fraction of the momentum that is kept at each update.",
                           minimum=0.0, below=1.0),
            "beta2": Param(float, 0.98, "Decay of the moving average of a gradient's squared norm.",
                           minimum=0.0, below=1.0),
            "epsilon": Param(float, 1e-8, "Added to the square root of the average squared norm.", minimum=0.0),
            "weight_decay": Param(float, 0.0, "Weight decay, added to the normalised gradient.", minimum=0.0),
            "grad_averaging": Param(bool, False, "Whether to multiply the term added to the momentum by 1 - beta1."),
            "compat_no_ema": Param(bool, False, "Whether to divide by the norm of the current gradient, ignore beta2 "
                                   "and add epsilon to the squared norm, as NVIDIA's OpenSeq2Seq did in its published "
                                   "recipes."),
        }

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        return {"momentum": Slot(shape)} if self.params["compat_no_ema"] else {"momentum": Slot(shape), "v": Slot(())}

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        p = self.params
        square = 2.0 * tf.nn.l2_loss(gradient)
        if p["compat_no_ema"]:
            divisor = tf.sqrt(square + p["epsilon"])
        else:
            v = slots["v"].read_value()
            square = slots["v"].assign(tf.where(v > 0.0, v + (1.0 - p["beta2"]) * (square - v), square))
            divisor = tf.sqrt(square) + p["epsilon"]
        share = 1.0 - p["beta1"] if p["grad_averaging"] else 1.0
        change = gradient * (share / divisor)
        if p["weight_decay"]:
            change += share * p["weight_decay"] * variable
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle, accum=slots["momentum"].handle, lr=step, grad=change, momentum=p["beta1"])
