"""Passes over a data set for evaluation (loss and metrics) and inference."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batching import PlanLoader, evaluation_plan
from open_seq2seq.data.contiguous import OnePass, PassBatch
from open_seq2seq.data.data_layer import INPUTS, DataLayer
from open_seq2seq.data.static_shapes import without_empty_rows
from open_seq2seq.data.windows import WindowLoader, inference_plan
from open_seq2seq.models.model import Model
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import comes_first, open_results
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.runners.run_states import carried_in_pass
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.step import local_means
from open_seq2seq.utils.console import Bar, deco_print, format_count, format_time
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.machine import cores_allowed
from open_seq2seq.utils.trail import TRAIL

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MOST_NAMES = 4  # files that the title of an evaluation names
WORST = 10
"""Number of examples with the worst results that an evaluation keeps."""


class PassStopped(Exception):
    """A pass was stopped before its end."""


class EvaluationPass:
    """Computes the loss and the task's metrics over the whole evaluation set.

    Args:
      model: a model built for evaluation.
      runner: runner that gathers the results of all processes.
      predict: whether to compute the model's metrics, if it has any, in addition to the loss.

    Attributes:
      worst: the examples with the worst results of the last pass, on rank 0; see ``Model.worst_examples``.
    """

    def __init__(self, model: Model, runner: Runner, predict: bool = True) -> None:
        self.model = model
        self.worst: list[dict[str, str]] = []
        self._results: list[Any] = []
        self._runner = runner
        self._predicts = predict and model.predicts_in_evaluation
        self._at_once = _at_once(model, runner) if self._predicts else 1
        self._step = runner.compile(self._evaluate, [model.data_layer.input_signature, tf.TensorSpec([], tf.bool)])

    def _evaluate(self, batch: Any, fresh: tf.Tensor,
                  ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], list[tf.Tensor]]:
        with forward_pass(carried=carried_in_pass(self.model, batch, fresh)):
            terms, decoded = self.model.loss_terms(batch, training=False)
            outputs = self.model.evaluation_outputs(batch, terms, decoded) if self._predicts else []
        means, units = local_means(terms)
        return means, units, outputs

    def run(self, training_step: int | None = None, report_progress: bool = False,
            stops: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """Evaluates the model; prints and returns the loss, ``val_loss``, and the metrics.

        Args:
          training_step: step of the last update, if called during training.
          report_progress: whether to print the number of batches processed and the speed.
          stops: called before each round of one batch per replica; the pass is stopped if it returns True.

        Returns:
          The loss and the metrics by name, the same on all ranks.

        Raises:
          PassStopped: ``stops`` returned True.
          DataError: the evaluation set has no usable examples.
        """
        losses: list[tuple[int, Any]] = []
        results: list[tuple[int, Any]] = []
        plan = _one_pass(self.model, self._runner)
        progress = _Progress(self.model, self._runner, len(plan), report_progress, self._at_once)
        with contextlib.closing(plan), progress:
            for batches, of_batches in progress.counted(self._evaluated(_until(stops, progress.over(plan)))):
                for (number, _, _), (loss, result) in zip(batches, of_batches, strict=True):
                    losses.append((number, loss))
                    if self._predicts:
                        results.append((number, result))
        loss = _mean_loss(_in_order(self._runner.gather(losses)))
        deco_print(f"{'Validation loss' if self.model.validates else 'Loss'}: {loss:.4f}", offset=1)
        gathered = _in_order(self._runner.gather(results))
        # All ranks use the metrics of rank 0.
        metrics = self._runner.share(self._metrics(gathered, training_step)
                                     if gathered and self._runner.is_chief else {})
        self.worst = self.model.worst_examples(gathered, WORST) if self._shows("worst_examples") else []
        self._results = gathered if self._runner.is_chief else []
        return {"val_loss": loss, **metrics}

    def _evaluated(self, rounds: Iterable[list[PassBatch]]) -> Iterator[tuple[list[PassBatch], list[Any]]]:
        """Yields each round with the loss (means and units) and the result of ``Model.evaluate`` for each batch."""
        def computed(batches: list[PassBatch]) -> Any:
            fetched = self._step([batch for _, _, batch in batches], [fresh for _, fresh, _ in batches])
            return [tf.nest.map_structure(np.asarray, of_batch) for of_batch in fetched]

        for batches, fetched in overlapped(computed, rounds, self._at_once):
            yield batches, [
                ((means, units), self.model.evaluate(*without_empty_rows(batch, outputs)) if self._predicts else None)
                for (_, _, batch), (means, units, outputs) in zip(batches, fetched, strict=True)]

    def time_rounds(self, least: float, most: float) -> tuple[list[float], int, int]:
        """Times rounds of one batch per replica, in a run of one process.

        The batches are drawn at random, because a pass begins with the costliest. Rounds that a pass computes at the
        same time are timed together. The first ones, which include the time of tracing, are left out unless there are
        no others.

        Args:
          least: number of seconds after which no other round begins, if two have been timed.
          most: number of seconds after which no other round begins.

        Returns:
          The seconds per round, for each group of rounds that are computed at the same time; the number of rounds in
          these groups; and the number of rounds of a whole pass.
        """
        layer, replicas = self.model.data_layer, self._runner.local_replicas
        plan = evaluation_plan(layer)
        total = -(-len(plan) // replicas)
        at_once = min(self._at_once, total)
        order = np.random.Generator(np.random.Philox(0)).permutation(len(plan)).tolist()
        seconds, sizes = list[float](), list[int]()
        start = before = time.perf_counter()
        with contextlib.closing(PlanLoader(layer, plan, order[:replicas * at_once] + order)) as loader:
            rounds = ([PassBatch(0, True, batch) for batch in batches] for batches in _groups(loader, replicas))
            for group in _groups(rounds, at_once):
                list(self._evaluated(group))
                now = time.perf_counter()
                seconds.append((now - before) / len(group))
                sizes.append(len(group))
                before = now
                if now - start > (least if len(seconds) > 2 else most):
                    break
        return seconds[1:] or seconds, sum(sizes[1:] or sizes), total

    def _metrics(self, results: list[Any], training_step: int | None) -> dict[str, float]:
        with _explaining(self.model, "evaluate", "finalize_evaluation"):
            return self.model.finalize_evaluation(results, training_step)

    def _shows(self, method: str) -> bool:
        """Returns whether this is rank 0 and a method of the model can read the results of the model's ``evaluate``.

        A class that overrides ``evaluate`` alone may return other results than its base class.
        """
        return self._runner.is_chief and comes_first(self.model, method, "evaluate")

    def report(self, reporter: Reporter) -> None:
        """Shows the samples of the last pass on rank 0, and forgets its results."""
        if self._results and self._shows("report_evaluation"):
            self.model.report_evaluation(self._results, reporter)
        self._results = []


class InferencePass:
    """Runs inference on the whole data set, and writes the results of one window of examples after the other.

    Within a window, examples are batched by length; see ``data.windows``.

    Args:
      model: a model built for inference, whose weights must not change after the first batch.
      runner: runner that gathers the results of all processes.
    """

    def __init__(self, model: Model, runner: Runner) -> None:
        self._model = model
        self._runner = runner
        self._at_once = _at_once(model, runner)
        signature = [model.data_layer.input_signature, tf.TensorSpec([], tf.bool)]
        # TensorFlow's single-threaded executor works on a single CPU only.
        self._in_one_thread = _searches_on_cpu(model, runner)
        self._step, self._step_of_one = (runner.compile(self._predict, signature) for _ in range(2))

    def _predict(self, batch: Any, fresh: tf.Tensor) -> list[tf.Tensor]:
        # The replicas of a process have variables of their own.
        with forward_pass(carried=carried_in_pass(self._model, batch, fresh),
                          weights_are_fixed=self._runner.world_size == 1):
            return self._model.predict(batch)

    def predict_each(self, batches: Iterable[dict[str, Any]]) -> Iterator[Any]:
        """Yields the result of ``Model.infer`` for each batch, in order, where this process has one replica.

        Several batches may be taken from ``batches`` before the first result is returned. In interactive inference, a
        batch may contain ``INPUTS``, the list of what the user passed, which ``Model.infer`` can read.
        """
        return (result for _, results in self._predicted([PassBatch(0, True, batch)] for batch in batches)
                for result in results)

    def _predicted(self, rounds: Iterable[list[PassBatch]]) -> Iterator[tuple[list[PassBatch], list[Any]]]:
        """Yields each round of batches with the results of its batches."""
        for batches, results in overlapped(self._outputs, rounds, self._at_once):
            yield batches, [self._model.infer(*without_empty_rows(batch, outputs))
                            for (_, _, batch), outputs in zip(batches, results, strict=True)]

    def _outputs(self, batches: list[PassBatch]) -> list[list[np.ndarray]]:
        """Returns what ``_predict`` computes for each batch of a round."""
        inputs = [{name: value for name, value in batch.items() if name != INPUTS} for _, _, batch in batches]
        fresh = [batches[0].fresh] * len(batches)
        if self._in_one_thread and len(inputs[0]["ids"]) == 1:
            with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
                results = self._step_of_one(inputs, fresh)
        else:
            results = self._step(inputs, fresh)
        return [[np.asarray(output) for output in outputs] for outputs in results]

    def run(self, output_file: str) -> None:
        """Runs inference on all examples; rank 0 writes the results to ``output_file``, window by window."""
        writer = open_results(self._model, output_file) if self._runner.is_chief else None
        with writer if writer is not None else contextlib.nullcontext():
            for results in self._windows():
                gathered = _in_order(self._runner.gather(results))
                if writer is not None:
                    with _explaining(self._model, "infer", "open_results"):
                        writer.write_batches(gathered)

    def _windows(self) -> Iterator[list[tuple[int, Any]]]:
        """Yields one list per window: (batch number, result) for each batch of this process.

        The rows of a contiguous data layer advance through the whole set in parallel, so the set is a single window.
        """
        layer, runner = self._model.data_layer, self._runner
        if layer.contiguous:
            plan = _one_pass(self._model, runner)
            progress = _Progress(self._model, runner, len(plan), True, self._at_once)
            with contextlib.closing(plan), progress:
                yield self._results(plan, progress)
            return
        ranks = range(runner.replica_rank, runner.replica_rank + runner.local_replicas)
        loader = WindowLoader(layer, inference_plan(layer), runner.world_size, ranks)
        with contextlib.closing(loader), _Progress(self._model, runner, len(loader), True, self._at_once) as progress:
            for count in loader.own.tolist():
                yield self._results(loader.rounds(count, runner.local_replicas), progress)

    def _results(self, rounds: Iterable[list[PassBatch]], progress: _Progress) -> list[tuple[int, Any]]:
        results: list[tuple[int, Any]] = []
        for batches, batch_results in progress.counted(self._predicted(progress.over(rounds))):
            results += zip([number for number, _, _ in batches], batch_results, strict=True)
        return results


def _groups(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yields lists of ``size`` consecutive items; the last one may be shorter."""
    remaining = iter(items)
    while group := list(itertools.islice(remaining, size)):
        yield group


