"""Trains a model update by update; the same loop serves all tasks and runners."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq import optimizers
from open_seq2seq.checkpoints.folders import SAMPLES
from open_seq2seq.checkpoints.run_saver import RunSaver
from open_seq2seq.checkpoints.run_variables import RunPosition, RunVariables
from open_seq2seq.config.files import DATA
from open_seq2seq.data.batch_loader import LoaderGroup
from open_seq2seq.data.batching import BatchStream
from open_seq2seq.data.contiguous import ContiguousStream
from open_seq2seq.data.fields import flatten
from open_seq2seq.data.static_shapes import StaticBatches, describe_shapes
from open_seq2seq.metrics.trackers import MetricsWriter, Tracker
from open_seq2seq.models.model import Model
from open_seq2seq.models.reporter import report_sample
from open_seq2seq.optimizers import make_additions, make_loss_scaler, trainable_variables
from open_seq2seq.optimizers.dtype import FLOAT16, precision_of
from open_seq2seq.optimizers.lr_policies import scaled_schedule
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.optimizers.underflow import UnderflowMeter
from open_seq2seq.optimizers.weight_average import exchanged
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.runners.processor_speed import choice_of
from open_seq2seq.runners.run_states import RunStates, carried_signature, set_aside
from open_seq2seq.runners.runner import Runner, compiled_graph
from open_seq2seq.training.loop.diagnosis import Examiner
from open_seq2seq.training.loop.divergence import DivergenceHistory
from open_seq2seq.training.loop.metrics_file import MetricsFile
from open_seq2seq.training.loop.passes import EvaluationPass, PassStopped, print_title
from open_seq2seq.training.loop.step import TrainStep
from open_seq2seq.training.loop.stopping import EarlyStopping, StopRequest
from open_seq2seq.training.loop.summaries import WORST_EXAMPLES, RunReporter, Summaries
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.trail import TRAIL


class Compilations:
    """Prints how long the first update on each shape of a batch takes, because XLA compiles the update in it."""

    def __init__(self) -> None:
        self._shapes: set[str] = set()

    @contextlib.contextmanager
    def noted(self, batches: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Context manager around the update on these batches."""
        start = time.perf_counter()
        yield
        new = {shape_of(batch): None for batch in batches}
        for shape in [shape for shape in new if shape not in self._shapes]:
            self._shapes.add(shape)
            deco_print(f"XLA: first update on {shape}, compilation included: {time.perf_counter() - start:.1f} s "
                       f"(shape {len(self._shapes)})")


def shape_of(batch: Mapping[str, Any]) -> str:
    """Returns the shapes of a batch's arrays with more than one axis, such as ``16 × 24 + 16 × 25``."""
    shapes = [np.shape(array) for _, array in flatten(batch)]
    return " + ".join(" × ".join(map(str, shape)) for shape in shapes if len(shape) > 1)


def make_stream(model: Model, runner: Runner, seed: int) -> BatchStream | ContiguousStream:
    """Returns the stream of a training model's batches; also sets ``training_rows`` of a contiguous data layer."""
    layer, iter_size = model.data_layer, model.params["iter_size"]
    if layer.contiguous:
        layer.training_rows = layer.params["batch_size"] * runner.world_size * iter_size
        return ContiguousStream(layer.num_examples, batch_size=layer.params["batch_size"],
                                world_size=runner.world_size, rank=runner.replica_rank,
                                replicas=runner.local_replicas, iter_size=iter_size)
    return BatchStream(
        layer.lengths, batch_size=layer.batch_budget, costs=layer.costs,
        shuffle=layer.params["shuffle"], bucketed=layer.params["length_buckets"], seed=seed,
        world_size=runner.world_size, rank=runner.replica_rank, replicas=runner.local_replicas,
        iter_size=iter_size,
        max_shapes=model.params["xla_buckets"], explain=layer.explain_too_costly)


