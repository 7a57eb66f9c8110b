"""Batches that a data layer makes with ``tf.data``, in the order of the plan; errors name the faulty example.

Also where the records of TFRecord files begin.
"""

from __future__ import annotations

import os
import re
import struct
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.batch_loader import Wanted
from open_seq2seq.data.fields import flatten, mapped
from open_seq2seq.utils.data_files import opened_data, shown
from open_seq2seq.utils.errors import ConfigError, DataError

# What TensorFlow puts before an error's message (function, iterator, error class, assertion) and after it (condition of
# the assertion, node, traceback).
_BEFORE = re.compile(r"^(?:\{\{function_node [^}]*\}\}\s*)?(?:Error in user-defined function .*? iterator: \S+: )?"
                     r"(?:\w+Error: |\w+Exception: )?(?:assertion failed: \[)?")
_AFTER = re.compile(r"(?:\]\s*\[|\s*)Condition x == y did not hold.*|"
                    r"\s*(?:\[\[\{\{|\[Op:|\nTraceback \(most recent).*", re.DOTALL)


class UnusableDataError(DataError):
    """None of the examples can be used.

    If a data layer raises this error in its data set, the error is reported as it is, whereas other errors are taken
    for errors about one example.
    """


def reason(error: tf.errors.OpError) -> str:
    """Returns why an operation failed, without TensorFlow's additions and the final full stop."""
    words = error.message or str(error)
    return " ".join(_AFTER.sub("", _BEFORE.sub("", words)).split()).rstrip(". ")


