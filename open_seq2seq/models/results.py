"""Writers of inference results, which receive the results in the order of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles, check_not_protected


class ResultWriter:
    """Base class of the writers that ``Model.open_results`` returns: a context manager, used on rank 0 only.

    A subclass opens its files with ``self.outputs`` in ``begin``, writes the result of one example in ``write``, and
    the rest in ``finish``. The files have temporary names until the context ends without an error. After an error, or
    if the process is killed, files that existed before are unchanged. See ``utils.output_file``.

    Attributes:
      outputs: opens the output files and folders.
    """

    def __init__(self) -> None:
        self.outputs = OutputFiles()
        self._last = -1

    def begin(self) -> None:
        """Opens the outputs; called before the first batch is computed."""

    def write(self, example: int, result: Any) -> None:
        """Writes the result of one example, as returned by ``Model.infer``.

        Called in the order of the examples. Bad examples that the data layer skips have no result.

        Args:
          example: index of the example.
          result: the result.
        """
        raise NotImplementedError("A result writer must implement write(example, result).")

    def finish(self) -> None:
        """Writes what follows the last result; not called after an error."""

    def write_batches(self, results_per_batch: list[Any]) -> None:
        """Writes the results of several batches in the order of their examples.

        The examples may be in any order within ``results_per_batch``, but must follow the examples of earlier calls.

        Args:
          results_per_batch: for each batch, rows (example, result) from ``Model.infer``.

        Raises:
          DataError: an example precedes one that has been written, because the batches' ``ids`` are not the indices of
            the examples.
        """
        with self.outputs.guarded():
            for example, result in sorted((row for batch in results_per_batch for row in batch),
                                          key=lambda row: row[0]):
                if example < self._last:
                    raise DataError(f"The result of example {example} came after that of example {self._last}: the "
                                    "'ids' of a data layer's batches must be the indices of its examples.")
                self._last = int(example)
                self.write(self._last, result)

    def __enter__(self) -> ResultWriter:
        try:
            with self.outputs.guarded():
                self.begin()
        except BaseException:
            self.outputs.discard()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                with self.outputs.guarded():
                    self.finish()
                self.outputs.commit()
        finally:
            self.outputs.discard()


class LineWriter(ResultWriter):
    """Writes a text file.

    Args:
      output_file: path of the file.
      text_of: function of (example, result) that returns the text to write, including its line endings.
      data_layer: data layer whose empty and truncated inputs are reported at the end, or None.
    """

    def __init__(self, output_file: str, text_of: Callable[[int, Any], str], data_layer: Any = None) -> None:
        super().__init__()
        self._name, self._text_of, self._data_layer = output_file, text_of, data_layer

    def begin(self) -> None:
        self._file = self.outputs.open(self._name)

    def write(self, example: int, result: Any) -> None:
        self._file.write(self._text_of(example, result))

    def finish(self) -> None:
        report_inputs(self._data_layer)


class CollectingWriter(ResultWriter):
    """Keeps all results in memory for a model that writes them in ``finalize_inference``."""

    def __init__(self, model: Any, output_file: str) -> None:
        super().__init__()
        self._model, self._name = model, output_file
        self._results: list[Any] = []

    def write_batches(self, results_per_batch: list[Any]) -> None:
        self._results += results_per_batch

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._model.finalize_inference(self._results, self._name)


def report_inputs(data_layer: Any) -> None:
    """Prints how many inputs of inference are empty, and how many are truncated, if the data layer counts them."""
    if count := getattr(data_layer, "num_empty_sources", 0):
        deco_print(f"Empty lines, whose results are empty too: {count:,}")
    for line in cut_remarks(data_layer):
        deco_print(line)


def cut_remarks(data_layer: Any) -> list[str]:
    """Returns lines about examples of which only a part is read, if the data layer counts them."""
    return data_layer.cut_remark().splitlines() if hasattr(data_layer, "cut_remark") else []


def open_results(model: Any, output_file: str) -> ResultWriter:
    """Returns the model's writer, or one that calls ``finalize_inference`` if the model overrides only that method.

    Raises:
      UserError: the output is a file that this run reads or keeps.
    """
    check_not_protected(output_file)
    if comes_first(model, "open_results", "finalize_inference"):
        return model.open_results(output_file)
    return CollectingWriter(model, output_file)


def comes_first(thing: object, method: str, old: str) -> bool:
    """Returns whether ``method`` takes precedence over ``old`` in the method resolution order.

    If a class overrides only the old method, the old method takes precedence, although a base class defines both. If a
    class defines both, ``method`` takes precedence.

    Args:
      thing: an object whose class, or one of its bases, defines the methods.
      method: name of the preferred method.
      old: name of the method that it replaces.

    Raises:
      AttributeError: the object has neither method.
    """
    for cls in type(thing).__mro__:
        if method in vars(cls):
            return True
        if old in vars(cls):
            return False
    raise AttributeError(f"{type(thing).__name__} has neither {method} nor {old}.")
