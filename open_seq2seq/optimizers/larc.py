"""LARC: a learning rate for each variable, computed from the norms of its weights and its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import Param, check_params
from open_seq2seq.optimizers.clipping import Gradient, Gradients, map_values
from open_seq2seq.optimizers.optimizer import Variables
from open_seq2seq.utils.errors import ConfigError

# Smallest divisor in the ratio; without it, a learning rate of 0 (at the start of a warm-up) would mean division by 0.
_TINY = 1e-30


class LarcInfo(NamedTuple):
    """Effect of LARC on one variable in one update, as FP32 scalars.

    Attributes:
      clip_on: 1 if the mode is ``clip`` and the gradient was reduced, otherwise 0.
      grad_update: the factor by which the gradient was multiplied.
      final_lr: the effective learning rate, which is the policy's rate times ``grad_update``.
    """

    clip_on: tf.Tensor
    grad_update: tf.Tensor
    final_lr: tf.Tensor


class Larc:
    """Layer-wise adaptive rate control (You et al. 2017, https://arxiv.org/abs/1708.03888).

    A variable w with gradient g is updated as if its gradient were ``u · g``:

    * ``scale`` (the paper's LARS): ``u = max(η · ‖w‖ / (‖g‖ + ε), min_update)``;
    * ``clip``: ``u = min(1, max(η · ‖w‖ / (lr · (‖g‖ + ε)), min_update))``, so that plain gradient
      descent changes a variable by at most η times its norm, and never by more than without LARC.

    The paper's ratio is 0 for a variable that is all zeros, such as a new bias, which would therefore never change.
    With ``min_update``, such a variable first moves by that fraction of its plain update, and later by up to η times
    its norm per update. A larger ``min_update`` (1e-3) speeds up the start.

    Args:
      params: ``larc_params`` in configs.

    Raises:
      ConfigError: parameters are unknown, missing, of the wrong type or out of range.
    """

    def __init__(self, **params: Any) -> None:
        checked, problems = check_params(params, self.get_required_params(), self.get_optional_params(), "larc_params")
        if problems:
            raise ConfigError(problems)
        self._params = checked

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        """Returns the specs of the required parameters by name."""
        return {"larc_eta": Param(float, doc="The factor of the ratio in larc_mode. With clip and plain SGD, it is the "
                                  "largest change of a variable per update, as a fraction of the variable's norm.",
                                  above=0.0)}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        """Returns the specs of the optional parameters by name."""
        return {
            "larc_mode": Param(["clip", "scale"], "clip", "clip: limit the policy's learning rate to larc_eta · "
                               "weight norm / gradient norm. scale: multiply it by that ratio."),
            "min_update": Param(float, 1e-7, "Lower bound on a gradient's factor; lets variables that are all zeros "
                                "change.",
                                minimum=0.0),
            "epsilon": Param(float, 1e-7, "Added to the norm of the gradient.", above=0.0),
        }

    def apply(self, gradients: Gradients, variables: Variables, learning_rate: tf.Tensor,
              scale: tf.Tensor) -> tuple[Gradients, tf.Tensor, dict[str, LarcInfo]]:
        """Unscales the gradients and multiplies each by its factor.

        Args:
          gradients: FP32 gradients by name, multiplied by ``scale``; dense, or ``IndexedSlices`` without duplicates.
          variables: the variables by name, at least those with a gradient.
          learning_rate: FP32 scalar, the policy's learning rate for this update.
          scale: FP32 scalar, the loss scale.

        Returns:
          (unscaled gradients times their factors, global norm of these products, ``LarcInfo`` by name).
        """
        # The norms of the scaled gradients are divided by the scale, instead of computing those of unscaled gradients,
        # because TensorFlow can then share the sums of squares with ``global_norm``.
        gradient_norms = _norms([_values(g) for g in gradients.values()]) / scale
        weight_norms = _norms([variables[name] for name in gradients])
        updates, clip_on = self._factors(gradient_norms, weight_norms, learning_rate)
        columns = (tf.unstack(values) for values in (clip_on, updates, learning_rate * updates))
        infos = {name: LarcInfo(*info) for name, info in zip(gradients, zip(*columns, strict=True), strict=True)}
        products = {name: map_values(lambda v, u=u: v * u, gradient)
                    for (name, gradient), u in zip(gradients.items(), tf.unstack(updates / scale), strict=True)}
        return products, tf.norm(updates * gradient_norms), infos

    def _factors(self, gradient_norms: tf.Tensor, weight_norms: tf.Tensor,
                 learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the factors of the gradients, and which gradients are clipped.

        Args:
          gradient_norms: FP32 ``[variables]``, the norms of the unscaled gradients.
          weight_norms: FP32 ``[variables]``.
          learning_rate: FP32 scalar.

        Returns:
          (factors u, 1 where the gradient is clipped and otherwise 0), both FP32 ``[variables]``.
        """
        p = self._params
        clips = p["larc_mode"] == "clip"
        divisor = (gradient_norms + p["epsilon"]) * (learning_rate if clips else 1.0)
        ratios = tf.maximum(p["larc_eta"] * weight_norms / tf.maximum(divisor, _TINY), p["min_update"])
        if not clips:
            return ratios, tf.zeros_like(ratios)
        return tf.minimum(ratios, 1.0), tf.cast(ratios < 1.0, tf.float32)


def _norms(tensors: list[tf.Tensor]) -> tf.Tensor:
    """Returns the L2 norm of each tensor, FP32 ``[tensors]``."""
    return tf.sqrt(2.0 * tf.stack([tf.nn.l2_loss(tensor) for tensor in tensors]))


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
