"""Interactive use of a trained model: as a Python object, at a prompt, or line by line on standard input."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from open_seq2seq.data.windows import WindowedPlan
from open_seq2seq.inference.scoring import ScoringPass
from open_seq2seq.models.model import Model
from open_seq2seq.models.results import open_results
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.passes import InferencePass
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.given_files import arriving_lines

_MOST_LINES = 4096  # maximum number of lines processed together; sorting so many by length avoids nearly all padding


class InteractiveModel:
    """A restored model that can be called with any number of inputs, from any thread.

    Inputs are sorted by length and divided into batches as in the mode ``infer``. The result of an input does not
    depend on the other inputs, except that random samples depend on the input's index. Calls from several threads are
    computed one after the other, because each of them uses all processors or the whole GPU.

    Args:
      model: a model that was built for ``interactive_infer`` and whose weights have been restored.

    Attributes:
      model: the model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._pass = InferencePass(model, Runner())
        self._scoring: ScoringPass | None = None
        self._lock = threading.Lock()

    def infer(self, inputs: Sequence[Any], first: int = 0) -> list[Any]:
        """Returns the model's result for each input, in order.

        Args:
          inputs: inputs for the data layer's ``make_interactive_batch``.
          first: index of the first input; random samples depend on the index of their input.

        Raises:
          DataError: ``inputs`` is not a list, or an element cannot be used.
        """
        _check_listed(inputs)
        if not len(inputs):
            return []
        with self._lock:
            return self._results(inputs, first)

    def infer_file(self, path: str) -> list[Any]:
        """Returns the model's result for each line of a UTF-8 text file, in order.

        Raises:
          DataError: the file is missing or not UTF-8, or a line cannot be used.
        """
        return self.infer(list(read_lines(path)))

    def score(self, inputs: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        """Returns the model's score of a given target for each input, in order.

        Args:
          inputs: inputs for the data layer's ``make_scoring_batch``.
          targets: a target for each input.

        Raises:
          UserError: the model or its data layer cannot score targets.
          DataError: ``inputs`` or ``targets`` is not a list, an element cannot be used, or their lengths differ.
        """
        _check_listed(inputs)
        _check_listed(targets)
        if len(inputs) != len(targets):
            raise DataError(f"There are {len(inputs)} inputs and {len(targets)} targets: give one target for each "
                            "input.")
        if not len(inputs):
            return []
        layer, cut = self.model.data_layer, list[int]()
        with self._lock:
            if self._scoring is None:
                self._scoring = ScoringPass(self.model, Runner())
            # For batching, the length of a target is estimated as if it were an input.
            lengths = np.maximum(layer.interactive_lengths(inputs), layer.interactive_lengths(targets))
            results: list[Any] = [None] * len(inputs)
            for examples in self._batches(lengths):
                batch = layer.make_scoring_batch([inputs[example] for example in examples],
                                                 [targets[example] for example in examples])
                cut += examples[getattr(layer, "newest_cut", [])].tolist()
                for example, result in zip(examples, self._scoring.score(batch), strict=True):
                    results[example] = result
            _tell_cut(cut, len(inputs))
            return results

    def _results(self, inputs: Sequence[Any], first: int) -> list[Any]:
        layer, cut = self.model.data_layer, list[int]()
        results: list[Any] = [None] * len(inputs)
        for examples in self._batches(np.asarray(layer.interactive_lengths(inputs))):
            batch = layer.make_interactive_batch([inputs[example] for example in examples])
            cut += (examples[getattr(layer, "newest_cut", [])] + first).tolist()
            batch["ids"] = np.asarray(examples, np.int64) + first
            for number, result in self._pass.predict([batch])[0]:
                results[number - first] = result
        _tell_cut(cut, len(inputs))
        return results

    def _batches(self, lengths: np.ndarray) -> Iterator[np.ndarray]:
        """Yields the indices of the examples in each batch, for examples of these lengths."""
        layer = self.model.data_layer
        costs = np.ones_like(lengths) if layer.counts_examples else lengths
        plan = WindowedPlan(lengths, batch_size=layer.batch_budget, costs=costs)
        for window in map(plan.window, range(len(plan))):
            yield from map(window.batch, range(len(window)))


def _tell_cut(cut: list[int], count: int) -> None:
    """Says on standard error which of ``count`` inputs, by index, were too long, because answers may go to stdout."""
    if cut:
        print(f"*** Longer than max_length, so only a part was read: {len(cut):,} of {count:,} inputs, the first is "
              f"number {min(cut) + 1:,}", file=sys.stderr, flush=True)


def _check_listed(inputs: Any) -> None:
    """Raises DataError unless ``inputs`` has a length; a string would be taken for a list of characters."""
    if isinstance(inputs, (str, bytes)) or not hasattr(inputs, "__len__"):
        raise DataError(f"Inputs and targets must be lists, but got a value of type {type(inputs).__name__}: put a "
                        "single input or target into a list.")


def prompt(interactive: InteractiveModel) -> None:
    """Reads lines from standard input until it ends, and prints the model's answer to each.

    On a terminal, the answer to a line that cannot be used is a message, and the next line can be typed.

    Raises:
      UserError: standard input is not a terminal, and a line cannot be used.
    """
    on_terminal = sys.stdin.isatty()
    if on_terminal:
        deco_print(f"{interactive.model.interactive_hint}; end with Ctrl-D.")
    while True:
        try:
            line = input("> " if on_terminal else "")
        except EOFError:
            return
        if line.strip():
            try:
                print(interactive.model.answer(interactive.infer([line])[0]), flush=True)
            except UserError as error:
                if not on_terminal:
                    raise
                print(f"Error: {error}", file=sys.stderr, flush=True)
        elif not on_terminal:
            print(flush=True)  # an empty answer, so that answers and lines correspond


def answer_lines(interactive: InteractiveModel, output_file: str) -> int:
    """Writes the result of each line of standard input as soon as it is known; returns the number of lines.

    Lines that arrive while others are processed are processed together afterwards.

    Args:
      interactive: the model.
      output_file: path of the file for the results.

    Raises:
      UserError: standard input is empty, or the results cannot be written.
      DataError: a line cannot be used.
    """
    count = 0
    with open_results(interactive.model, output_file) as writer:
        for lines in arriving_lines(_MOST_LINES):
            writer.write_batches([list(enumerate(interactive.infer(lines, count), count))])
            count += len(lines)
        if not count:
            raise UserError("--infer_files - reads from standard input, but standard input is empty: "
                            "give at least one line.")
    return count
