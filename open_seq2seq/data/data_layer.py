"""The base of data layers: numbered examples, their lengths and costs, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, DATA, LIST, NamedFile, named_files
from open_seq2seq.config.names import register
from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.batch_loader import Wanted, made_singly
from open_seq2seq.data.datasets import dataset_batches
from open_seq2seq.data.fields import fields_of, signature_of
from open_seq2seq.data.fingerprints import Fingerprint, digest_of_beginnings, fingerprint
from open_seq2seq.parts.component import Component
from open_seq2seq.utils.errors import DataError, UserError


class DataLayer(Component):
    """Base of data layers.

    A data layer knows how many examples there are, how long each is and what it costs, and makes
    a padded batch of any examples asked for by number. Order, shuffling, batching, sharding and
    resuming are made from that by ``data.batching``, alike for every task.

    A batch is a dict ``{"source_tensors": [values, lengths, …], "target_tensors":
    [values, lengths, …], "ids": [batch]}`` of NumPy arrays, batch first; what they are is declared
    by ``fields``. Under ``xla_buckets`` it is padded afterwards, with rows whose id is -1
    (``data.static_batches``).

    A layer implements ``make_batch`` (and ``make_training_batch``), called in a thread, or else
    ``make_dataset``, by ``tf.data``. Where a class and one that derives from it have different
    ones, those of the derived class are used; and so it is with ``fields`` and ``input_signature``.

    Args:
      params: the layer's parameters.
      model: the model that it feeds, or None.
      name: its name in the model.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``; the parameter ``mode`` by default.

    Attributes:
      seed: the run's ``random_seed``; the trainer sets it before the first training batch is made.
      contiguous: whether example n + 1 continues example n, as pieces of one sequence do. Such examples are
        not shuffled: row k of a batch continues in row k of a later one (``data.contiguous``). May be a property.
      counting_units: values of ``batch_size_unit`` with which each example counts as one.
      length_limit: name of the parameter that excludes long examples, for messages; None if there is none.
    """

    seed: int = 0
    contiguous: bool = False
    counting_units: Sequence[str] = ("examples", "sentences", "utterances", "images")
    length_limit: str | None = None
    _fingerprints: Mapping[str, Fingerprint] | None = None
    _is_arithmetic = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Of fields and input_signature one follows from the other, whichever the nearest class has.
        nearest = next(vars(base) for base in cls.__mro__ if {"fields", "input_signature"} & vars(base).keys())
        fields, signature = nearest.get("fields"), nearest.get("input_signature")
        if fields is not None and signature is None:
            cls.input_signature = property(  # type: ignore[assignment,method-assign]
                lambda self: signature_of(_value(fields, self)), doc=DataLayer.input_signature.__doc__)
        elif signature is not None and fields is None:
            cls.fields = property(  # type: ignore[assignment,method-assign]
                lambda self: fields_of(_value(signature, self)), doc=DataLayer.fields.__doc__)

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        if mode is not None:
            params = {**params, "mode": mode}
        super().__init__(params, model, name, params.get("mode", "train"))
        if self.params["shuffle"] is None:
            self._params = MappingProxyType({**self._params, "shuffle": self.mode == "train" and not self.contiguous})

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "mode": Param(["train", "eval", "infer", "interactive_infer"], "train", "Set by the model.", derived=True),
            "batch_size": Param(int, 1, "Batch size on each device; set by the model.", "examples or tokens",
                                derived=True, minimum=1),
            "batch_size_unit": Param(["sentences", "tokens"], "sentences", "Whether a batch is measured in sentences, "
                                     "or in padded tokens of its longer side."),
            "shuffle": Param((bool, type(None)), None, "Whether examples come in a new random order in each epoch; "
                             "by default in training only, and not where examples continue one another."),
            "repeat": Param(bool, True, "Accepted for old configs; training repeats, evaluation never does.",
                            on_change=FREE),
            "dtype": Param((tf.DType, str), tf.float32, "Arithmetic type of floating-point features."),
            "length_buckets": Param(bool, True, "Whether examples of like length are batched together."),
        }

    @property
    def num_examples(self) -> int:
        """How many examples there are, after filtering."""
        raise NotImplementedError("A data layer says how many examples it has by the property num_examples.")

    @property
    def lengths(self) -> np.ndarray:
        """Length of each example ``[num_examples]``, or of its source and target ``[num_examples, 2]``.

        Integers: what the example takes in a padded batch, in tokens or frames; 1 where there is no time.
        ``xla_buckets`` needs a column for each width that arrays of a batch are padded to (``fields``): one for each
        side that has a time axis, mostly.
        """
        return np.ones(self.num_examples, np.int64)

    @property
    def counts_examples(self) -> bool:
        """Whether ``batch_size_unit`` counts examples, so that all full batches have the same number of rows."""
        return self.params["batch_size_unit"] in self.counting_units

    @property
    def costs(self) -> np.ndarray:
        """What each example costs ``[num_examples]``, in the unit of ``batch_budget``: integers.

        A batch costs its rows times the greatest cost in it. By default an example costs 1 where
        ``batch_size_unit`` counts examples (sentences, images), and its longest side otherwise.
        """
        if self.counts_examples:
            return np.ones(self.num_examples, np.int64)
        lengths = np.asarray(self.lengths)
        return lengths if lengths.ndim == 1 else lengths.max(axis=1)

    @property
    def batch_budget(self) -> int:
        """What a batch may cost; by default the parameter ``batch_size``."""
        return int(self.params["batch_size"])

    def explain_too_costly(self, example: int) -> str:
        """Returns the message for an example that alone costs more than a batch may."""
        return self._too_costly(example, f"{int(self.costs[example])} {self.params['batch_size_unit']}",
                                self.batch_budget)

    def _too_costly(self, example: int, cost: str, budget: int) -> str:
        return (f"{self.describe_example(example)} has {cost}, padding included, but a batch holds only {budget}: "
                f"raise batch_size_per_gpu{f' or lower {self.length_limit}' if self.length_limit else ''}.")

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Makes the padded batch of the examples with these numbers ``[batch]``.

        Called from a background thread, one call at a time. By default the layer's data set makes it, as for
        evaluation.
        """
        made = self._by_dataset(examples, 0, training=False)
        if made is None:
            raise NotImplementedError("A data layer makes a batch by make_batch(examples), or its batches by "
                                      "make_dataset(plan, training).")
        return made

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Makes a batch for training in one epoch, from 0; by default the same in all epochs.

        What a layer draws at random has to follow from its ``seed``, the example and the epoch alone: then a
        resumed run draws what the uninterrupted one would have drawn.
        """
        made = self._by_dataset(examples, epoch, training=True) if self._uses_dataset() else None
        return self.make_batch(examples) if made is None else made

    def make_dataset(self, plan: tf.data.Dataset, training: bool) -> tf.data.Dataset | None:
        """Returns a data set of batches, for layers that make them by ``tf.data``; None for others.

        It has one batch for each element of the plan, in the same order: map the plan (``num_parallel_calls`` as you
        like). Each is as ``input_signature`` says, with tuples for lists, since ``tf.data`` joins the items of a list.
        Functions are traced without AutoGraph.
        What it draws at random in training follows from ``parts.randomness.example_seeds``. An error of an
        operation in it (a broken image) is reported with the example's name.

        Args:
          plan: which batches are wanted: ``{"examples": int64 [batch], "epoch": int64 []}``.
          training: whether they are for training; else the epoch is 0.
        """
        return None

    def make_batches(self, plan: Iterator[Wanted], training: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Returns an iterator over (number, batch) of the batches wanted, in order."""
        made = dataset_batches(self, plan, training) if self._uses_dataset() else None
        return made_singly(self, plan, training) if made is None else made

    @classmethod
    def _uses_dataset(cls) -> bool:
        """Whether the most derived class that makes batches does so by a data set."""
        makers = {"make_dataset", "make_batch", "make_training_batch"}
        maker = next(base for base in cls.__mro__ if makers & vars(base).keys())
        return maker is not DataLayer and "make_dataset" in vars(maker)

    def _by_dataset(self, examples: np.ndarray, epoch: int, training: bool) -> dict[str, Any] | None:
        wanted = Wanted(0, np.asarray(examples, np.int64), epoch)
        made = dataset_batches(self, iter([wanted]), training)
        return None if made is None else next(made)[1]

    @property
    def fields(self) -> dict[str, Any]:
        """A ``data.fields.Field`` for each array of a batch, nested as the batch is.

        By default it follows from ``input_signature``: the first array of a side holds values, with time on axis 1
        where that is of unknown size, and the second one their lengths.
        """
        raise NotImplementedError("A data layer describes its batches by the property fields.")

    @property
    def input_signature(self) -> dict[str, Any]:
        """A ``tf.TensorSpec`` for each array of a batch, unknown dimensions as None; follows from ``fields``."""
        raise NotImplementedError("A data layer describes its batches by the property fields.")

    def make_interactive_batch(self, inputs: list[Any]) -> dict[str, Any]:
        """Makes a batch of what a user typed or handed over in Python."""
        raise NotImplementedError(f"{type(self).__name__} takes no interactive input.")

    def describe_example(self, example: int) -> str:
        """Returns how a message names an example: its file and line, where there are such."""
        return f"Example {example}"

    def examine(self) -> list[str]:
        """Looks at every example, for ``--check``; returns lines for people.

        Raises:
          DataError: there are examples that cannot be used.
        """
        return []

    def assets(self) -> dict[str, str]:
        """Returns the files that a checkpoint needs besides the weights: name → path.

        By default those that parameters declared with ``file="asset"`` name.
        """
        return {asset_name(file): file.value for file in named_files(type(self), self.params)
                if file.kind == ASSET and file.value is not None}

    def data_files(self, *kinds: str) -> dict[str, str]:
        """Returns the files that hold the examples, or list them: name → path.

        By default those that parameters declared with ``file="data"`` or ``file="list"`` name.

        Args:
          kinds: of the files; both by default.
        """
        named: dict[str, list[str]] = {}
        for file in named_files(type(self), self.params):
            if file.kind in (kinds or (DATA, LIST)) and file.value is not None:
                named.setdefault(asset_name(file), []).append(file.value)
        return {f"{name} {number}": path for name, paths in named.items() for number, path in enumerate(paths)}

    def example_files(self) -> Sequence[str]:
        """Returns all files of which each holds one example, such as recordings, where a list names them."""
        return ()

    @property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """Fingerprints of ``data_files`` as they were when this was first asked for: before they are read, best.

        Inference has none.
        """
        if self._fingerprints is None:
            files = self.data_files() if self.mode in ("train", "eval") else {}
            found = {name: fingerprint(path) for name, path in files.items()}
            self._fingerprints = MappingProxyType({name: file for name, file in found.items() if file is not None})
        return dict(self._fingerprints)

    def sample_digest(self) -> str:
        """Returns the checksum of what some of ``example_files`` begin with, the same ones each time."""
        return digest_of_beginnings(self.example_files())

    def check_unchanged(self, *kinds: str) -> None:
        """Raises DataError when a file of the data is not as it was when its fingerprint was taken.

        Args:
          kinds: of the files: ``data`` for those that are read again and again; all by default.
        """
        names = self.data_files(*kinds)
        for name, file in self.fingerprints.items():
            if name in names and not file.is_current:
                raise DataError(f"{file.path} has changed since this run read it: results would belong neither to the "
                                "old file nor to the new one. Put the old one back, or start again with the new one.")

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        """Returns the parameters with the files of ``assets()`` taken from elsewhere, such as a checkpoint.

        Args:
          params: the layer's parameters.
          paths: asset name → path; names that the layer does not know are ignored.
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
        """Returns the parameters that make inference read the files of ``--infer_files`` instead of the config's.

        Args:
          files: as given on the command line, at least one; ``-`` is standard input
            (``open_seq2seq.utils.given_files`` helps with it).

        Raises:
          UserError: the layer reads no such files, or one of them does not exist.
        """
        raise UserError(f"--infer_files names {files[0]}, but the data layer {cls.__name__} takes no files by that "
                        "flag: give a config that names its data.")

    def report_dropped(self) -> dict[str, int]:
        """Returns how many examples were dropped, by reason."""
        return {}


def asset_name(file: NamedFile) -> str:
    """Returns what a data layer's file is called in a checkpoint's assets: ``vocab_file``, ``tokenizer_model``."""
    return "_".join(file.keys)


def _value(attribute: Any, layer: DataLayer) -> Any:
    """Returns what an attribute of a class is for one layer: a property's value, or itself."""
    return attribute.__get__(layer, type(layer)) if hasattr(attribute, "__get__") else attribute


register("data_layer", base=DataLayer)
