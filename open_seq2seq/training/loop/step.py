"""One update of the weights: forward and backward pass, accumulation over micro-batches, and optimizer."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers.clipping import add_gradients, map_values
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.optimizers.underflow import UnderflowMeter
from open_seq2seq.parts.component import regularized_variables
from open_seq2seq.parts.forward_pass import JoinedRanks, forward_pass
from open_seq2seq.runners.run_states import RunStates
from open_seq2seq.runners.runner import Runner

Tensors = dict[str, Any]


class WeightedSums(NamedTuple):
    """Sums over micro-batches and replicas, for all loss terms that are counted in the same unit.

    Attributes:
      gradients: Σ units · gradient by variable name, FP32 tensors or ``IndexedSlices``. Each gradient is that of a
        micro-batch's mean loss times the loss scale.
      loss: Σ units · mean loss, FP32 ``[]``.
      units: Σ units, the number of tokens, frames or examples, FP32 ``[]``.
    """

    gradients: Tensors
    loss: tf.Tensor
    units: tf.Tensor

    def plus(self, other: WeightedSums) -> WeightedSums:
        """Returns these sums plus those of ``other``."""
        gradients = {name: add_gradients(value, other.gradients[name]) for name, value in self.gradients.items()}
        return WeightedSums(gradients, self.loss + other.loss, self.units + other.units)

    def reduced(self, runner: Runner, name: str, tallies: Tensors) -> tuple[WeightedSums, Tensors]:
        """Returns the sums over all replicas, and the sums of other scalars, computed in the same reduction.

        Args:
          runner: the run's runner.
          name: name of the reduction.
          tallies: the other scalars ``[]``, by name.
        """
        # The leading spaces avoid collisions with names of variables.
        scalars = {" loss": self.loss, " units": self.units,
                   **{f" tally/{key}": value for key, value in tallies.items()}}
        totals = runner.reduce({**self.gradients, **scalars}, name)
        sums = WeightedSums({key: totals[key] for key in self.gradients}, totals[" loss"], totals[" units"])
        return sums, {key: totals[f" tally/{key}"] for key in tallies}


class TrainStep:
    """Makes one update from ``iter_size`` micro-batches per replica.

    The loss of an update is Σ weight · sum / units over the loss terms (see ``LossTerm``) plus the regularisation. The
    sums and units are totals over all micro-batches and replicas. To keep half-precision gradients in range for any
    batch size, the mean loss of each micro-batch is differentiated by itself. The gradients are then multiplied by the
    micro-batch's number of units in FP32, added up, and divided by the total number of units.

    Args:
      model: the training model.
      optimizer: optimizer, already built for ``variables``.
      variables: the trainable variables, by name.
      runner: runner that sums gradients over replicas.
      seed: the run's ``random_seed``.
      iter_size: number of micro-batches per update.
      report_gradients: whether the results include the gradients, for summaries.
      underflow: measures the share of gradients that underflow in half precision, at summary steps; or None.
      use_xla_jit: whether the step is compiled with XLA.
      sync_batch_norm: whether batch norm computes its statistics over the batches of all replicas.
      carried: the states that the model carries from batch to batch; None for a model without any.

    Attributes:
      batches: int64 variable ``[]``, number of attempted updates times ``iter_size``, plus the number of micro-batches
        that this update has already consumed on each replica.
      offset: int64 variable ``[]``; see ``Trainer.offset``. With ``batches``, it gives the index of the next
        micro-batch, which determines its random numbers.
    """

    def __init__(self, model: Model, optimizer: MixedPrecisionOptimizer, variables: dict[str, tf.Variable],
                 runner: Runner, seed: int, iter_size: int = 1, report_gradients: bool = False,
                 use_xla_jit: bool = False, underflow: UnderflowMeter | None = None,
                 sync_batch_norm: bool = False, carried: RunStates | None = None) -> None:
        self._model = model
        self._optimizer = optimizer
        self._variables = variables
        self._runner = runner
        self._seed = seed
        self._iter_size = iter_size
        self._report_gradients = report_gradients
        self._underflow = underflow
        self._use_xla_jit = use_xla_jit
        self._carried = carried
        self._joins_ranks = sync_batch_norm and runner.world_size > 1
        trainable = {id(variable) for variable in variables.values()}
        self._regularized = [(v, r) for v, r in regularized_variables(model) if id(v) in trainable]
        self.batches = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.offset = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._is_simple = iter_size == 1 and runner.world_size == 1  # no sums over micro-batches are needed
        # With the backward pass and the reduction in one function, communication and computation overlap.
        self._overlapping = iter_size == 1 and runner.overlaps and not use_xla_jit
        signature = [model.data_layer.input_signature]
        self._update_at_once = runner.compile(self._update_from_one, signature, use_xla_jit)
        self._weigh = runner.compile(self._weigh_one, signature, use_xla_jit)
        self._add = runner.compile(
            lambda first, second: {unit: sums.plus(second[unit]) for unit, sums in first.items()})
        self._finish = runner.compile(self._update_from_sums)
        self._together: Any = None

    def __call__(self, batches: list[Any], tallies: Mapping[str, float] | None = None) -> Tensors:
        """Makes one update.

        Args:
          batches: ``iter_size`` micro-batches for each replica of this process: the first one of each replica, then the
            second one of each, and so on.
          tallies: numbers that are summed over all processes together with the gradients, and returned. Ignored if
            there is only one replica and ``iter_size`` is 1.

        Returns:
          A dict of tensors: ``loss`` ``[]`` (of the whole update, over all replicas), ``finite_loss`` (bool ``[]``),
          the fields of ``UpdateInfo``, and the tallies ``[]``; if requested, also ``gradients`` (unscaled, by variable
          name) and ``underflow`` (see ``UnderflowMeter``). Reading a tensor waits for the device.
        """
        if self._is_simple:
            return self._update_at_once(batches)[0]
        replicas = self._runner.local_replicas
        tensors = {name: tf.constant(value, tf.float32) for name, value in (tallies or {}).items()}
        per_replica = [tensors, *[{name: tf.constant(0.0, tf.float32) for name in tensors}] * (replicas - 1)]
        if self._overlapping:
            if self._together is None:
                scalars = {name: tf.TensorSpec([], tf.float32) for name in tensors}
                self._together = self._runner.compile(
                    lambda batch, tallies: self._update_from_sums(self._weigh_one(batch), tallies),
                    [self._model.data_layer.input_signature, scalars])
            return self._together(batches, per_replica)[0]
        sums = self._weigh(batches[:replicas])
        for start in range(replicas, len(batches), replicas):
            sums = self._add(sums, self._weigh(batches[start:start + replicas]))
        return self._finish(sums, per_replica)[0]

    @property
    def traces(self) -> int:
        """Total number of traces of the step's functions; more than one per function means retracing."""
        functions = (self._update_at_once, self._weigh, self._finish, self._together)
        return sum(f.traces for f in functions if f is not None)

    def _forward(self, batch: Any) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Runs the forward pass of a micro-batch; returns its mean losses and numbers of units, see ``local_means``."""
        rank = tf.cast(self._runner.replica_rank, tf.int64)
        micro_batch = self.offset + self.batches * self._runner.world_size + rank
        ranks = JoinedRanks(self._reduce_inside) if self._joins_ranks else None
        carried = None if self._carried is None else (
            self._carried.of(micro_batch, self.batches % self._iter_size, batch))
        with forward_pass(self._seed, micro_batch, update=self.batches // self._iter_size, for_xla=self._use_xla_jit,
                          ranks=ranks, carried=carried):
            terms, _ = self._model.loss_terms(batch, training=True)
        return local_means(terms)

    def _regularization(self) -> tf.Tensor:
        return tf.add_n([tf.cast(regularizer(variable), tf.float32) for variable, regularizer in self._regularized])

    def _update_from_one(self, batch: Any) -> Tensors:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(self._variables.values()))
            means, _ = self._forward(batch)
            loss = tf.add_n(list(means.values()))
            total = loss + self._regularization() if self._regularized else loss
            scaled = self._optimizer.scale(total)
        gradients = self._gradients(tape, scaled)
        self.batches.assign_add(1)
        return {**self._apply(gradients, self._use_xla_jit), "loss": total, "finite_loss": tf.math.is_finite(total)}

    def _weigh_one(self, batch: Any) -> dict[str, WeightedSums]:
        """Returns the sums for one micro-batch, by unit."""
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(list(self._variables.values()))
            means, units = self._forward(batch)
            weights = self._common_weights(units) if self._joins_ranks else units
            scaled = {unit: self._optimizer.scale(
                mean * tf.math.divide_no_nan(units[unit], weights[unit]) if self._joins_ranks else mean)
                for unit, mean in means.items()}
        weighed = {}
        for unit, loss in scaled.items():
            gradients = {name: map_values(lambda v, n=weights[unit]: tf.cast(v, tf.float32) * n, gradient)
                         for name, gradient in self._gradients(tape, loss).items()}
            weighed[unit] = WeightedSums(gradients, means[unit] * units[unit], units[unit])
        self.batches.assign_add(1)
        return weighed

    def _reduce_inside(self, tensors: Tensors, name: str) -> Tensors:
        return self._runner.reduce(tensors, name, exact=True)

    def _common_weights(self, units: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns, by unit, the factor by which all replicas multiply their gradients: their mean number of units.

        With synchronised batch norm, the loss of a replica depends on the batches of all replicas. Each replica
        therefore differentiates its share of the mean loss over all replicas, instead of its own mean loss.
        """
        sums = self._reduce_inside({f" {unit}": value for unit, value in units.items()}, "units")
        return {unit: sums[f" {unit}"] / self._runner.world_size for unit in units}

    def _update_from_sums(self, sums: dict[str, WeightedSums], tallies: Tensors) -> Tensors:
        gradients: Tensors = {}
        losses: list[tf.Tensor] = []
        counted: Tensors = {}
        for number, weighed in enumerate(sums.values()):
            total, total_tallies = weighed.reduced(self._runner, f"gradients.{number}", tallies if number == 0 else {})
            counted.update(total_tallies)
            losses.append(tf.math.divide_no_nan(total.loss, total.units))
            _add_to(gradients, {name: map_values(lambda v, n=total.units: tf.math.divide_no_nan(v, n), gradient)
                                for name, gradient in total.gradients.items()})
        loss = functools.reduce(operator.add, losses)
        if self._regularized:
            loss += self._regularization()
        _add_to(gradients, self._regularization_gradients())
        results = self._runner.update(self._apply, gradients)
        return {**results, **counted, "loss": loss, "finite_loss": tf.math.is_finite(loss)}

    def _regularization_gradients(self) -> Tensors:
        if not self._regularized:
            return {}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(self._variables.values()))
            scaled = self._optimizer.scale(self._regularization())
        return self._gradients(tape, scaled)

    def _gradients(self, tape: tf.GradientTape, loss: tf.Tensor) -> Tensors:
        gradients = tape.gradient(loss, self._variables)
        return {name: gradient for name, gradient in gradients.items() if gradient is not None}

    def _apply(self, gradients: Tensors, for_xla: bool = False) -> Tensors:
        with tf.name_scope("optimizer"):  # identifies the optimizer in profiles
            info = self._optimizer.update(gradients, self._variables, agree=self._runner.agree, for_xla=for_xla)
        results: Tensors = dict(info._asdict())
        if self._report_gradients:
            results["gradients"] = {
                name: tf.convert_to_tensor(gradient) / info.loss_scale for name, gradient in gradients.items()}
        if self._underflow is not None:
            results["underflow"] = self._underflow(gradients, self.batches // self._iter_size)
        return results


def _add_to(gradients: Tensors, more: Tensors) -> None:
    for name, gradient in more.items():
        gradients[name] = add_gradients(gradients[name], gradient) if name in gradients else gradient


def local_means(terms: list[LossTerm]) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Sums the means of the loss terms that are counted in the same unit.

    Returns:
      ({unit: Σ weight · sum / units}, {unit: units}), with FP32 scalars ``[]``.
    """
    means: dict[str, tf.Tensor] = {}
    units: dict[str, tf.Tensor] = {}
    for term in terms:
        mean = term.weight * tf.math.divide_no_nan(tf.cast(term.sum, tf.float32), tf.cast(term.units, tf.float32))
        means[term.unit] = means[term.unit] + mean if term.unit in means else mean
        units[term.unit] = tf.cast(term.units, tf.float32)
    return means, units