def make_optimizer(model: Model, trainable: dict[str, tf.Variable], last_step: int, steps_per_epoch: int | None,
                   rate_scale: int, shift: tf.Variable | None = None) -> MixedPrecisionOptimizer:
    """Returns the optimizer that a model's config specifies, built for ``trainable``.

    It includes the schedule, the loss scaling, and the additions of ``make_additions``, such as weight decay.

    Args:
      model: the training model.
      trainable: the variables that the optimizer updates, by name.
      last_step: number of updates of the run.
      steps_per_epoch: number of updates per epoch; None in runs measured in steps.
      rate_scale: factor on the policy's learning rate.
      shift: see ``optimizers.make_schedule``.

    Raises:
      ConfigError: ``optimizer`` or ``lr_policy`` is missing, or has invalid arguments.
    """
    params = model.params
    missing = [f"'{key}' is missing: training needs it." for key in ("optimizer", "lr_policy") if params[key] is None]
    if missing:
        raise ConfigError(missing)
    policy = precision_of(params)
    optimizer = optimizers.make_optimizer(params["optimizer"], dict(params["optimizer_params"]))
    optimizer.product_dtype = policy.type_of("product")
    schedule = scaled_schedule(optimizers.make_schedule(
        params["lr_policy"], dict(params["lr_policy_params"]), last_step, steps_per_epoch, shift), rate_scale)
    scaler = make_loss_scaler(params["loss_scaling"], params["loss_scaling_params"], policy.compute)
    # Updates with inf or NaN are skipped even without loss scaling, so that weights stay finite until a recovery.
    wrapper = MixedPrecisionOptimizer(optimizer, schedule, scaler, max_grad_norm=params["max_grad_norm"],
                                      skip_nonfinite=True, **make_additions(params))
    wrapper.build(trainable)
    return wrapper