def _until(stops: Callable[[], bool], rounds: Iterable[list[PassBatch]]) -> Iterator[list[PassBatch]]:
    """Yields the rounds; raises PassStopped before the next one if ``stops`` returns True."""
    for batches in rounds:
        if stops():
            raise PassStopped
        yield batches


def _searches_on_cpu(model: Model, runner: Runner) -> bool:
    return runner.local_replicas == 1 and not tf.config.get_visible_devices("GPU") and model.searches


def _at_once(model: Model, runner: Runner) -> int:
    """Returns the number of rounds of batches that a pass computes at the same time.

    The small operations of a search leave cores idle, which a second batch can use, unless other processes of the run
    do. The batches of a contiguous data layer need the states after the batches before.
    """
    overlaps = (_searches_on_cpu(model, runner) and runner.num_processes == 1 and cores_allowed() > 1
                and not model.data_layer.contiguous)
    return 2 if overlaps else 1


def overlapped(compute: Callable[[_Item], _Result], items: Iterable[_Item],
               at_once: int) -> Iterator[tuple[_Item, _Result]]:
    """Yields each item with what ``compute`` returns for it, in order, computing some items at the same time.

    Args:
      compute: called in threads, or in the thread of the caller if there is one item or ``at_once`` is 1.
      items: taken in the thread of the caller.
      at_once: largest number of items that are computed at the same time.
    """
    remaining = iter(items)
    first = list(itertools.islice(remaining, at_once))
    if len(first) < 2:
        yield from ((item, compute(item)) for item in itertools.chain(first, remaining))
        return
    pending: collections.deque[tuple[_Item, Future[_Result]]] = collections.deque()
    with ThreadPoolExecutor(at_once, "pass") as pool:
        for item in itertools.chain(first, remaining):
            pending.append((item, pool.submit(compute, item)))
            if len(pending) == at_once:
                oldest, future = pending.popleft()
                yield oldest, future.result()
        yield from ((item, future.result()) for item, future in pending)


