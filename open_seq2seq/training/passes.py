"""One pass over a data set: evaluation (loss and metrics) and inference."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batching import evaluation_batches
from open_seq2seq.models.model import Model
from open_seq2seq.parts.precision import weight_cast_scope
from open_seq2seq.runners.runner import Runner
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
        self._step = tf.function(self._evaluate, autograph=False, input_signature=[model.data_layer.input_signature])

    def _evaluate(self, batch: Any) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], list[tf.Tensor]]:
        with weight_cast_scope():
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
        losses: list[tuple[dict[str, float], dict[str, float]]] = []
        results: list[Any] = []
        for batch in _timed_batches(self.model, self._runner, report_progress):
            means, units, outputs = tf.nest.map_structure(np.asarray, self._runner.run(self._step, batch))
            losses.append((means, units))
            if self._predicts:
                results.append(self.model.evaluate(batch, outputs))
        loss = _mean_loss(self._runner.gather(losses))
        deco_print(f"Validation loss: {loss:.4f}", offset=1)
        gathered = self._runner.gather(results)
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
        self._step = tf.function(self._predict, autograph=False, input_signature=[model.data_layer.input_signature])

    def _predict(self, batch: Any) -> list[tf.Tensor]:
        with weight_cast_scope():
            return self._model.predict(batch)

    def predict(self, batch: dict[str, Any]) -> Any:
        """Returns the model's results for one batch, as ``Model.infer`` gives them."""
        outputs = self._runner.run(self._step, batch)
        return self._model.infer(batch, [np.asarray(output) for output in outputs])

    def run(self, output_file: str) -> None:
        """Decodes every example and writes ``output_file``."""
        results = [self.predict(batch) for batch in _timed_batches(self._model, self._runner, True)]
        gathered = self._runner.gather(results)
        if self._runner.is_chief:
            self._model.finalize_inference(gathered, output_file)


def _mean_loss(losses: Iterable[tuple[dict[str, float], dict[str, float]]]) -> float:
    sums: dict[str, float] = {}
    totals: dict[str, float] = {}
    for means, units in losses:
        for unit, mean in means.items():
            sums[unit] = sums.get(unit, 0.0) + float(mean) * float(units[unit])
            totals[unit] = totals.get(unit, 0.0) + float(units[unit])
    if not totals:
        raise DataError("The evaluation set has no examples: give a file that has some.")
    return sum(sums[unit] / max(totals[unit], 1.0) for unit in sums)


def _timed_batches(model: Model, runner: Runner, report: bool) -> Iterator[dict[str, Any]]:
    """Yields this rank's batches of one pass; with ``report``, prints its progress and speed as they are consumed."""
    plan = evaluation_batches(model.data_layer, world_size=runner.world_size, rank=runner.replica_rank)
    total = len(plan)
    stride = max(total // 10, 1)
    started, objects, timed = time.perf_counter(), 0, 0
    with contextlib.closing(plan):
        for number, batch in enumerate(plan, start=1):
            TRAIL.note(f"{model.mode} batch", number, [batch["ids"]], model.data_layer.describe_example)
            yield batch
            if number == 1:  # the first batch pays for tracing
                started = time.perf_counter()
            else:
                timed, objects = timed + 1, objects + model.num_objects(batch)
            if report and (number == 1 or number % stride == 0 or number == total):
                deco_print(f"Processed {number}/{total} batches")
    seconds = time.perf_counter() - started
    if report and timed:
        deco_print(f"Avg time per step: {seconds / timed:.3f}s")
        deco_print(f"Avg {model.object_name} per second: {objects / seconds:,.1f}")
    elif report:
        deco_print("Not enough steps for benchmarking")
