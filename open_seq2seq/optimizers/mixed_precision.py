"""Wraps an optimizer with loss scaling, clipping or LARC, weight decay, weight averaging and skipping of updates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import NamedTuple

import tensorflow as tf

from open_seq2seq.optimizers.clipping import Gradients, clip_factor, global_norm, map_values, max_abs, scaled
from open_seq2seq.optimizers.layer_rates import Larc, LarcInfo, LayerRates
from open_seq2seq.optimizers.loss_scaling import LossScaler, StaticScaler
from open_seq2seq.optimizers.lr_policies import Schedule, checksum_of_rates, has_jump
from open_seq2seq.optimizers.optimizer import Optimizer, Variables
from open_seq2seq.optimizers.registry import combination_problems
from open_seq2seq.optimizers.weight_average import WeightAverage
from open_seq2seq.optimizers.weight_decay import WeightDecay
from open_seq2seq.parts.component import Module
from open_seq2seq.utils.errors import ConfigError


class UpdateInfo(NamedTuple):
    """Result of an update.

    Attributes:
      applied: bool scalar; False when the update was skipped.
      learning_rate: FP32 scalar, the learning rate of this update.
      grad_norm: FP32 scalar, the global norm of the unscaled gradients before clipping.
      clipped_grad_norm: FP32 scalar, the global norm after clipping or LARC.
      loss_scale: FP32 scalar, the loss scale of these gradients.
      skipped: int64 scalar, number of updates skipped so far, including this one.
      larc: ``LarcInfo`` by variable name; empty without LARC.
      overflows: int64 scalar, number of updates so far whose gradients were not finite, skipped or not.
    """

    applied: tf.Tensor
    learning_rate: tf.Tensor
    grad_norm: tf.Tensor
    clipped_grad_norm: tf.Tensor
    loss_scale: tf.Tensor
    skipped: tf.Tensor
    larc: dict[str, LarcInfo]
    overflows: tf.Tensor


class MixedPrecisionOptimizer(Module):
    """Updates FP32 weights from the gradients of a scaled loss.

    With a fixed scale of 1, as in float32, the loss and the gradients are not multiplied by the scale.

    Args:
      optimizer: the optimizer.
      schedule: function from the number of updates made to the learning rate (see ``make_schedule``).
      loss_scaler: the loss scaler; a fixed scale of 1 by default.
      max_grad_norm: largest global norm of the unscaled gradients; None disables clipping.
      skip_nonfinite: whether to skip updates with inf or NaN in the gradients; by default only if the loss scale is
        automatic.
      larc: rescales each variable's gradient; None disables LARC. Cannot be combined with ``max_grad_norm``.
      weight_decay: decoupled weight decay; None disables it.
      average: moving average or mean of the weights; None disables it.
      layer_rates: learning rates by group of variables; None for the same rate for all.

    Attributes:
      updates: int64 variable, number of updates made.
      skipped: int64 variable, number of updates skipped.
      overflows: int64 variable, number of updates whose gradients were not finite.
      rate_factor: FP32 variable that multiplies the schedule's rate; initially 1. Recovery from divergence lowers it.
      batch_factor: FP32 variable that also multiplies the rate; initially 1. The trainer assigns it before each step if
        the data layer defines a ``rate_factor`` for its batches. It is not saved in checkpoints.

    Raises:
      ConfigError: arguments are out of range or exclude each other, or the optimizer does not take ``layer_rates``.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule, loss_scaler: LossScaler | None = None,
                 max_grad_norm: float | None = None, skip_nonfinite: bool | None = None,
                 larc: Larc | None = None, weight_decay: WeightDecay | None = None,
                 average: WeightAverage | None = None, layer_rates: LayerRates | None = None) -> None:
        super().__init__()
        if max_grad_norm is not None and not max_grad_norm > 0.0:
            raise ConfigError([f"'max_grad_norm' must be positive, got {max_grad_norm!r}."])
        if max_grad_norm is not None and larc is not None:
            raise ConfigError(combination_problems({"max_grad_norm": max_grad_norm, "larc_params": larc}))
        if average is not None and optimizer.average is not None:
            raise ConfigError(combination_problems({"optimizer": type(optimizer), "ema_decay": average}))
        self._optimizer = optimizer
        self._schedule = schedule
        self._scaler = loss_scaler if loss_scaler is not None else StaticScaler(1.0)
        self._max_grad_norm = max_grad_norm
        if layer_rates is not None and not optimizer.takes_layer_rates:
            raise ConfigError(combination_problems({"optimizer": type(optimizer), "lr_factors": layer_rates}))
        self._larc, self._weight_decay = larc, weight_decay
        self._average = optimizer.average if average is None else average
        self._layer_rates = layer_rates
        self._skip_nonfinite = self._scaler.automatic if skip_nonfinite is None else skip_nonfinite
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.overflows = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.rate_factor = tf.Variable(1.0, dtype=tf.float32, trainable=False)
        self.batch_factor = tf.Variable(1.0, dtype=tf.float32, trainable=False)

    def build(self, variables: Variables) -> None:
        """Prepares the optimizer and its additions for these variables; must be called exactly once."""
        self._optimizer.build(variables)
        if self._layer_rates is not None:
            self._layer_rates.build(variables)
        if self._weight_decay is not None:
            self._weight_decay.build(variables)
        if self._average is not None:
            self._average.build(variables)

    @property
    def averaged_weights(self) -> Variables:
        """The averages of the weights by name; empty if averaging is disabled."""
        return {} if self._average is None else dict(self._average.weights)

    @property
    def is_averaging(self) -> bool:
        """Whether averaging is enabled and has begun; before, the averages equal the weights."""
        return self._average is not None and self._average.has_begun

    def restart_average(self, variables: Variables, names: Collection[str] | None = None) -> None:
        """Restarts the averages of the weights, if enabled, from the current weights.

        Args:
          variables: the trainable variables by name.
          names: names of the averages to restart; all by default.
        """
        if self._average is not None:
            self._average.restart(variables, self._average.weights if names is None else names)

    def observe(self, step: int, loss: float) -> bool:
        """Records the validation loss after a step; returns whether averaging of the weights begins because of it."""
        return self._average is not None and self._average.observe(step, loss)

    def awaits(self, step: int) -> bool:
        """Returns whether ``observe`` should be called for a step, because averaging may begin with its loss."""
        return self._average is not None and self._average.awaits(step)

    @property
    def loss_scale(self) -> tf.Tensor:
        """The current loss scale, an FP32 scalar."""
        return self._scaler.scale

    @property
    def longest_search(self) -> int:
        """Largest number of consecutive updates that are skipped while the loss scaler searches for a scale."""
        return self._scaler.longest_search

    @property
    def learning_rate(self) -> tf.Tensor:
        """The learning rate of the next update without ``batch_factor``, an FP32 scalar."""
        return self._schedule(self.updates.read_value()) * self.rate_factor

    @property
    def rates(self) -> str:
        """A string that identifies the schedule of the learning rate and the value of ``rate_factor``."""
        return f"{self._rates} {float(self.rate_factor.numpy()):g}"

    @functools.cached_property
    def _rates(self) -> str:
        return checksum_of_rates(self._schedule)

    def rate_jumps(self, first: int, last: int) -> bool:
        """Returns whether the learning rate jumps between two numbers of updates; see ``lr_policies.has_jump``."""
        return has_jump(self._schedule, first, last)

    def scale(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss, a scalar, in FP32 and times the loss scale; ``update`` expects the gradients of this."""
        loss = tf.cast(loss, tf.float32)
        return loss * self.loss_scale if self._scales else loss

    def update(self, gradients: Gradients, variables: Variables,
               agree: Callable[[tf.Tensor], tf.Tensor] | None = None, for_xla: bool = False) -> UpdateInfo:
        """Makes one update, or skips it.

        The order is: cast the gradients to FP32; compute their norm; unscale and clip them, or apply LARC; ``agree`` on
        whether they are finite; apply weight decay, the optimizer's update and the weight average, or skip the update;
        adjust the loss scale.

        Args:
          gradients: gradients of the scaled loss by variable name, of any floating-point dtype, dense or
            ``IndexedSlices``; variables without a gradient are not changed.
          variables: the trainable variables by name.
          agree: computes the logical AND of a bool scalar over the ranks; identity by default.
          for_xla: whether the update is part of a function that XLA compiles. It then has no branches, for which the
            host of a GPU would have to wait, and no shapes that depend on values.

        Raises:
          ConfigError: there are no gradients.
        """
        if not gradients:
            raise ConfigError(["The loss does not depend on any trainable variable: check 'freeze_variables_regex', "
                               "and the encoder, decoder and loss for operations without gradients."])
        gradients = {name: map_values(lambda values: tf.cast(values, tf.float32), g) for name, g in gradients.items()}
        # Duplicate rows are summed once, for both the norm and the optimizer.
        gradients = {name: self._optimizer.prepare(g, for_xla) for name, g in gradients.items()}
        scale = self.loss_scale
        rate = self.learning_rate * self.batch_factor
        scaled_norm = global_norm(gradients, joins=self._larc is None, for_xla=for_xla)
        norm = scaled_norm / scale if self._scales else scaled_norm
        amax = max_abs(gradients) / scale if self._scaler.needs_amax else None
        larc: dict[str, LarcInfo] = {}
        if self._larc is not None:
            gradients, clipped_norm, larc = self._larc.apply(gradients, variables, rate, scale)
        else:
            gradients, clipped_norm = self._unscale_and_clip(gradients, scale, norm)
        finite = tf.math.is_finite(scaled_norm)
        if agree is not None and (self._skip_nonfinite or self._scaler.automatic):
            finite = agree(finite)
        apply = self._apply_selected if for_xla else self._apply
        applied = apply(gradients, variables, rate, finite if self._skip_nonfinite else None)
        self.overflows.assign_add(tf.cast(tf.logical_not(finite), tf.int64))
        if self._scaler.automatic:
            self._scaler.update(finite, amax)
        return UpdateInfo(applied, rate, norm, clipped_norm, scale, self.skipped.read_value(), larc,
                          self.overflows.read_value())

    def state(self) -> Variables:
        """Returns the variables that are saved in checkpoints, by name.

        These are the counters, ``rate_factor``, the weight average (``ema/…``, and the state of a mean), the loss
        scaler's state (``loss_scale/…``) and the optimizer's (``slots/…``).
        """
        return {"updates": self.updates, "skipped": self.skipped, "overflows": self.overflows,
                "rate_factor": self.rate_factor,
                **{f"ema/{name}": variable for name, variable in self.averaged_weights.items()},
                **({} if self._average is None else self._average.state()),
                **{f"loss_scale/{name}": variable for name, variable in self._scaler.state().items()},
                **{f"slots/{name}": variable for name, variable in self._optimizer.state().items()}}

    @property
    def _scales(self) -> bool:
        return not (isinstance(self._scaler, StaticScaler) and self._scaler.value == 1.0)

    def _unscale_and_clip(self, gradients: Gradients, scale: tf.Tensor,
                          norm: tf.Tensor) -> tuple[Gradients, tf.Tensor]:
        """Unscales and clips the gradients by a single multiplication, or by none if neither is needed.

        Args:
          gradients: FP32 gradients of the scaled loss, by variable name.
          scale: FP32 scalar, the loss scale.
          norm: FP32 scalar, the global norm of the unscaled gradients.

        Returns:
          (unscaled and clipped gradients, their global norm).
        """
        factor = 1.0 / scale
        if self._max_grad_norm is not None:
            clip = clip_factor(norm, self._max_grad_norm)
            factor, norm = factor * clip, tf.minimum(norm, self._max_grad_norm)
        elif not self._scales:
            return gradients, norm
        return scaled(gradients, factor), norm

    def _apply(self, gradients: Gradients, variables: Variables, rate: tf.Tensor,
               finite: tf.Tensor | None) -> tf.Tensor:
        def apply() -> tf.Tensor:
            index = self.updates.read_value()
            groups = [(gradients, rate)] if self._layer_rates is None else self._layer_rates.split(
                gradients, rate, index)
            for some, own_rate in groups:
                if self._weight_decay is not None:
                    self._weight_decay.apply(some, variables, own_rate)
                self._optimizer.apply(some, variables, own_rate, index)
            if self._average is not None:
                self._average.update(variables, index)
            self.updates.assign_add(1)
            return tf.constant(True)

        def skip() -> tf.Tensor:
            self.skipped.assign_add(1)
            return tf.constant(False)

        return apply() if finite is None else tf.cond(finite, apply, skip)

    def _apply_selected(self, gradients: Gradients, variables: Variables, rate: tf.Tensor,
                        finite: tf.Tensor | None) -> tf.Tensor:
        """Applies the gradients; then selects, element by element, the new values or, if not finite, the old ones.

        XLA makes the selection a part of the operations that compute the new values.
        """
        if finite is None:
            return self._apply(gradients, variables, rate, None)
        state = [self.updates, *variables.values(), *self._optimizer.state().values(), *self.averaged_weights.values(),
                *(() if self._average is None else self._average.state().values())]
        before = [variable.read_value() for variable in state]
        self._apply(gradients, variables, rate, None)
        for variable, value in zip(state, before, strict=True):
            variable.assign(tf.where(finite, variable, value))
        self.skipped.assign_add(tf.cast(tf.logical_not(finite), tf.int64))
        return finite
