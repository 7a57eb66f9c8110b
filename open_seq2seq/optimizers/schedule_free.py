"""Schedule-free Adam: an average of the weights takes the place of a falling learning rate."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers.optimizer import Optimizer, Slot, Variables
from open_seq2seq.optimizers.weight_average import WeightAverage

WEIGHT_SUM = "weight_sum"
"""Name, in the state of ``ScheduleFreeAdamW``, of the sum of squared learning rates."""


class ScheduleFreeAverage(WeightAverage):
    """The average x of ``ScheduleFreeAdamW``, which updates it together with the weights."""

    def __init__(self) -> None:
        self.weights = {}
        self._z: Variables = {}

    def connect(self, x: Variables, z: Variables) -> None:
        """Takes over the averages x, and the iterates z, which restart with them."""
        self.weights, self._z = x, z

    def build(self, variables: Variables) -> None:
        """Does nothing, because the optimizer creates the averages."""

    def update(self, variables: Variables, update_index: tf.Tensor) -> None:
        """Does nothing, because the optimizer updates the averages."""

    def restart(self, variables: Variables, names: Collection[str]) -> None:
        super().restart(variables, names)
        for name in names:
            self._z[name].assign(variables[name])


class ScheduleFreeAdamW(Optimizer):
    """Schedule-free AdamW (Defazio et al. 2024), for a constant learning rate with a warm-up.

    The gradient g is that of the weights ``y = (1-β1)·z + β1·x``, where z follows Adam without momentum and x is the
    average of z, with which the model is evaluated. At update t = 1, 2, …, with
    ``γ = lr · sqrt(1-β2^t) · min(1, t / warmup_steps)``:
    ``v = β2·v + (1-β2)·g²``; ``z -= γ · (g / (sqrt(v) + ε) + weight_decay·y)``; ``x += c · (z - x)`` with
    ``c = γ² / Σγ²``.

    Training, recovery and checkpoints treat x as they treat a moving average of the weights (``ema_decay``):
    evaluation, inference and export use it. Statistics of batch norm, however, are those of y.
    See https://arxiv.org/abs/2405.15682.
    """

    takes_layer_rates = False  # all variables share the sum of squared rates

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self.average = ScheduleFreeAverage()

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "beta1": Param(float, 0.9, "Share of the average x in the weights y.", minimum=0.0, below=1.0),
            "beta2": Param(float, 0.999, "Decay of the moving average of squared gradients.", minimum=0.0, below=1.0),
            "epsilon": Param(float, 1e-8, "Added to the square root of the average of squared gradients.",
                             minimum=0.0),
            "weight_decay": Param(float, 0.0, "Weight decay, multiplied by the current learning rate.", minimum=0.0),
            "warmup_steps": Param(int, 0, "Number of updates during which the learning rate rises linearly.", "updates",
                                  minimum=0),
        }

    def build(self, variables: Variables) -> None:
        super().build(variables)
        assert self._slots is not None
        self._weight_sum = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.average.connect(self._slots["x"], self._slots["z"])

    def state(self) -> Variables:
        """Returns the variables saved in checkpoints besides the averages x, which are ``average.weights``."""
        averages = {f"x/{name}" for name in self.average.weights}
        saved = {name: variable for name, variable in super().state().items() if name not in averages}
        return {**saved, WEIGHT_SUM: self._weight_sum} if self._slots is not None else saved

    def num_state_values(self, name: str, shape: tuple[int, ...]) -> int:
        return sum(math.prod(slot.shape) for kind, slot in self._slots_of(shape).items() if kind != "x")

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        return {"v": Slot(shape), "x": Slot(shape, None), "z": Slot(shape, None)}

    def _begin(self, learning_rate: tf.Tensor, update_index: tf.Tensor) -> Any:
        """Adds to the sum of squared rates, and returns (the rate γ, the weight c), FP32 scalars."""
        count = tf.cast(update_index, tf.float64) + 1.0
        rate = tf.cast(learning_rate, tf.float64) * tf.sqrt(1.0 - self.params["beta2"]**count)
        if self.params["warmup_steps"]:
            rate *= tf.minimum(count / self.params["warmup_steps"], 1.0)
        weight = tf.square(rate)
        total = tf.convert_to_tensor(self._weight_sum.assign_add(weight))
        # While the rate is 0, z does not change.
        return tf.cast(rate, tf.float32), tf.cast(tf.math.divide_no_nan(weight, total), tf.float32)

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        rate, share = step
        _descend(slots["v"], 1.0 - self.params["beta2"], slots["v"] - tf.square(gradient))
        change = gradient / (tf.sqrt(tf.convert_to_tensor(slots["v"])) + self.params["epsilon"])
        if self.params["weight_decay"]:
            change += self.params["weight_decay"] * variable
        _descend(slots["z"], rate, change)
        distance = slots["x"] - slots["z"]
        _descend(slots["x"], share, distance)
        # The new x is z + (1 - c) · distance.
        variable.assign(slots["z"] + self.params["beta1"] * (1.0 - share) * distance)


def _descend(variable: tf.Variable, rate: Any, change: tf.Tensor) -> None:
    """Subtracts the product of ``rate``, a scalar, and ``change`` from a variable, in one operation."""
    tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=change)