class Trainer:
    """Makes the updates of a model; ``training.train.train`` runs it from the first to the last update.

    Args:
      model: the training model.
      eval_model: the evaluation model with the same variables, or None.
      runner: the run's runner.
      seed: the run's random seed.
      saver: writer of checkpoints on rank 0; None to write none.
      summaries_dir: folder of TensorBoard events, or None.
      metrics: table of the run's metrics, or None.
      trackers: what else gets the metrics.

    Attributes:
      step: number of attempted updates, including skipped ones.
      began: value of ``time.monotonic`` when training began, moved back by the time that the run has already taken.
      offset: number of micro-batches that all replicas have consumed, minus the number that ``step`` updates consume
        with the current number of replicas and ``iter_size``; 0 unless one of these has changed during the run.
      last_step: the step after which training ends.
      saves: whether rank 0 writes checkpoints; the same on all ranks.
      variables: all variables of the model, by name.
      trainable: the variables that the optimizer updates, by name.
      carried: the states that the model carries from batch to batch, of all replicas.
      waited: seconds spent waiting for input.
      paused: seconds spent within ``pause``: on evaluation, checkpoints, samples and recovery.
      underflow: measures the share of gradients that underflow, at summary steps; None unless the config requests it.
      divergence: detector and history of divergences.
      early_stopping: decides whether training ends before ``last_step``.
      stop: receives the signals that stop the run.
      is_whole: whether the current state is that after ``step`` updates; False during an update.
      is_settled: whether ``settle`` has succeeded since the last update.
      evaluated_at: step of the last complete evaluation; -1 before the first.
      last_metrics: metrics of the last evaluation by name; {} before the first.
    """

    def __init__(self, model: Model, eval_model: Model | None, runner: Runner, seed: int,
                 saver: RunSaver | None = None, summaries_dir: str | None = None,
                 metrics: MetricsFile | None = None, trackers: Sequence[Tracker] = ()) -> None:
        self.model, self.eval_model, self.runner, self.seed = model, eval_model, runner, seed
        self.saver, self.metrics, self.saves = saver, metrics, runner.share(saver is not None)
        self.trackers = trackers
        model.data_layer.seed = seed
        self.offset, self.began = 0, time.monotonic()
        self.step, self.waited, self.paused, self.is_whole, self.is_settled = 0, 0.0, 0.0, True, False
        self.evaluated_at = -1
        self.last_metrics: dict[str, float] = {}
        self.stop = StopRequest(self.saves)
        self._objects, self._last_objects = 0, 0.0
        self._votes: Any = None
        self._votes_before = False
        params = model.params
        self._iter_size = params["iter_size"]
        self._stream = make_stream(model, runner, seed)
        self.carried = RunStates(model, runner, getattr(self._stream, "positions", 1))
        self._batches: Any = StaticBatches(model.data_layer, self._stream.shapes) if self._stream.shapes else (
            model.data_layer)
        self.steps_per_epoch = self._stream.updates_per_epoch if params["num_epochs"] else None
        self.last_step = params["max_steps"] or self._steps_in(params["num_epochs"])
        self.variables = named_variables(model)
        # Such as the moving averages of batch norm.
        self._statistics = {name: v for name, v in self.variables.items()
                            if not v.trainable and v.dtype == tf.float32}
        self._share_statistics: Any = None  # a compiled function
        self.trainable = trainable_variables(
            {name: v for name, v in self.variables.items() if v.trainable}, params["freeze_variables_regex"])
        # The schedule is that of a run with this number of replicas from its start; see ``resume``.
        self._schedule_shift = tf.Variable(0, dtype=tf.int64, trainable=False) if params["num_epochs"] else None
        self.optimizer = make_optimizer(model, self.trainable, self.last_step, self.steps_per_epoch, self.rate_scale,
                                        self._schedule_shift)
        self.early_stopping = EarlyStopping(params)
        self.divergence = DivergenceHistory(params, self.optimizer.longest_search)
        self.underflow = self._make_underflow_meter()
        self._train_step = self._make_train_step()
        self._compilations = Compilations() if params["use_xla_jit"] and runner.is_chief else None
        self._evaluation = EvaluationPass(eval_model, runner) if eval_model is not None else None
        self.summaries = Summaries(summaries_dir, self.trainable, self.underflow, bool(params["max_grad_norm"])) if (
            summaries_dir) else None
        self._sample_step: Any = None
        self._batch: dict[str, Any] = {}

    def _make_train_step(self) -> TrainStep:
        params = self.model.params
        return TrainStep(
            self.model, self.optimizer, self.trainable, self.runner, self.seed, self._iter_size,
            report_gradients=params["save_summaries_steps"] is not None
            and bool({"gradients", "gradient_norm"} & set(params["summaries"])),
            use_xla_jit=params["use_xla_jit"], underflow=self.underflow, sync_batch_norm=params["sync_batch_norm"],
            carried=self.carried)

    @property
    def rate_scale(self) -> int:
        """Factor on the policy's learning rate: the number of replicas with ``lr_scale_with_world``, else 1."""
        return self.runner.world_size if self.model.params["lr_scale_with_world"] else 1

    def _make_underflow_meter(self) -> UnderflowMeter | None:
        params = self.model.params
        if not params["save_summaries_steps"] or "gradient_underflow" not in params["summaries"]:
            return None
        return UnderflowMeter(self.trainable, params["save_summaries_steps"], None if self.in_half else FLOAT16)

    @property
    def in_half(self) -> bool:
        """Whether the model computes in float16 or bfloat16."""
        return precision_of(self.model.params).compute != tf.float32

    def _steps_in(self, epochs: int) -> int:
        """Returns the number of complete updates in the first ``epochs`` epochs; an update may span two epochs."""
        micro_batches = epochs * self._stream.micro_batches_per_epoch - self.offset
        return micro_batches // (self._iter_size * self.runner.world_size)

    @property
    def epoch(self) -> int:
        """Epoch of the next batch, counted from 0."""
        return self.micro_batch // self._stream.micro_batches_per_epoch

    @property
    def epochs(self) -> float:
        """Number of epochs that the updates so far have consumed, including a fraction."""
        return self.epochs_in(self.step)

    def epochs_in(self, step: int) -> float:
        """Returns the number of epochs, including a fraction, that the first ``step`` updates consume."""
        return (self.offset + step * self._iter_size * self.runner.world_size) / self._stream.micro_batches_per_epoch

    @property
    def micro_batch(self) -> int:
        """Number of micro-batches that all replicas together have consumed."""
        return self.offset + self.step * self._iter_size * self.runner.world_size

    @property
    def finished(self) -> bool:
        """Whether training has reached its end; skipped updates do not count towards ``max_steps``."""
        return self.early_stopping.has_ended or self.step >= self.last_step and (
            bool(self.model.params["num_epochs"]) or int(self.optimizer.updates.numpy()) >= self.last_step)

    @property
    def objects(self) -> int:
        """Number of objects, such as tokens, that all replicas have consumed since this trainer was created."""
        return self._objects + int(self._last_objects)

    def resume(self, step: int, micro_batch: int | None = None) -> None:
        """Sets the position from which training continues; the variables are restored separately.

        Args:
          step: number of attempted updates.
          micro_batch: number of micro-batches consumed; None to derive it from ``step`` and the current ``offset``.
        """
        self.step, self.is_settled = step, False
        self.early_stopping.rewind(step)
        self._train_step.batches.assign(step * self._iter_size)
        if micro_batch is not None:
            self.offset += micro_batch - self.micro_batch
            self._train_step.offset.assign(self.offset)
            self.last_step = self.model.params["max_steps"] or self._steps_in(self.model.params["num_epochs"])
            if self._schedule_shift is not None:  # to the update that would have consumed as many micro-batches
                self._schedule_shift.assign(self.offset // (self._iter_size * self.runner.world_size))

    def run_steps(self, hooks: Sequence[Any]) -> None:
        """Makes updates, each followed by the hooks (``training.hooks.Hook``), until the end or a signal.

        Raises:
          Divergence: the last update, or the one before it, diverged; the caller has to restore an earlier state.
        """
        loader = LoaderGroup(self._batches, self._stream.by_rank(self.micro_batch))
        with contextlib.closing(loader):
            while not self.finished and not self._stops():
                results = self._make_step(loader)
                for hook in hooks:
                    hook.after_step(self, results)
            self.settle()

    def _stops(self) -> bool:
        """Returns whether a signal ends training; all ranks stop after the same step, even if only one received it.

        The ranks' votes are summed together with the gradients, and read one update later, when the sum is ready.
        """
        return self.stop.requested if self.runner.num_processes == 1 else bool(self._votes_before)

    def _make_step(self, loader: LoaderGroup) -> dict[str, Any]:
        waited = loader.wait_seconds
        batches = [next(loader) for _ in range(self._iter_size * self.runner.local_replicas)]
        self.waited += loader.wait_seconds - waited
        self._batch = batches[-1]
        objects = sum(self.model.num_objects(batch) for batch in batches)
        TRAIL.note("step", self.step + 1, [batch["ids"] for batch in batches], self.model.data_layer.describe_example)
        several = self.runner.num_processes > 1
        factor = self.model.data_layer.rate_factor(batches[0])
        if factor is not None:
            self.optimizer.batch_factor.assign(factor)
        self.is_whole = self.is_settled = False
        tallies = {"objects": objects, "stop_votes": self.stop.requested} if several else None
        with self._compilations.noted(batches) if self._compilations else contextlib.nullcontext():
            results = self._train_step(batches, tallies)
        self.step, self.is_whole = self.step + 1, True
        # With several processes, the last number is still being computed.
        self._objects, self._last_objects = self.objects, results["objects"] if several else objects
        if several:
            self._votes_before, self._votes = self._votes is not None and float(self._votes) > 0, results["stop_votes"]
        self.divergence.detector.observe(self.step, batches, results)
        return results

    def settle(self) -> None:
        """Averages the statistics of batch norm over all ranks, and checks that the state is finite.

        Further calls before the next update do nothing. Otherwise, rounding could change the averages again, and a
        resumed run would not repeat this.

        Raises:
          Divergence: the last step diverged, or a variable is not finite.
        """
        if not self.is_settled:
            self._average_statistics()
            self.divergence.detector.settle({**self.variables, **self.optimizer.state()})
            self.is_settled = True

    def _average_statistics(self) -> None:
        """Sets the statistics on all ranks to their mean; a collective operation if there are several ranks."""
        if self.runner.world_size > 1 and self._statistics:
            if self._share_statistics is None:
                self._share_statistics = self.runner.compile(self._assign_mean_statistics, [])
            self._share_statistics()

    def _assign_mean_statistics(self) -> None:
        values = {name: variable.read_value() for name, variable in self._statistics.items()}
        sums = self.runner.reduce(values, "statistics", exact=True)
        for name, variable in self._statistics.items():
            variable.assign(sums[name] / self.runner.world_size)

    @property
    def state(self) -> RunVariables:
        """The weights, the optimizer's variables, and the carried states."""
        return RunVariables(self.variables, self.trainable, self.optimizer, self.carried)

    @property
    def state_variables(self) -> dict[str, tf.Variable]:
        """The weights and the optimizer's variables, by name; for hooks."""
        return {**self.variables, **{f"optimizer/{name}": v for name, v in self.optimizer.state().items()}}

    @property
    def position(self) -> RunPosition:
        """The run's position, and other values that a checkpoint stores besides variables."""
        return RunPosition(self.step, self.epoch, self.micro_batch, self.seed, self.runner.world_size,
                           self.divergence.state(), choice_of(self.model.params), self.optimizer.rates,
                           self.evaluated_at, int(self.optimizer.updates.numpy()),
                           round(time.monotonic() - self.began, 1))

    def synchronize(self) -> None:
        """Broadcasts the weights and the optimizer's variables from rank 0 to all ranks."""
        self.runner.broadcast(self.state_variables)

    @functools.cached_property
    def examiner(self) -> Examiner:
        """The examiner, which runs batches again to find values that are not finite."""
        return Examiner(self.model, self.variables, self.trainable, self.seed)

    def describe_epoch(self) -> tuple[int, np.ndarray]:
        """Returns (batches per epoch, indices ``[batch]`` of the examples in the batch with the longest one)."""
        layer, plan = self.model.data_layer, self._stream.plan(0)
        lengths = np.asarray(layer.lengths).reshape(layer.num_examples, -1).max(axis=1)
        place = int(np.argmax(plan.order == np.argmax(lengths)))
        cut = int(np.searchsorted(plan.offsets, place, side="right")) - 1
        return len(plan), plan.order[plan.offsets[cut]:plan.offsets[cut + 1]]

    def try_batch(self, examples: np.ndarray) -> None:
        """Makes an update on examples with these indices ``[batch]``, to measure its memory use; the weights change."""
        carried = self.carried.gather()
        self._train_step([self._batches.make_batch(examples)] * (self._iter_size * self.runner.local_replicas))
        self.carried.assign(carried)

    def describe_shapes(self) -> list[str]:
        """Returns lines that describe the static shapes to which batches are padded; [] without ``xla_buckets``."""
        stream = self._stream
        if stream.arrangement is None:
            return []
        return describe_shapes(stream.shapes, stream.arrangement, int(np.sum(self.model.data_layer.lengths)))

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Context manager whose duration does not count as training time; may be nested."""
        start, before = time.perf_counter(), self.paused
        try:
            yield
        finally:
            self.paused = before + time.perf_counter() - start

    def evaluate(self, keep_best: bool = True) -> dict[str, float]:
        """Evaluates the model; returns the metrics by name, or {} if a signal stopped the evaluation.

        With ``keep_best``, the weights are saved if they are the best so far, and the result is used for early stopping
        and for the start of weight averaging. Without it, as for the averaged checkpoint, the metrics are only written
        to TensorBoard and to trackers, with the prefix ``averaged/``.

        Raises:
          UserError: a data file has changed, or the metrics do not include ``best_metric``.
        """
        assert self._evaluation is not None
        with self.pause():
            self.settle()
            self._evaluation.model.data_layer.check_unchanged(DATA)
            print_title(self._evaluation.model, f"at step {self.step}")
            if self.optimizer.is_averaging:
                deco_print("with the averaged weights", offset=1)
            try:
                with exchanged(self.trainable, self.optimizer.averaged_weights):
                    metrics = self._evaluation.run(self.step, stops=self._stops_evaluation)
            except PassStopped:
                deco_print("The evaluation is skipped.", offset=1)
                return {}
            self.last_metrics = metrics
            if self.summaries is not None:
                of = "" if keep_best else "averaged/"  # two values at the same step need two series
                self.summaries.write(self.step, {of + ("eval_loss" if k == "val_loss" else k): v
                                                 for k, v in metrics.items()})
            for tracker in () if keep_best else self.trackers:
                tracker.write(self.step, self.epochs, {f"averaged/{name}": value for name, value in metrics.items()})
            if keep_best:
                self.early_stopping.observe(self.step, metrics)
                if self.optimizer.observe(self.step, metrics["val_loss"]) and not self.finished:
                    deco_print("The validation loss no longer falls: averaging of the weights begins.", offset=1)
                self._keep_results(metrics)
                self.evaluated_at = self.step
        return metrics

    def _keep_results(self, metrics: dict[str, float]) -> None:
        """Writes the metrics of an evaluation, its samples, its worst examples and, if it is the best, the model."""
        assert self._evaluation is not None
        if self.saver is not None or self.summaries is not None:
            self._evaluation.report(self._reporter())
        self.write_metrics(metrics)
        if self.saver is not None and self._evaluation.worst:
            self._reporter().json(WORST_EXAMPLES, self._evaluation.worst)
        if self.saver is not None:  # last: a checkpoint with metrics marks that its evaluation is complete
            self.saver.offer_best(self.position, self.state, metrics, bool(self.model.params["save_checkpoint_steps"]))

    def write_metrics(self, values: Mapping[str, float]) -> None:
        """Writes metrics of the last update to the table and to the trackers."""
        writers: list[MetricsWriter] = [*filter(None, [self.metrics]), *self.trackers]
        for writer in writers:
            writer.write(self.step, self.epochs, values)

    def _stops_evaluation(self) -> bool:
        """Returns whether a signal stops the evaluation: never the last one, and never one by several processes."""
        return self.stop.requested and not self.finished and self.runner.num_processes == 1

    def save_checkpoint(self) -> None:
        """Saves a checkpoint on rank 0, in the background; raises CheckpointError if the previous one failed."""
        if self.saves:
            with self.pause():
                self.settle()
                carried = self.carried.gather()
                if self.saver is not None:
                    self.saver.save(self.position, self.state, carried)

    def wait_for_checkpoint(self) -> None:
        """Waits until the last checkpoint is on disk; raises CheckpointError if it could not be written."""
        if self.saver is not None:
            self.saver.wait()

    def print_samples(self) -> None:
        """Reports a sample of the last batch, computed with teacher forcing as in training, but without dropout."""
        if self._sample_step is None:
            signature = [self.model.data_layer.input_signature, carried_signature(self.model)]
            self._sample_step = compiled_graph(self._sample_outputs, signature)
        last = self.micro_batch - self.runner.world_size + self.runner.replica_rank + self.runner.local_replicas - 1
        with self.pause():
            outputs = [np.asarray(output) for output in self._sample_step(self._batch, self.carried.before(last))]
            report_sample(self.model, self._batch, outputs, self._reporter())

    def _reporter(self) -> RunReporter:
        folder: Path | None = None if self.saver is None else self.saver.directory / SAMPLES
        return RunReporter(self.step, self.summaries, folder)

    def _sample_outputs(self, batch: Any, carried: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        with forward_pass(carried=set_aside(self.model, batch, carried)):
            _, outputs = self.model.loss_terms(batch, training=False)
        return list(outputs["outputs"] or [])
