"""Loss scaling: keeps half-precision gradients between underflow and overflow.

The smallest positive float16 number is 6e-8; gradients up to half of it become 0. Therefore the loss is multiplied by a
scale before the backward pass, and the FP32 gradients are divided by the scale afterwards (Micikevicius et al. 2018,
"Mixed Precision Training"). The scale is either fixed or adjusted automatically.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import register, resolve_name, with_package
from open_seq2seq.config.params import Param, check_params
from open_seq2seq.parts.component import Module
from open_seq2seq.utils.errors import ConfigError

# The smallest positive float16 number.
_LEAST_HALF = 2.0**-24


class LossScaler(Module):
    """Base of loss scalers.

    Attributes:
      automatic: whether the scale is adjusted automatically; if so, updates that overflow are skipped by default.
      needs_amax: whether ``update`` needs the argument ``amax``, which costs a pass over the gradients.
      longest_search: largest number of consecutive steps that can overflow while the scaler lowers the scale from its
        largest value to one at which the gradients are finite; 0 for scalers that do not search in this way.
    """

    automatic = True
    needs_amax = False
    longest_search = 0

    @property
    def scale(self) -> tf.Tensor:
        """The current scale of the loss, an FP32 scalar."""
        raise NotImplementedError("A loss scaler must implement the property scale.")

    def update(self, finite: tf.Tensor, amax: tf.Tensor) -> None:
        """Adjusts the scale after a step, whether or not its update was skipped.

        Args:
          finite: bool scalar, whether all gradients were finite.
          amax: FP32 scalar, the largest absolute value in the unscaled gradients; may be None unless ``needs_amax``.
        """

    def state(self) -> dict[str, tf.Variable]:
        """Returns the variables that are saved in checkpoints."""
        return {}


class StaticScaler(LossScaler):
    """A fixed scale.

    Args:
      scale: the scale.

    Raises:
      ConfigError: the scale is not a positive finite number.
    """

    automatic = False

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        if not 0.0 < scale < float("inf"):
            raise ConfigError([f"'loss_scaling' must be a positive number, got {scale!r}."])
        self.value = float(scale)

    @property
    def scale(self) -> tf.Tensor:
        return tf.constant(self.value, tf.float32)


class _AutomaticScaler(LossScaler):
    """Base of automatic scalers, which keeps the parameters, the scale and the number of steps.

    Args:
      params: ``loss_scaling_params`` in configs.

    Raises:
      ConfigError: parameters are unknown, of the wrong type or out of range.
    """

    def __init__(self, **params: Any) -> None:
        super().__init__()
        checked, problems = check_params(params, {}, self.get_optional_params(), "loss_scaling_params")
        if not problems and checked["scale_min"] > checked["scale_max"]:
            problems.append("'loss_scaling_params/scale_min' must not exceed scale_max, got "
                            f"{checked['scale_min']} and {checked['scale_max']}.")
        if problems:
            raise ConfigError(problems)
        self._params = checked
        self._scale = tf.Variable(checked["scale_max"], dtype=tf.float32, trainable=False)
        self._iteration = tf.Variable(0, dtype=tf.int64, trainable=False)

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        """Returns the specs of the parameters by name."""
        return {
            "scale_min": Param(float, 1.0, "Smallest scale.", above=0.0),
            "scale_max": Param(float, 2.0**14, "Largest scale.", above=0.0),
        }

    @property
    def scale(self) -> tf.Tensor:
        return self._scale.read_value()

    def state(self) -> dict[str, tf.Variable]:
        return {"scale": self._scale, "iteration": self._iteration}

    def _clip(self, scale: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(scale, self._params["scale_min"], self._params["scale_max"])


class BackoffScaler(_AutomaticScaler):
    """Lowers the scale on overflow and raises it after a period without overflow.

    The scale starts at ``scale_max``. It is divided by ``step_factor`` on overflow, and multiplied by ``step_factor``
    after ``step_window`` steps without overflow.

    Args:
      params: ``loss_scaling_params`` in configs.

    Raises:
      ConfigError: parameters are unknown, of the wrong type or out of range.
    """

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._last_overflow = tf.Variable(-1, dtype=tf.int64, trainable=False)
        span = math.log(self._params["scale_max"] / self._params["scale_min"], self._params["step_factor"])
        # Rounded first, because the quotient of logarithms may exceed a whole number slightly. One more, because the
        # gradients may overflow at scale_min, too.
        self.longest_search = math.ceil(round(span, 6)) + 1

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **_AutomaticScaler.get_optional_params(),
            "step_factor": Param(float, 2.0, "Factor by which the scale is lowered or raised.", above=1.0),
            "step_window": Param(int, 2000, "Number of steps without overflow after which the scale is raised.",
                                 "steps", minimum=1),
        }

    def state(self) -> dict[str, tf.Variable]:
        return {**super().state(), "last_overflow": self._last_overflow}

    def update(self, finite: tf.Tensor, amax: tf.Tensor = None) -> None:
        iteration = self._iteration.read_value()
        last_overflow = tf.where(finite, self._last_overflow, iteration)
        factor = tf.constant(self._params["step_factor"], tf.float32)
        due = tf.equal((iteration - last_overflow) % self._params["step_window"], 0)
        grown = tf.where(due, self._scale * factor, self._scale)
        self._scale.assign(self._clip(tf.where(finite, grown, self._scale / factor)))
        self._last_overflow.assign(last_overflow)
        self._iteration.assign_add(1)


class LogMaxScaler(_AutomaticScaler):
    """Predicts overflow from the distribution of the largest gradient (Kuchaiev et al. 2018).

    Let x be log2 of the largest absolute value in a step's unscaled gradients; this value is assumed to be
    log-normally distributed. Let μ be a moving average of x with the decay ``beta1``, and σ² the variance of x,
    computed from moving averages of x and x² with the decay ``beta2``, all bias-corrected. Then the scale is
    ``2^(log_max - (μ + overflow_std_dev · σ))``, so that by default the next step overflows with probability 0.001.
    The scale starts at 1. See https://arxiv.org/abs/1805.10387.

    After an overflow, x is set to ``log_max``. (NVIDIA's OpenSeq2Seq used ``2^log_max``, which kept the scale at
    its minimum for thousands of steps.) If all gradients are 0, the smallest positive float16 number is taken as the
    largest scaled gradient, so that the scale grows.

    Args:
      params: ``loss_scaling_params`` in configs.

    Raises:
      ConfigError: parameters are unknown, of the wrong type or out of range.
    """

    needs_amax = True

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._scale.assign(self._clip(tf.constant(1.0)))
        # FP64, because the variance is a small difference between large means and enters the exponent of the scale.
        self._mean, self._slow_mean, self._slow_square = (
            tf.Variable(0.0, dtype=tf.float64, trainable=False) for _ in range(3))

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **_AutomaticScaler.get_optional_params(),
            "log_max": Param(float, 16.0, "log2 of the value at which half precision overflows."),
            "beta1": Param(float, 0.99, "Decay of the fast moving average.", minimum=0.0, below=1.0),
            "beta2": Param(float, 0.999, "Decay of the slow moving averages.", minimum=0.0, below=1.0),
            "overflow_std_dev": Param(float, 3.09, "Safety margin; with 3.09, about one step in 1000 overflows.",
                                      "standard deviations", minimum=0.0),
        }

    def state(self) -> dict[str, tf.Variable]:
        return {**super().state(), "mean": self._mean, "slow_mean": self._slow_mean, "slow_square": self._slow_square}

    def update(self, finite: tf.Tensor, amax: tf.Tensor) -> None:
        log_max, beta1, beta2 = (self._params[name] for name in ("log_max", "beta1", "beta2"))
        largest = tf.where(finite, tf.where(amax > 0.0, amax, _LEAST_HALF / self._scale), 1.0)
        log2 = tf.math.log(tf.cast(largest, tf.float64)) / math.log(2.0)
        x = tf.where(finite, log2, tf.constant(log_max, tf.float64))
        mean = self._mean.assign(beta1 * self._mean + (1.0 - beta1) * x)
        slow_mean = self._slow_mean.assign(beta2 * self._slow_mean + (1.0 - beta2) * x)
        slow_square = self._slow_square.assign(beta2 * self._slow_square + (1.0 - beta2) * x * x)
        count = tf.cast(self._iteration.assign_add(1), tf.float64)
        fast, slow = (1.0 - tf.constant(beta, tf.float64)**count for beta in (beta1, beta2))
        deviation = tf.sqrt(tf.maximum(slow_square / slow - tf.square(slow_mean / slow), 0.0))
        exponent = log_max - (mean / fast + self._params["overflow_std_dev"] * deviation)
        # The exponent is clipped, because the power could exceed the range of FP32 otherwise.
        bounds = (math.log2(self._params[name]) for name in ("scale_min", "scale_max"))
        self._scale.assign(self._clip(tf.cast(tf.pow(tf.constant(2.0, tf.float64), tf.clip_by_value(
            exponent, *bounds)), tf.float32)))


_ALGORITHMS = {"Backoff": BackoffScaler, "LogMax": LogMaxScaler}


def make_loss_scaler(loss_scaling: float | str | type | None = None, params: Mapping[str, Any] | None = None,
                     compute: tf.DType = tf.float16) -> LossScaler:
    """Creates the loss scaler that a config selects.

    Args:
      loss_scaling: a number; ``"Backoff"`` or ``"LogMax"`` (case-insensitive); a subclass of ``LossScaler``, or its
        name; None for Backoff in float16 and 1 otherwise.
      params: arguments of automatic scalers.
      compute: the dtype of the arithmetic; for float32, the scale is always 1.

    Raises:
      ConfigError: the algorithm is unknown, or the arguments are invalid or have no effect.
    """
    default = "Backoff" if compute == tf.float16 else 1.0
    loss_scaling = named_scaler(default if loss_scaling is None else loss_scaling)
    if isinstance(loss_scaling, type):
        scaler: LossScaler = loss_scaling(**(params or {}))
    elif isinstance(loss_scaling, bool) or not isinstance(loss_scaling, (int, float, str)):
        raise ConfigError([f"'loss_scaling' must be a number, 'Backoff' or 'LogMax', got {loss_scaling!r}."])
    else:
        scaler = StaticScaler(float(loss_scaling))
        if params:
            raise ConfigError(["'loss_scaling_params' have no effect with a fixed 'loss_scaling': leave them out, "
                               "or set 'loss_scaling' to 'Backoff' or 'LogMax'."])
    return StaticScaler(1.0) if compute == tf.float32 else scaler


def named_scaler(loss_scaling: Any) -> Any:
    """Returns the scaler class for a name; other values, such as numbers and numeric strings, are returned unchanged.

    Raises:
      ConfigError: the name is unknown, or the class is not a loss scaler.
    """
    if isinstance(loss_scaling, type) or isinstance(loss_scaling, str) and not _is_number(loss_scaling):
        algorithms = {known.lower(): scaler for known, scaler in _ALGORITHMS.items()}
        found = algorithms.get(loss_scaling.strip().lower()) if isinstance(loss_scaling, str) else None
        return found or resolve_name(loss_scaling, "loss_scaler", "loss_scaling")
    return loss_scaling


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


register("loss_scaler", lambda: {**_ALGORITHMS, **with_package({s.__name__: s for s in _ALGORITHMS.values()},
                                                               "open_seq2seq.optimizers")}, base=LossScaler)