def elements_of(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Yields the elements of a data set as NumPy arrays, in order.

    TensorFlow may not tune the numbers of threads: in one of nine cases the thread that tunes misses the end of the
    iterator, whose deletion then waits for up to a minute.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    yield from dataset.with_options(options).as_numpy_iterator()


PLAN_SIGNATURE = {"examples": tf.TensorSpec([None], tf.int64), "epoch": tf.TensorSpec([], tf.int64)}
"""Signature of the plan, a data set with one element for each batch to make."""

_SHOWN = 8
# Errors of broken or missing files, and of assertions in the layer. Other errors are not caused by the data.
_DATA_ERRORS = (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, tf.errors.DataLossError,
                tf.errors.PermissionDeniedError, tf.errors.FailedPreconditionError, tf.errors.UnimplementedError)


def dataset_batches(layer: Any, plan: Iterator[Wanted],
                    training: bool) -> Iterator[tuple[int, dict[str, Any]]] | None:
    """Returns an iterator over (number, batch of NumPy arrays), or None if the layer makes no data set.

    Args:
      layer: the data layer; its ``make_dataset`` makes the data set.
      plan: the batches to make; a TensorFlow thread reads ahead in it.
      training: whether the batches are for training.

    Raises:
      ConfigError: the data set's elements do not match the layer's ``input_signature``. The iterator also raises it if
        the batches do not match the plan.
      DataError: raised by the iterator if an example cannot be used; the message names the example.
    """
    run = _Run(layer, plan, training)
    return None if run.dataset is None else run.batches()


class _Run:
    """One pass of a layer's data set over a plan."""

    def __init__(self, layer: Any, plan: Iterator[Wanted], training: bool) -> None:
        self._layer, self._plan, self._training = layer, plan, training
        self._under_way: deque[Wanted] = deque()
        self._over = False
        self._error: BaseException | None = None
        # Functions are traced without AutoGraph, as everywhere in the package.
        self.dataset = tf.autograph.experimental.do_not_convert(layer.make_dataset)(
            tf.data.Dataset.from_generator(self._elements, output_signature=PLAN_SIGNATURE), training)
        if self.dataset is not None:
            _check_elements(layer, self.dataset)

    def _elements(self) -> Iterator[dict[str, Any]]:
        try:
            for wanted in self._plan:
                self._under_way.append(wanted)
                yield {"examples": np.asarray(wanted.examples, np.int64), "epoch": np.int64(wanted.epoch)}
        except Exception as error:  # kept, because TensorFlow forwards only the message
            self._error = error
            raise
        self._over = True

    def batches(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields (number, batch); replaces TensorFlow's errors with errors that name the example."""
        batches = self.raw_batches()
        while True:
            try:
                wanted, batch = next(batches)
            except StopIteration:
                return
            except tf.errors.OpError as error:
                if self._error is not None:
                    raise self._error from None
                raise self._explained(error) from error
            yield wanted.number, batch

    def raw_batches(self) -> Iterator[tuple[Wanted, dict[str, Any]]]:
        """Yields (element of the plan, batch); TensorFlow's errors are raised as they are."""
        assert self.dataset is not None
        for made in elements_of(self.dataset):
            wanted = self._under_way.popleft() if self._under_way else None
            batch = mapped(lambda path, array: array, made)  # turns tuples, which tf.data needs, into lists
            if wanted is None or not _is_of(batch, wanted):
                raise self._misaligned()
            yield wanted, batch
        if self._under_way or not self._over:
            raise self._misaligned()

    def _misaligned(self) -> ConfigError:
        return ConfigError([
            f"The batches of {type(self._layer).__name__}.make_dataset do not match its plan: make one batch of each "
            "element, in the same order, from the examples of that element (map the plan, but do not shuffle, filter "
            "or take)."])

    def _explained(self, error: tf.errors.OpError) -> Exception:
        words = error.message or str(error)
        if not self._under_way or not (isinstance(error, _DATA_ERRORS) or "DataError: " in words):
            return error
        if f"{UnusableDataError.__name__}: " in words:
            return UnusableDataError(f"{reason(error)}.")
        return DataError(f"{self._culprit(self._under_way[0])} cannot be read: {reason(error)}. Correct or remove it.")

    def _culprit(self, wanted: Wanted) -> str:
        """Returns how the message refers to the faulty example: the first that fails when it is alone in a batch.

        If none fails alone, returns "One of", followed by the first examples of the batch.
        """
        examples = wanted.examples
        # First without augmentation, which may mix a broken example into others.
        faulty = self._first_faulty(
            self._layer.examples_read(examples, wanted.epoch), 0, False) if self._training else None
        if faulty is None:
            faulty = self._first_faulty(examples, wanted.epoch, self._training)
        if faulty is not None:
            return self._layer.describe_example(faulty)
        shown = ", ".join(self._layer.describe_example(int(example)) for example in examples[:_SHOWN])
        more = len(examples) - _SHOWN
        return f"One of {shown}" + (f" and {more} more" if more > 0 else "")

    def _first_faulty(self, examples: np.ndarray, epoch: int, training: bool) -> int | None:
        """Returns the first of some examples that fails when it is alone in a batch; None if there is none."""
        run = _Run(self._layer, (Wanted(place, examples[place:place + 1], epoch) for place in range(len(examples))),
                   training)
        good = 0
        try:
            for _ in run.raw_batches() if run.dataset is not None else ():
                good += 1
        except tf.errors.OpError:
            return int(examples[good])
        return None


def _is_of(batch: Mapping[str, Any], wanted: Wanted) -> bool:
    """Returns whether a batch's integer ids are among the wanted examples.

    Some wanted examples may be missing, because a layer may leave out broken ones. Ids that are not integers are not
    checked.
    """
    ids = np.asarray(batch["ids"])
    if not np.issubdtype(ids.dtype, np.integer):
        return True
    return bool(np.isin(ids[ids >= 0], wanted.examples).all())


def _check_elements(layer: Any, dataset: tf.data.Dataset) -> None:
    name = type(layer).__name__
    if not isinstance(dataset.element_spec, Mapping):
        raise ConfigError([f"The elements of {name}.make_dataset must be dicts with the keys "
                           f"{', '.join(layer.input_signature)}."])
    actual, promised = dict(flatten(dataset.element_spec)), dict(flatten(layer.input_signature))
    problems = [f"{path}: {name}.make_dataset makes {_say(actual.get(path))}, but the layer's fields declare "
                f"{_say(promised.get(path))}. In a data set, lists of arrays must be tuples."
                for path in sorted({*actual, *promised})
                if path not in actual or path not in promised or not _fits(actual[path], promised[path])]
    if problems:
        raise ConfigError(problems)


def _fits(given: tf.TensorSpec, promised: tf.TensorSpec) -> bool:
    return given.dtype == promised.dtype and promised.shape.is_compatible_with(given.shape)


def _say(spec: tf.TensorSpec | None) -> str:
    return "nothing" if spec is None else f"{spec.dtype.name} {spec.shape}"


# Sizes in bytes. A record consists of the data's length (8), its checksum (4), the data, and their checksum (4).
_HEADER, _FOOTER = 12, 4


def record_starts(path: str) -> np.ndarray:
    """Returns the offset of each record of a TFRecord file in bytes, int64 ``[records]``.

    Raises:
      DataError: the file cannot be read, is empty, or does not consist of whole records.
    """
    starts: list[int] = []
    place = 0
    with opened_data(path, "The TFRecord file") as file:
        size = os.fstat(file.fileno()).st_size
        while place < size:
            header = os.pread(file.fileno(), _HEADER, place)
            length = struct.unpack("<Q", header[:8])[0] if len(header) == _HEADER else size
            starts.append(place)
            place += _HEADER + length + _FOOTER
            if place > size:
                raise DataError(f"{shown(path)}, record {len(starts)}: the file ends within the record, so it is "
                                "incomplete or damaged, or not an uncompressed TFRecord file.")
    if not starts:
        raise DataError(f"The TFRecord file {shown(path)} is empty.")
    return np.asarray(starts, np.int64)
