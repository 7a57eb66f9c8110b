"""One pass over a data set: evaluation (loss and metrics) and inference."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batching import evaluation_batches
from open_seq2seq.data.static_batches import without_empty_rows
from open_seq2seq.data.windows import WindowLoader, inference_plan
from open_seq2seq.models.model import Model
from open_seq2seq.models.results import open_results
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
        self._step = runner.compile(self._evaluate, [model.data_layer.input_signature])

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
        layer, runner = self.model.data_layer, self._runner
        loader = evaluation_batches(layer, world_size=runner.world_size, rank=runner.replica_rank,
                                    replicas=runner.local_replicas)
        with loader, _Rounds(self.model, runner, len(loader), report_progress) as rounds:
            for batches in rounds.of(loader):
                for batch, fetched in zip(batches, self._step(batches), strict=True):
                    means, units, outputs = tf.nest.map_structure(np.asarray, fetched)
                    losses.append((means, units))
                    if self._predicts:
                        results.append(_on_examples(self.model.evaluate, batch, outputs))
        loss = _mean_loss(self._runner.gather(losses))
        deco_print(f"Validation loss: {loss:.4f}", offset=1)
        gathered = self._runner.gather(results)
        # The chief's figures are everybody's.
        metrics = self._runner.share(self.model.finalize_evaluation(gathered, training_step)
                                     if gathered and self._runner.is_chief else {})
        return {"val_loss": loss, **metrics}


class InferencePass:
    """Decodes the whole set, and writes the results while it goes on.

    Args:
      model: a model built for inference.
      runner: gathers the results of all processes.
    """

    def __init__(self, model: Model, runner: Runner) -> None:
        self._model = model
        self._runner = runner
        self._step = runner.compile(self._predict, [model.data_layer.input_signature])

    def _predict(self, batch: Any) -> list[tf.Tensor]:
        with weight_cast_scope():
            return self._model.predict(batch)

    def predict(self, batches: list[dict[str, Any]]) -> list[Any]:
        """Returns the model's results for at most as many batches as replicas, as ``Model.infer`` gives them."""
        return [_on_examples(self._model.infer, batch, [np.asarray(output) for output in outputs])
                for batch, outputs in zip(batches, self._step(batches), strict=True)]

    def run(self, output_file: str) -> None:
        """Decodes every example; rank 0 writes the results of one window of examples after another."""
        writer = open_results(self._model, output_file) if self._runner.is_chief else None
        with writer if writer is not None else contextlib.nullcontext():
            for results in self._windows():
                gathered = self._runner.gather(results)
                if writer is not None:
                    writer.write_batches(gathered)

    def _windows(self) -> Iterator[list[Any]]:
        """Yields this process's results, batch by batch, of each window; of some it may have none."""
        layer, runner = self._model.data_layer, self._runner
        ranks = range(runner.replica_rank, runner.replica_rank + runner.local_replicas)
        loader = WindowLoader(layer, inference_plan(layer), runner.world_size, ranks)
        with loader, _Rounds(self._model, runner, len(loader), True) as rounds:
            for batches in loader.own.tolist():
                own = itertools.islice(loader, batches)
                yield [result for batches in rounds.of(own) for result in self.predict(batches)]


def _on_examples(judge: Callable[[dict[str, Any], list[np.ndarray]], Any], batch: dict[str, Any],
                 outputs: list[np.ndarray]) -> Any:
    """Returns what ``Model.evaluate`` or ``Model.infer`` makes of a batch, of which it sees no empty rows."""
    return judge(*without_empty_rows(batch, outputs))


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


class _Rounds:
    """Deals out a process's batches of one pass to its replicas, and tells how far and how fast it goes.

    Args:
      model: whose pass it is.
      runner: has the replicas.
      total: how many batches this process has in all.
      report: whether progress and, at the end, speed are printed.
    """

    def __init__(self, model: Model, runner: Runner, total: int, report: bool) -> None:
        self._model, self._runner, self._total, self._report = model, runner, total, report
        self._stride = max(total // 10, 1)
        self._done = 0
        self._started, self._objects, self._timed = time.perf_counter(), 0, 0

    def of(self, loader: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """Yields as many batches at a time as there are replicas; fewer may come last."""
        model = self._model
        while batches := list(itertools.islice(loader, self._runner.local_replicas)):
            self._runner.check_ranks()
            before, self._done = self._done, self._done + len(batches)
            ids = [batch["ids"] for batch in batches]
            TRAIL.note(f"{model.mode} batch", self._done, ids, model.data_layer.describe_example)
            yield batches
            if before == 0:  # the first batches pay for tracing
                self._started = time.perf_counter()
            else:
                self._timed += 1
                self._objects += sum(model.num_objects(batch) for batch in batches)
            if self._report and (before == 0 or self._done // self._stride > before // self._stride
                                 or self._done == self._total):
                deco_print(f"Processed {self._done}/{self._total} batches")

    def __enter__(self) -> _Rounds:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if not self._report or kind is not None:
            return
        seconds = time.perf_counter() - self._started
        if self._timed:
            deco_print(f"Avg time per step: {seconds / self._timed:.3f}s")
            deco_print(f"Avg {self._model.object_name} per second: {self._objects / seconds:,.1f}")
        else:
            deco_print("Not enough steps for benchmarking")
