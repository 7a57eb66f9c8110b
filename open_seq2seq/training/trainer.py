"""The training loop, written once for every task and every runner."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import DATA
from open_seq2seq.data.batch_loader import LoaderGroup
from open_seq2seq.data.batching import BatchStream
from open_seq2seq.data.contiguous import ContiguousStream
from open_seq2seq.data.static_batches import StaticBatches, describe_shapes
from open_seq2seq.models.builder import make_schedule_and_optimizer
from open_seq2seq.models.model import Model
from open_seq2seq.models.reporter import report_sample
from open_seq2seq.optimizers import make_additions, make_loss_scaler, trainable_variables
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.optimizers.half_types import FLOAT16
from open_seq2seq.optimizers.lr_policies import scaled_schedule
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.optimizers.underflow import UnderflowMeter
from open_seq2seq.optimizers.weight_average import exchanged
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.precision import weight_cast_scope
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training import hooks as hook_module
from open_seq2seq.training.carried import RunStates, carried_signature, setting_aside
from open_seq2seq.training.diagnosis import Examiner
from open_seq2seq.training.divergence import Divergence
from open_seq2seq.training.passes import EvaluationPass, PassStopped
from open_seq2seq.training.recovery import Recovery
from open_seq2seq.training.reporting import reporter_of
from open_seq2seq.training.rescue import rescued
from open_seq2seq.training.saving import RunSaver
from open_seq2seq.training.signals import StopRequest
from open_seq2seq.training.statistics import SharedStatistics
from open_seq2seq.training.step import TrainStep
from open_seq2seq.training.summaries import Summaries
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.trail import TRAIL


class Trainer:
    """Trains a model.

    Args:
      model: built for training.
      eval_model: built for evaluation with the same variables, or None.
      runner: who computes.
      seed: the run's random seed.
      saver: writes checkpoints, in the chief's process; None to write none.
      summaries_dir: where TensorBoard's events go, or None.

    Attributes:
      step: updates attempted so far; skipped ones count.
      offset: how many more micro-batches were consumed than the steps made would take now, on as many ranks.
      last_step: the step after which training ends.
      saves: whether the run writes checkpoints, in whichever process.
      waited: seconds spent waiting for input.
      paused: seconds spent on evaluation and checkpoints.
      underflow: measures at summary steps what half precision loses of the gradients; None unless asked for.
      recovery: watches for divergence and acts on it.
      is_whole: whether the present state is that after ``step``; it is not while an update is made.
      is_settled: whether ``settle`` has been called since the last update.
      carried: the states that the model carries from batch to batch, of all replicas.
      last_hooks: hooks that are called after all others.
    """

    def __init__(self, model: Model, eval_model: Model | None, runner: Runner, seed: int,
                 saver: RunSaver | None = None, summaries_dir: str | None = None) -> None:
        self.model, self.eval_model, self.runner, self.seed = model, eval_model, runner, seed
        self.saver, self.saves = saver, runner.share(saver is not None)
        model.data_layer.seed = seed
        self.offset = 0
        self.step, self.waited, self.paused, self.is_whole, self.is_settled = 0, 0.0, 0.0, True, False
        self._stop: StopRequest | None = None
        self._objects, self._uncounted = 0, list[Any]()
        self._votes: Any = None
        self._votes_before = False
        params = model.params
        self._iter_size = params["iter_size"]
        self._stream = self._make_stream()
        self.carried = RunStates(model, runner, getattr(self._stream, "positions", 1))
        self._batches: Any = StaticBatches(model.data_layer, self._stream.shapes) if self._stream.shapes else (
            model.data_layer)
        self.steps_per_epoch = self._stream.updates_per_epoch if params["num_epochs"] else None
        self.last_step = params["max_steps"] or self._steps_in(params["num_epochs"])
        self.variables = named_variables(model)
        self._statistics = SharedStatistics(self.variables, runner)
        self.trainable = trainable_variables(
            {name: v for name, v in self.variables.items() if v.trainable}, params["freeze_variables_regex"])
        self.optimizer = self._make_optimizer()
        self.recovery = Recovery(params, self.optimizer.longest_search)
        self.underflow = self._make_underflow_meter()
        self._train_step = TrainStep(
            model, self.optimizer, self.trainable, runner, seed, self._iter_size,
            report_gradients=params["save_summaries_steps"] is not None
            and bool({"gradients", "gradient_norm"} & set(params["summaries"])),
            use_xla_jit=params["use_xla_jit"], underflow=self.underflow, sync_batch_norm=params["sync_batch_norm"],
            carried=self.carried)
        self._evaluation = EvaluationPass(eval_model, runner) if eval_model is not None else None
        self.summaries = Summaries(summaries_dir, self) if summaries_dir else None
        self._sample_step: Any = None
        self._batch: dict[str, Any] = {}
        self.last_hooks: list[hook_module.Hook] = []

    def _make_stream(self) -> BatchStream | ContiguousStream:
        layer, runner = self.model.data_layer, self.runner
        if layer.contiguous:
            return ContiguousStream(layer.num_examples, batch_size=layer.params["batch_size"],
                                    world_size=runner.world_size, rank=runner.replica_rank,
                                    replicas=runner.local_replicas, iter_size=self._iter_size)
        return BatchStream(
            layer.lengths, batch_size=layer.batch_budget, costs=layer.costs,
            shuffle=layer.params["shuffle"], bucketed=layer.params["length_buckets"], seed=self.seed,
            world_size=runner.world_size, rank=runner.replica_rank, replicas=runner.local_replicas,
            iter_size=self._iter_size,
            max_shapes=self.model.params["xla_buckets"], explain=layer.explain_too_costly)

    def _make_optimizer(self) -> MixedPrecisionOptimizer:
        params = self.model.params
        schedule, optimizer = make_schedule_and_optimizer(self.model, self.last_step, self.steps_per_epoch)
        schedule = scaled_schedule(schedule, self.rate_scale)
        policy = precision_of(params)
        scaling = params["loss_scaling"]
        if scaling is None:
            scaling = "Backoff" if policy.compute == tf.float16 else 1.0
        scaler = make_loss_scaler(scaling, params["loss_scaling_params"], policy.compute)
        # An update with inf or NaN is never made, whatever the scale: weights stay good until recovery takes over.
        wrapper = MixedPrecisionOptimizer(optimizer, schedule, scaler, max_grad_norm=params["max_grad_norm"],
                                          skip_nonfinite=True, **make_additions(params))
        wrapper.build(self.trainable)
        return wrapper

    @property
    def rate_scale(self) -> int:
        """What the policy's learning rate is multiplied by: 1, or the number of replicas if the config says so."""
        return self.runner.world_size if self.model.params["lr_scale_with_world"] else 1

    def _make_underflow_meter(self) -> UnderflowMeter | None:
        params = self.model.params
        if not params["save_summaries_steps"] or "gradient_underflow" not in params["summaries"]:
            return None
        return UnderflowMeter(self.trainable, params["save_summaries_steps"], None if self.in_half else FLOAT16)

    @property
    def in_half(self) -> bool:
        """Whether the arithmetic is float16 or bfloat16."""
        return precision_of(self.model.params).compute != tf.float32

    def _steps_in(self, epochs: int) -> int:
        """Whole updates that fit in a number of epochs; an update may straddle two."""
        micro_batches = epochs * self._stream.micro_batches_per_epoch - self.offset
        return micro_batches // (self._iter_size * self.runner.world_size)

    @property
    def epoch(self) -> int:
        """The epoch, from 0, that the next batch belongs to."""
        return self.micro_batch // self._stream.micro_batches_per_epoch

    @property
    def micro_batch(self) -> int:
        """How many micro-batches all replicas together have consumed."""
        return self.offset + self.step * self._iter_size * self.runner.world_size

    @property
    def finished(self) -> bool:
        """Whether training has reached its end.

        An update that loss scaling skipped does not count towards ``max_steps``.
        """
        return self.step >= self.last_step and (
            bool(self.model.params["num_epochs"]) or int(self.optimizer.updates.numpy()) >= self.last_step)

    @property
    def objects(self) -> int:
        """Tokens, frames or images consumed by all replicas since the start of this process."""
        self._objects += sum(int(count) for count in self._uncounted)
        self._uncounted.clear()
        return self._objects

    def resume(self, step: int, micro_batch: int | None = None) -> None:
        """Continues after ``step`` updates; weights and optimizer have been restored.

        Args:
          step: updates attempted.
          micro_batch: micro-batches consumed by then, where some updates took another number of them than now.
        """
        self.step, self.is_settled = step, False
        self._train_step.batches.assign(step * self._iter_size)
        if micro_batch is not None:
            self.offset += micro_batch - self.micro_batch
            self._train_step.offset.assign(self.offset)
            self.last_step = self.model.params["max_steps"] or self._steps_in(self.model.params["num_epochs"])

    def train(self) -> int | None:
        """Trains to the end or until a signal.

        Returns:
          The signal's number when one stopped the training, else None.

        Raises:
          DivergenceError: the run diverged and is to stop.
          PrecisionLowered: it diverged and is to go on in another type, by another trainer.
        """
        hooks = self._make_hooks()
        with StopRequest() as stop, rescued(self):
            self._stop = stop
            self.recovery.begin(self)
            for hook in hooks:
                hook.begin(self)
            while not self._run_steps(hooks, stop):
                pass
            for hook in hooks:
                hook.end(self)
            if stop.requested:  # also where the config asks for no regular checkpoints
                self.save_checkpoint()
            self.wait_for_checkpoint()
        return stop.signum

    def _run_steps(self, hooks: list[hook_module.Hook], stop: StopRequest) -> bool:
        """Trains to the end or until a signal; returns False after a recovery that put the run elsewhere."""
        loader = LoaderGroup(self._batches, self._stream.by_rank(), start=self.micro_batch)
        try:
            with contextlib.closing(loader):
                while not self.finished and not self._stops(stop):
                    results = self._make_step(loader, stop)
                    for hook in hooks:
                        hook.after_step(self, results)
                self.settle()
        except Divergence as divergence:
            self.is_whole = False
            with self.pause():
                self.recovery.recover(self, divergence)
            self.is_whole = True
            return False
        return True

    def _stops(self, stop: StopRequest) -> bool:
        """Whether a signal ends the training: on all ranks after the same step, though it may reach but one.

        Votes travel with an update's gradients, and are read one update later, as the divergence detector does.
        """
        return stop.requested if self.runner.num_processes == 1 else bool(self._votes_before)

    def _make_step(self, loader: LoaderGroup, stop: StopRequest) -> dict[str, Any]:
        waited = loader.wait_seconds
        batches = [next(loader) for _ in range(self._iter_size * self.runner.local_replicas)]
        self.waited += loader.wait_seconds - waited
        self._batch = batches[-1]
        objects = sum(self.model.num_objects(batch) for batch in batches)
        TRAIL.note("step", self.step + 1, [batch["ids"] for batch in batches], self.model.data_layer.describe_example)
        several = self.runner.num_processes > 1
        self.is_whole = self.is_settled = False
        results = self._train_step(batches, {"objects": objects, "stop_votes": stop.requested} if several else None)
        self.step, self.is_whole = self.step + 1, True
        self._uncounted.append(results["objects"] if several else objects)
        if several:
            self._votes_before, self._votes = self._votes is not None and float(self._votes) > 0, results["stop_votes"]
        self.recovery.detector.observe(self.step, batches, results)
        return results

    def settle(self) -> None:
        """Makes sure that the present state is the same on all ranks and worth keeping; raises Divergence if not.

        Once after each update: the mean of means may have other last bits, and a resumed run would not take it.
        """
        if not self.is_settled:
            self._statistics.average()
            self.recovery.detector.settle({**self.variables, **self.optimizer.state()})
            self.is_settled = True

    @property
    def state_variables(self) -> dict[str, tf.Variable]:
        """The weights and what the optimizer keeps, by name."""
        return {**self.variables, **{f"optimizer/{n}": v for n, v in self.optimizer.state().items()}}

    def synchronize(self) -> None:
        """Gives all ranks the chief's weights and optimizer."""
        self.runner.broadcast(self.state_variables)

    @functools.cached_property
    def examiner(self) -> Examiner:
        """Runs batches again to see what in them is not finite."""
        return Examiner(self.model, self.variables, self.trainable, self.seed)

    def _make_hooks(self) -> list[hook_module.Hook]:
        params = self.model.params
        hooks: list[hook_module.Hook] = []
        chief = self.runner.is_chief
        if params["print_loss_steps"] and chief:
            hooks.append(hook_module.ProgressHook(params["print_loss_steps"]))
        if params["save_checkpoint_steps"] and self.saves:  # before all that can fail
            hooks.append(hook_module.CheckpointHook(params["save_checkpoint_steps"]))
        if params["print_samples_steps"] and chief:
            hooks.append(hook_module.SamplesHook(params["print_samples_steps"]))
        if params["save_summaries_steps"]:
            hooks.append(hook_module.SummaryHook(params["save_summaries_steps"], params["summaries"]))
        hooks.append(hook_module.BenchmarkHook(params["bench_start"], params["print_bench_info_steps"]))
        if self._evaluation is not None:
            hooks.append(hook_module.EvaluationHook(self._evaluation.model.params["eval_steps"]))
        hooks += [hook(train_model=self.model, eval_model=self.eval_model) for hook in params["hooks"]]
        return hooks + self.last_hooks

    def describe_epoch(self) -> tuple[int, np.ndarray]:
        """Returns (micro-batches an epoch, example numbers of the batch with the longest example)."""
        layer, plan = self.model.data_layer, self._stream.plan(0)
        lengths = np.asarray(layer.lengths).reshape(layer.num_examples, -1).max(axis=1)
        place = int(np.argmax(plan.order == np.argmax(lengths)))
        cut = int(np.searchsorted(plan.offsets, place, side="right")) - 1
        return len(plan), plan.order[plan.offsets[cut]:plan.offsets[cut + 1]]

    def try_batch(self, examples: np.ndarray) -> None:
        """Makes an update from these examples, for its memory and time; the weights are changed by it."""
        carried = self.carried.gather()
        self._train_step([self._batches.make_batch(examples)] * (self._iter_size * self.runner.local_replicas))
        self.carried.assign(carried)

    def describe_shapes(self) -> list[str]:
        """Returns lines about the static shapes that batches are padded to; none without ``xla_buckets``."""
        stream = self._stream
        if stream.arrangement is None:
            return []
        return describe_shapes(stream.shapes, stream.arrangement, int(np.sum(self.model.data_layer.lengths)))

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Time spent within this context does not count as training; it may be entered within itself."""
        start, before = time.perf_counter(), self.paused
        try:
            yield
        finally:
            self.paused = before + time.perf_counter() - start

    def evaluate(self, keep_best: bool = True) -> dict[str, float]:
        """Evaluates now; with ``keep_best``, saves the weights when they are better than all before.

        Returns:
          The figures; none where a signal asked the run to stop while there was more to train.
        """
        assert self._evaluation is not None
        with self.pause():
            self.settle()
            self._evaluation.model.data_layer.check_unchanged(DATA)
            deco_print("Running evaluation on a validation set:")
            averages = self.optimizer.averaged_weights
            if averages:
                deco_print("with the moving average of the weights", offset=1)
            try:
                with exchanged(self.trainable, averages):
                    metrics = self._evaluation.run(self.step, stops=self._gives_evaluation_up)
            except PassStopped:
                deco_print("The evaluation is left out.", offset=1)
                return {}
            if self.summaries is not None:
                self.summaries.write({"eval_loss" if k == "val_loss" else k: v for k, v in metrics.items()})
            if keep_best and self.saver is not None and self.model.params["save_checkpoint_steps"]:
                self.saver.offer_best(self, metrics)
        return metrics

    def _gives_evaluation_up(self) -> bool:
        """Whether a signal is not to wait for an evaluation; several ranks agree on one after their next update."""
        stop = self._stop
        return stop is not None and stop.requested and not self.finished and self.runner.num_processes == 1

    def save_checkpoint(self) -> None:
        """Saves now, in the chief's process; the files are written in the background."""
        if self.saves:
            with self.pause():
                self.settle()
                carried = self.carried.gather()
                if self.saver is not None:
                    self.saver.save(self, carried)

    def wait_for_checkpoint(self) -> None:
        """Waits until the last checkpoint is on disk."""
        if self.saver is not None:
            self.saver.wait()

    def print_samples(self) -> None:
        """Has the model show a sample of the batch last trained on, decoded with the target given."""
        if self._sample_step is None:
            signature = [self.model.data_layer.input_signature, carried_signature(self.model)]
            self._sample_step = tf.function(self._sample_outputs, autograph=False, input_signature=signature)
        last = self.micro_batch - self.runner.world_size + self.runner.replica_rank + self.runner.local_replicas - 1
        with self.pause():
            outputs = [np.asarray(output) for output in self._sample_step(self._batch, self.carried.before(last))]
            report_sample(self.model, self._batch, outputs, reporter_of(self))

    def _sample_outputs(self, batch: Any, carried: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        with weight_cast_scope(), setting_aside(self.model, batch, carried):
            _, outputs = self.model.loss_terms(batch, training=False)
        return list(outputs["outputs"] or [])