@contextlib.contextmanager
def _explaining(model: Model, makes: str, reads: str) -> Iterator[None]:
    """Context manager that explains errors of a class that overrides a method, but not the one that reads its results.

    Args:
      model: the model.
      makes: the method that makes results, such as ``evaluate``.
      reads: the method that reads them, such as ``finalize_evaluation``.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        if comes_first(model, reads, makes):
            raise
        name = type(model).__name__
        raise UserError(f"{name} overrides {makes}, but not {reads}, which cannot read its results "
                        f"({type(error).__name__}: {error}): override {reads}, too, or return results of the same form "
                        "as the base class.") from error


def _mean_loss(losses: Iterable[tuple[dict[str, float], dict[str, float]]]) -> float:
    sums: dict[str, float] = {}
    totals: dict[str, float] = {}
    for means, units in losses:
        for unit, mean in means.items():
            sums[unit] = sums.get(unit, 0.0) + float(mean) * float(units[unit])
            totals[unit] = totals.get(unit, 0.0) + float(units[unit])
    if not any(totals.values()):
        raise DataError("The evaluation set has no usable examples: give a data set that has some.")
    return sum(sums[unit] / max(totals[unit], 1.0) for unit in sums)


def _one_pass(model: Model, runner: Runner) -> OnePass:
    return OnePass(model.data_layer, slots=model.params["eval_slots"], world_size=runner.world_size,
                   rank=runner.replica_rank, replicas=runner.local_replicas)


def _in_order(numbered: list[tuple[int, Any]]) -> list[Any]:
    """Returns the results of batches, sorted by batch number."""
    return [result for _, result in sorted(numbered, key=lambda row: row[0])]


def print_title(model: Model, of: str) -> None:
    """Prints the title of an evaluation: the step or the checkpoint, the number of examples, and their files."""
    layer = model.data_layer
    names = list(dict.fromkeys(map(shown, layer.data_files().values()))) or _folder_of(layer)
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1} other files"]
    where = f" of {', '.join(names[:-1])}{' and ' if names[1:] else ''}{names[-1]}" if names else ""
    deco_print(f"Evaluation {of} on {format_count(layer.num_examples, 'example')}{where}:")


def _folder_of(layer: DataLayer) -> list[str]:
    """Returns the folder of examples that are files of their own, or that a parameter names, if there is one."""
    files = list(layer.example_files())
    folder = os.path.commonpath(files) if files else layer.params.get("data_root")
    return [shown(folder)] if folder else []


class _Progress:
    """Shows the progress of this process in a pass: a bar on a terminal, and lines elsewhere.

    Args:
      model: model that the pass runs.
      runner: the run's runner.
      total: total number of batches of this process.
      report: whether to print lines with the number of batches processed and, at the end, the speed.
      at_once: number of rounds of batches that are computed at the same time.
    """

    def __init__(self, model: Model, runner: Runner, total: int, report: bool, at_once: int) -> None:
        self._model, self._runner, self._total, self._report, self._at_once = model, runner, total, report, at_once
        self._bar = Bar(total, shows=runner.num_processes == 1)
        self._stride = max(total // 10, 1)
        self._begun, self._done, self._rounds = 0, 0, 0
        self._started, self._objects = time.perf_counter(), 0

    def over(self, rounds: Iterable[list[PassBatch]]) -> Iterator[list[PassBatch]]:
        """Yields the given rounds, which are lists of at most one batch per replica, and records where the pass is."""
        model = self._model
        for batches in rounds:
            self._runner.check_ranks()
            self._begun += len(batches)
            ids = [batch["ids"] for _, _, batch in batches]
            TRAIL.note(f"{model.mode} batch", self._begun, ids, model.data_layer.describe_example)
            yield batches

    def counted(self, computed: Iterable[tuple[list[PassBatch], _Result]],
                ) -> Iterator[tuple[list[PassBatch], _Result]]:
        """Yields the rounds with their results, which have just been computed, and shows the progress."""
        for batches, results in computed:
            before, self._done = self._done, self._done + len(batches)
            self._rounds += 1
            if self._rounds <= self._at_once:  # the first rounds include the time of tracing
                self._started = time.perf_counter()
            else:
                self._objects += sum(self._model.num_objects(batch) for _, _, batch in batches)
            self._show(before)
            yield batches, results

    def _show(self, before: int) -> None:
        if self._bar.is_due:
            timed = self._rounds - self._at_once
            per_round = (time.perf_counter() - self._started) / max(timed, 1)
            left = f", {format_time(per_round * (self._total - self._done))} left" if timed > 0 else ""
            self._bar.update(self._done, f"{self._done:,} of {self._total:,} batches{left}")
        if self._report and (before == 0 or self._done // self._stride > before // self._stride
                             or self._done == self._total):
            deco_print(f"Processed {self._done}/{self._total} batches")

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._bar.hide()
        if self._report and kind is None and self._rounds > self._at_once:
            seconds = time.perf_counter() - self._started
            deco_print(f"Speed: {self._objects / seconds:,.0f} {self._model.object_name}/s")
