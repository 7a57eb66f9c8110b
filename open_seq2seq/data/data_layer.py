"""Base class of data layers: numbered examples, their lengths and costs, and batches of examples."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, DATA, LIST, NamedFile, named_files
from open_seq2seq.config.names import register
from open_seq2seq.config.params import FREE, CheckedParams, Param, without_effect
from open_seq2seq.data.batch_loader import Wanted
from open_seq2seq.data.datasets import dataset_batches
from open_seq2seq.data.fields import fields_of, signature_of
from open_seq2seq.data.fingerprints import Fingerprint, digest_of_beginnings, fingerprint
from open_seq2seq.parts.component import Component
from open_seq2seq.utils.errors import DataError, UserError

INPUTS = "interactive_inputs"
"""In batches of interactive inference: the inputs from which the batch was made, a list."""


class DataLayer(Component):
    """Base class of data layers.

    A data layer defines the number, lengths and costs of its examples, and makes a padded batch from a list of example
    numbers. The modules ``data.batching`` and ``data.contiguous`` choose these numbers for all data layers: they order,
    shuffle, batch and shard the examples, and resume at any batch.

    A batch is a dict ``{"source_tensors": [values, lengths, …], "target_tensors": [values, lengths, …], "ids":
    [batch]}`` of NumPy arrays ``[batch, …]``, declared by ``fields``. With ``xla_buckets``, batches are then padded
    to static shapes, which can add rows with the id -1 (``data.static_shapes``).

    A subclass implements either ``make_batch`` (and optionally ``make_training_batch``), which background threads
    call, or ``make_dataset``, which uses ``tf.data``. If a class implements one and its base class the other, the
    derived class takes precedence; the same holds for ``fields`` and ``input_signature``.

    Args:
      params: the layer's parameters.
      model: the model that the layer feeds, or None.
      name: the layer's name in the model.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``; the parameter ``mode`` by default.

    Attributes:
      seed: the run's ``random_seed``; the trainer sets it before the first training batch is made.
      training_rows: number of rows into which a contiguous layer's examples are divided in training; the trainer sets
        it. Row r consists of the examples r · P to (r + 1) · P - 1, with P = num_examples // training_rows.
      contiguous: whether example n + 1 continues example n, as consecutive pieces of one sequence do. Contiguous
        examples are not shuffled: row k of a batch continues in row k of a later batch (``data.contiguous``). May be
        a property.
      reads_lines: whether the inputs of ``make_interactive_batch`` are lines of text, so that inference can process
        lines of standard input as they arrive.
      counting_units: values of ``batch_size_unit`` for which every example counts as one.
      length_limit: name of the parameter that limits the length of examples, for messages; None if there is none.
      parallel_files: names of parameters whose files correspond line by line, also within nested dicts.
    """

    seed: int = 0
    training_rows: int = 1
    contiguous: bool = False
    reads_lines: bool = False
    counting_units: Sequence[str] = ("examples", "sentences", "utterances", "images")
    length_limit: str | None = None
    parallel_files: Sequence[str] = ()
    _is_arithmetic = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # The nearest class that defines fields or input_signature decides which of them is derived from the other.
        nearest = vars(_nearest(cls, {"fields", "input_signature"}))
        fields, signature = nearest.get("fields"), nearest.get("input_signature")
        if fields is not None and signature is None:
            cls.input_signature = property(  # type: ignore[assignment,method-assign]
                lambda self: signature_of(_value(fields, self)), doc=DataLayer.input_signature.__doc__)
        elif signature is not None and fields is None:
            cls.fields = property(  # type: ignore[assignment,method-assign]
                lambda self: fields_of(_value(signature, self)), doc=DataLayer.fields.__doc__)

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: Any = "data_layer",
                 mode: Any = None) -> None:
        # A class for NVIDIA's OpenSeq2Seq passes the number of workers and its own, or None, as the last arguments.
        if isinstance(mode, str):
            params = {**params, "mode": mode}
        super().__init__(params, model, name if isinstance(name, str) else "data_layer", params.get("mode", "train"))
        if self.params["shuffle"] is None:
            shuffle = self.mode == "train" and not self.contiguous
            self._params = CheckedParams({**self._params, "shuffle": shuffle}, self.params_path)

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "mode": Param(["train", "eval", "infer", "interactive_infer"], "train", "What the layer is used for; set "
                          "by the model.", derived=True),
            "batch_size": Param(int, 1, "Batch size per device; set by the model.", "examples or tokens",
                                derived=True, minimum=1),
            "batch_size_unit": Param(["sentences", "tokens"], "sentences", "Unit of the batch size: sentences, or "
                                     "tokens of the longer side, padding included."),
            "shuffle": Param((bool, type(None)), None, "Whether training reshuffles the examples in each epoch; by "
                             "default True, unless each example continues the previous one. Evaluation and inference "
                             "never shuffle."),
            "repeat": Param(bool, True, "Ignored; accepted so that old configs load. Training always repeats the data; "
                            "evaluation never does.", on_change=FREE),
            "dtype": Param((tf.DType, str), tf.float32, "Dtype of floating-point features; ignored by data layers "
                           "without such features, and by those that always use float32."),
            "length_buckets": Param(bool, True, "Whether examples of similar length are batched together; always so if "
                                    "the batch size does not count examples."),
            **without_effect("interactive", "cache_features", "cache_format", "cache_regenerate"),
        }

    @property
    def _has_targets(self) -> bool:
        """Whether the layer reads targets: in training and evaluation, not in inference."""
        return self.mode in ("train", "eval")

    @functools.cached_property
    def _workers(self) -> ThreadPoolExecutor:
        """Threads that make examples, at most as many as the parameter ``map_parallel_calls``."""
        return ThreadPoolExecutor(min(self.params["map_parallel_calls"], os.cpu_count() or 1), "examples")

    @property
    def num_examples(self) -> int:
        """Number of examples after filtering."""
        raise NotImplementedError("A data layer must define the property num_examples.")

    @property
    def lengths(self) -> np.ndarray:
        """Lengths of the examples as integers ``[num_examples]``, or ``[num_examples, 2]`` for source and target.

        The length of an example is the number of time steps that it occupies in a batch, or 1 if the arrays have no
        time axis. ``xla_buckets`` needs a column for each group of arrays that share their lengths (see ``fields``),
        usually one for each side with a time axis.
        """
        return np.ones(self.num_examples, np.int64)

    @property
    def counts_examples(self) -> bool:
        """Whether the batch size counts examples, so that all full batches have the same number of rows."""
        return self.params["batch_size_unit"] in self.counting_units

    @property
    def costs(self) -> np.ndarray:
        """Costs of the examples as integers ``[num_examples]``, in the unit of ``batch_budget``.

        The cost of a batch is its number of rows times the cost of its costliest example. By default, an example costs
        1 if ``batch_size_unit`` counts examples, and the length of its longest side otherwise.
        """
        if self.counts_examples:
            return np.ones(self.num_examples, np.int64)
        lengths = np.asarray(self.lengths)
        return lengths if lengths.ndim == 1 else lengths.max(axis=1)

    @property
    def batch_budget(self) -> int:
        """Maximum cost of a batch; by default the parameter ``batch_size``."""
        return int(self.params["batch_size"])

    def explain_too_costly(self, example: int) -> str:
        """Returns the error message for an example that alone costs more than ``batch_budget``."""
        return self._too_costly(example, f"{int(self.costs[example])} {self.params['batch_size_unit']}",
                                self.batch_budget)

    def _too_costly(self, example: int, cost: str, budget: int) -> str:
        return (f"{self.describe_example(example)} has {cost}, padding included, but the batch size is {budget}: "
                f"raise batch_size_per_gpu{f' or lower {self.length_limit}' if self.length_limit else ''}.")

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Returns the padded batch of the examples with these numbers ``[batch]``.

        Background threads call this method. A process with several replicas has a thread for each of them, so calls
        can be concurrent. By default, the batch is made by ``make_dataset`` with ``training=False``.
        """
        made = self._by_dataset(examples, 0, training=False)
        if made is None:
            raise NotImplementedError("A data layer must implement make_batch(examples) or "
                                      "make_dataset(plan, training).")
        return made

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Returns a training batch for an epoch, counted from 0; by default the same batch in every epoch.

        Calls can be concurrent, like those of ``make_batch``. Random numbers may depend only on the layer's ``seed``,
        the example and the epoch, so that a resumed run draws the same numbers as an uninterrupted one.
        """
        made = self._by_dataset(examples, epoch, training=True) if self._uses_dataset() else None
        return self.make_batch(examples) if made is None else made

    def rate_factor(self, batch: dict[str, Any]) -> float | None:
        """Returns the factor for the learning rate of the update that uses this training batch.

        The factor must be the same for all batches of an update. None, the default, leaves the rate unchanged.
        """
        return None

    def make_dataset(self, plan: tf.data.Dataset, training: bool) -> tf.data.Dataset | None:
        """Returns a ``tf.data.Dataset`` of batches, or None if the layer implements ``make_batch`` instead.

        The data set must have one batch for each element of the plan, in the same order: apply ``map`` to the plan,
        with any ``num_parallel_calls``. Batches have the structure of ``input_signature``, but with tuples instead of
        lists, because ``tf.data`` stacks the items of a list. This method and the functions given to ``map`` are traced
        without AutoGraph, so use ``tf.cond`` instead of ``if`` for tensors. In training, derive random numbers from
        ``parts.randomness.example_seeds``. If an operation fails (on a broken image, for instance), the error message
        names the example.

        Args:
          plan: data set with one element ``{"examples": int64 [batch], "epoch": int64 []}`` for each batch to make.
          training: whether the batches are for training; if not, the epoch is always 0.
        """
        return None

    def examples_read(self, examples: np.ndarray, epoch: int) -> np.ndarray:
        """Returns the numbers of all examples that a training batch of ``examples`` reads; by default the same."""
        return examples

    def make_batches(self, plan: Iterator[Wanted], training: bool) -> Iterator[tuple[int, dict[str, Any]]] | None:
        """Returns an iterator over (number, batch) of the planned batches, in order; None to make them singly."""
        return dataset_batches(self, plan, training) if self._uses_dataset() else None

    @classmethod
    def _uses_dataset(cls) -> bool:
        """Returns whether the nearest class that makes batches implements ``make_dataset``."""
        maker = _nearest(cls, {"make_dataset", "make_batch", "make_training_batch"})
        return maker is not DataLayer and "make_dataset" in vars(maker)

    def _by_dataset(self, examples: np.ndarray, epoch: int, training: bool) -> dict[str, Any] | None:
        wanted = Wanted(0, np.asarray(examples, np.int64), epoch)
        made = dataset_batches(self, iter([wanted]), training)
        return None if made is None else next(made)[1]

    @property
    def fields(self) -> dict[str, Any]:
        """A ``data.fields.Field`` for each array of a batch, nested like the batch.

        By default derived from ``input_signature``: the first array of a side contains values, whose axis 1 is time if
        its size is None, and the second array contains the lengths of those values.
        """
        raise NotImplementedError("A data layer must define the property fields or input_signature.")

    @property
    def input_signature(self) -> dict[str, Any]:
        """A ``tf.TensorSpec`` for each array of a batch, with None for variable dimensions; derived from ``fields``."""
        raise NotImplementedError("A data layer must define the property fields or input_signature.")

    def make_interactive_batch(self, inputs: list[Any]) -> dict[str, Any]:
        """Returns a batch of inputs that the user typed, or passed to the Python API."""
        raise NotImplementedError(f"{type(self).__name__} does not support interactive input.")

    def interactive_examples(self, count: int) -> list[Any]:
        """Returns at most ``count`` of the layer's examples as inputs of ``make_interactive_batch``."""
        raise NotImplementedError(f"{type(self).__name__} does not support interactive input.")

    def interactive_lengths(self, inputs: Sequence[Any]) -> np.ndarray:
        """Returns the lengths ``[inputs]`` of inputs for ``make_interactive_batch``, in the unit of ``lengths``.

        Inference batches the inputs by these lengths. By default all lengths are 1; a layer whose batch size does not
        count examples should override this method.
        """
        return np.ones(len(inputs), np.int64)

    def make_scoring_batch(self, inputs: Sequence[Any], targets: Sequence[Any]) -> dict[str, Any]:
        """Returns a batch of inputs with given targets for ``Model.score``; see ``scoring_signature``.

        Raises:
          UserError: the layer does not support this.
        """
        raise UserError(f"The data layer {type(self).__name__} does not support scores of given targets.")

    @property
    def scoring_signature(self) -> dict[str, Any]:
        """A ``tf.TensorSpec`` for each array of ``make_scoring_batch``."""
        return self.input_signature

    def describe_example(self, example: int) -> str:
        """Returns how messages refer to an example, such as its file and line."""
        return f"Example {example}"

    def examine(self) -> list[str]:
        """Examines every example, for ``--check``; returns lines to print.

        Raises:
          DataError: some examples cannot be used.
        """
        return []

    def assets(self) -> dict[str, str]:
        """Returns a dict of name → path of the files that a checkpoint needs besides the weights.

        By default, these are the files of all parameters declared with ``file="asset"``.
        """
        return {asset_name(file): file.value for file in named_files(type(self), self.params)
                if file.kind == ASSET and file.value is not None}

    def asset_mismatch(self, name: str, kept: str) -> str | None:
        """Returns a sentence about an asset that differs from a checkpoint's copy; None for the usual sentence.

        A layer overrides this if an asset is not a file that the user has named.

        Args:
          name: the asset's name in ``assets()``.
          kept: path of the copy.
        """
        return None

    def data_files(self, *kinds: str) -> dict[str, str]:
        """Returns a dict of name → path of the files that contain the examples, or list them.

        By default, these are the files of all parameters declared with ``file="data"`` or ``file="list"``.

        Args:
          kinds: the kinds of file to return, ``data`` or ``list``; both by default.
        """
        named: dict[str, list[str]] = {}
        for file in named_files(type(self), self.params):
            if file.kind in (kinds or (DATA, LIST)) and file.value is not None:
                named.setdefault(asset_name(file), []).append(file.value)
        return {f"{name} {number}": path for name, paths in named.items() for number, path in enumerate(paths)}

    @classmethod
    def opened_files(cls, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the parameters with all file paths as the layer opens them, and None for files that it does not read.

        Used to find missing files before a run starts. By default, the parameters are returned unchanged.

        Args:
          params: the parameters of training or evaluation; parameters with default values may be missing.
        """
        return params

    def example_files(self) -> Sequence[str]:
        """Returns the files that contain one example each, such as the recordings named in a list."""
        return ()

    @functools.cached_property
    def fingerprints(self) -> Mapping[str, Fingerprint]:
        """Fingerprints of ``data_files`` by name; empty in inference.

        They are computed when this property is first read. A layer should read it before it reads the files, so that
        ``check_unchanged`` detects all later changes.
        """
        files = self.data_files() if self._has_targets else {}
        found = {name: fingerprint(path) for name, path in files.items()}
        return MappingProxyType({name: file for name, file in found.items() if file is not None})

    def sample_digest(self) -> str:
        """Returns a checksum over the beginnings of a fixed sample of ``example_files``."""
        return digest_of_beginnings(self.example_files())

    def check_unchanged(self, *kinds: str) -> None:
        """Raises DataError if a data file has changed since its fingerprint was taken.

        Args:
          kinds: the kinds of file to check, such as ``data`` (read repeatedly during a run); all by default.
        """
        names = self.data_files(*kinds)
        for name, file in self.fingerprints.items():
            if name in names and not file.is_current:
                raise DataError(f"{file.path} has changed since this run read it, so results would mix its old and new "
                                "contents: restore the old file, or start a new run with the new one.")

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        """Returns a copy of the parameters with other paths for ``assets()``, such as those of a checkpoint's copies.

        Args:
          params: the layer's parameters.
          paths: asset name → path of the new file; unknown names are ignored.
        """
        changed = dict(params)
        for file in named_files(cls, params):
            path = paths.get(asset_name(file)) if file.kind == ASSET else None
            if path is not None and len(file.keys) == 1:
                changed[file.keys[0]] = path
            elif path is not None:
                changed[file.keys[0]] = {**(changed.get(file.keys[0]) or {}), file.keys[1]: path}
        return changed

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference read the files given by ``--infer_files``.

        Args:
          files: at least one path from the command line; ``-`` is stdin (see ``utils.given_files``).

        Raises:
          UserError: the layer does not support ``--infer_files``, or a file does not exist.
        """
        raise UserError(f"--infer_files names {files[0]}, but the data layer {cls.__name__} does not support this "
                        "flag: name the data in the config.")

    def remarks(self) -> list[str]:
        """Returns lines about the data to print before a run, such as the share of unknown words; by default none."""
        return []

    def report_dropped(self) -> dict[str, int]:
        """Returns the number of examples that were dropped for each reason."""
        return {}


def asset_name(file: NamedFile) -> str:
    """Returns the name of a file in a checkpoint's assets, such as ``vocab_file`` or ``tokenizer_model``."""
    return "_".join(file.keys)


def _nearest(cls: type, names: set[str]) -> type:
    """Returns the first class in the method resolution order that defines one of these names."""
    return next(base for base in cls.__mro__ if names & vars(base).keys())


def _value(attribute: Any, layer: DataLayer) -> Any:
    """Returns the value of a class attribute for a layer; the attribute may be a property."""
    return attribute.__get__(layer, type(layer)) if hasattr(attribute, "__get__") else attribute


register("data_layer", base=DataLayer)
