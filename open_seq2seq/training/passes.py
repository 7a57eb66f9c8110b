"""One pass over a data set: evaluation (loss and metrics) and inference."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.contiguous import OnePass, PassBatch
from open_seq2seq.models.model import Model
from open_seq2seq.parts.precision import weight_cast_scope
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.carried import carrying_in_pass
from open_seq2seq.training.step import local_means
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.trail import TRAIL


class EvaluationPass:
    """Computes the validation loss and the task's metrics over the whole set.

    Args:
      model: a model built for evaluation.
      runner: gathers the results of all processes.
      predict: compute the metrics too, where the model has any; False leaves the loss alone.
    """

    def __init__(self, model: Model, runner: Runner, predict: bool = True) -> None:
        self.model = model
        self._runner = runner
        self._predicts = predict and model.predicts_in_evaluation
        self._step = runner.compile(self._evaluate, [model.data_layer.input_signature, tf.TensorSpec([], tf.bool)])

    def _evaluate(self, batch: Any, fresh: tf.Tensor,
                  ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], list[tf.Tensor]]:
        with weight_cast_scope(), carrying_in_pass(self.model, batch, fresh):
            terms, _ = self.model.loss_terms(batch, training=False)
            outputs = self.model.predict(batch) if self._predicts else []
        means, units = local_means(terms)
        return means, units, outputs

    def run(self, training_step: int | None = None, report_progress: bool = False) -> dict[str, float]:
        """Evaluates; prints and returns ``val_loss`` and the metrics.

        Args:
          training_step: number of the update, when called during training.
          report_progress: print how many batches are done, and the speed.
        """
        losses: list[tuple[int, Any]] = []
        results: list[tuple[int, Any]] = []
        for batches in _timed_batches(self.model, self._runner, report_progress):
            for (number, _, batch), fetched in zip(batches, self._step(*_arguments(batches)), strict=True):
                means, units, outputs = tf.nest.map_structure(np.asarray, fetched)
                losses.append((number, (means, units)))
                if self._predicts:
                    results.append((number, self.model.evaluate(batch, outputs)))
        loss = _mean_loss(_in_order(self._runner.gather(losses)))
        deco_print(f"Validation loss: {loss:.4f}", offset=1)
        gathered = _in_order(self._runner.gather(results))
        # The chief's figures are everybody's.
        metrics = self._runner.share(self.model.finalize_evaluation(gathered, training_step)
                                     if gathered and self._runner.is_chief else {})
        return {"val_loss": loss, **metrics}


class InferencePass:
    """Decodes the whole set and lets the model write the results.

    Args:
      model: a model built for inference.
      runner: gathers the results of all processes.
    """

    def __init__(self, model: Model, runner: Runner) -> None:
        self._model = model
        self._runner = runner
        self._step = runner.compile(self._predict, [model.data_layer.input_signature, tf.TensorSpec([], tf.bool)])

    def _predict(self, batch: Any, fresh: tf.Tensor) -> list[tf.Tensor]:
        with weight_cast_scope(), carrying_in_pass(self._model, batch, fresh):
            return self._model.predict(batch)

    def predict(self, batches: list[dict[str, Any]], fresh: bool = True) -> list[Any]:
        """Returns the model's results for at most as many batches as replicas, as ``Model.infer`` gives them.

        Args:
          batches: NumPy arrays.
          fresh: whether the state that the model carries from batch to batch starts anew.
        """
        return [self._model.infer(batch, [np.asarray(output) for output in outputs])
                for batch, outputs in zip(batches, self._step(batches, [fresh] * len(batches)), strict=True)]

    def run(self, output_file: str) -> None:
        """Decodes every example and writes ``output_file``."""
        rounds = _timed_batches(self._model, self._runner, True)
        results: list[tuple[int, Any]] = []
        for batches in rounds:
            found = self.predict([batch for _, _, batch in batches], batches[0].fresh)
            results += zip([number for number, _, _ in batches], found, strict=True)
        gathered = _in_order(self._runner.gather(results))
        if self._runner.is_chief:
            self._model.finalize_inference(gathered, output_file)


def _mean_loss(losses: Iterable[tuple[dict[str, float], dict[str, float]]]) -> float:
    sums: dict[str, float] = {}
    totals: dict[str, float] = {}
    for means, units in losses:
        for unit, mean in means.items():
            sums[unit] = sums.get(unit, 0.0) + float(mean) * float(units[unit])
            totals[unit] = totals.get(unit, 0.0) + float(units[unit])
    if not any(totals.values()):
        raise DataError("The evaluation set has no examples that can be used: give a file that has some.")
    return sum(sums[unit] / max(totals[unit], 1.0) for unit in sums)


def _arguments(batches: list[PassBatch]) -> tuple[list[dict[str, Any]], list[bool]]:
    return [batch for _, _, batch in batches], [fresh for _, fresh, _ in batches]


def _in_order(numbered: list[tuple[int, Any]]) -> list[Any]:
    """Returns what belongs to batches by their numbers, whichever rank had them."""
    return [result for _, result in sorted(numbered, key=lambda row: row[0])]


def _timed_batches(model: Model, runner: Runner, report: bool) -> Iterator[list[PassBatch]]:
    """Yields this process's batches of one pass, as many at a time as it has replicas, or fewer.

    With ``report``, prints its progress and speed as they are consumed.
    """
    plan = OnePass(model.data_layer, slots=model.params["eval_slots"], world_size=runner.world_size,
                   rank=runner.replica_rank, replicas=runner.local_replicas)
    total = len(plan)
    stride = max(total // 10, 1)
    started, objects, timed = time.perf_counter(), 0, 0
    with contextlib.closing(plan):
        done = 0
        for batches in plan:
            runner.check_ranks()
            before, done = done, done + len(batches)
            ids = [batch["ids"] for _, _, batch in batches]
            TRAIL.note(f"{model.mode} batch", done, ids, model.data_layer.describe_example)
            yield batches
            if before == 0:  # the first batches pay for tracing
                started = time.perf_counter()
            else:
                timed, objects = timed + 1, objects + sum(model.num_objects(batch) for _, _, batch in batches)
            if report and (before == 0 or done // stride > before // stride or done == total):
                deco_print(f"Processed {done}/{total} batches")
    seconds = time.perf_counter() - started
    if report and timed:
        deco_print(f"Avg time per step: {seconds / timed:.3f}s")
        deco_print(f"Avg {model.object_name} per second: {objects / seconds:,.1f}")
    elif report:
        deco_print("Not enough steps for benchmarking")
