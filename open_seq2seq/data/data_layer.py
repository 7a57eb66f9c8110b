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

    A data layer knows the number of its examples, their lengths and costs, and makes a padded batch of examples
    given by number. ``data.batching`` derives order, shuffling, batching, sharding and resuming from that, for every
    task.

    A batch is a dict ``{"source_tensors": [values, lengths, …], "target_tensors": [values, lengths, …], "ids":
    [batch]}`` of NumPy arrays ``[batch, …]``, which ``fields`` declares. Under ``xla_buckets`` it is then padded, also
    by rows with the id -1 (``data.static_batches``).

    A layer implements ``make_batch`` (and ``make_training_batch``), which is called in a thread, or ``make_dataset``,
    which uses ``tf.data``. If a class and its base class implement different ones, those of the derived class are
    used; the same holds for ``fields`` and ``input_signature``.

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
        # The nearest class that has fields or input_signature decides which of them follows from the other.
        nearest = vars(_nearest(cls, {"fields", "input_signature"}))
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
            "batch_size_unit": Param(["sentences", "tokens"], "sentences", "Whether the batch size counts sentences, "
                                     "or padded tokens of the longer side."),
            "shuffle": Param((bool, type(None)), None, "Whether each epoch has a new random order; by default only in "
                             "training, and not if examples continue one another."),
            "repeat": Param(bool, True, "Accepted for old configs; training repeats, evaluation never does.",
                            on_change=FREE),
            "dtype": Param((tf.DType, str), tf.float32, "Arithmetic type of floating-point features."),
            "length_buckets": Param(bool, True, "Whether examples of similar length are batched together."),
        }

    @property
    def num_examples(self) -> int:
        """Number of examples, after filtering."""
        raise NotImplementedError("A data layer gives the number of its examples by the property num_examples.")

    @property
    def lengths(self) -> np.ndarray:
        """Length of each example ``[num_examples]``, or of its source and target ``[num_examples, 2]``, integers.

        The time steps of the example in a padded batch; 1 without a time axis. ``xla_buckets`` needs a column for each
        group of equally wide arrays (``fields``): mostly one for each side with a time axis.
        """
        return np.ones(self.num_examples, np.int64)

    @property
    def counts_examples(self) -> bool:
        """Whether ``batch_size_unit`` counts examples, so that all full batches have the same number of rows."""
        return self.params["batch_size_unit"] in self.counting_units

    @property
    def costs(self) -> np.ndarray:
        """Cost of each example ``[num_examples]``, integers in the unit of ``batch_budget``.

        The cost of a batch is its number of rows times the greatest cost of an example in it. By default an example
        costs 1 if ``batch_size_unit`` counts examples, and the length of its longest side otherwise.
        """
        if self.counts_examples:
            return np.ones(self.num_examples, np.int64)
        lengths = np.asarray(self.lengths)
        return lengths if lengths.ndim == 1 else lengths.max(axis=1)

    @property
    def batch_budget(self) -> int:
        """The greatest cost of a batch; by default the parameter ``batch_size``."""
        return int(self.params["batch_size"])

    def explain_too_costly(self, example: int) -> str:
        """Returns the message for an example that alone exceeds ``batch_budget``."""
        return self._too_costly(example, f"{int(self.costs[example])} {self.params['batch_size_unit']}",
                                self.batch_budget)

    def _too_costly(self, example: int, cost: str, budget: int) -> str:
        return (f"{self.describe_example(example)} has {cost}, padding included, but a batch holds only {budget}: "
                f"raise batch_size_per_gpu{f' or lower {self.length_limit}' if self.length_limit else ''}.")

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Makes the padded batch of the examples with these numbers ``[batch]``.

        It is called in a background thread, one call at a time. By default the data set for evaluation makes it.
        """
        made = self._by_dataset(examples, 0, training=False)
        if made is None:
            raise NotImplementedError("A data layer implements make_batch(examples) or make_dataset(plan, training).")
        return made

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Makes a training batch for one epoch, from 0; by default the same in all epochs.

        Random numbers may depend only on the layer's ``seed``, the example and the epoch, so that a resumed run draws
        the same as an uninterrupted one.
        """
        made = self._by_dataset(examples, epoch, training=True) if self._uses_dataset() else None
        return self.make_batch(examples) if made is None else made

    def make_dataset(self, plan: tf.data.Dataset, training: bool) -> tf.data.Dataset | None:
        """Returns a data set of batches, for layers that use ``tf.data``; None for others.

        It has one batch for each element of the plan, in the same order: map the plan, with any
        ``num_parallel_calls``. Batches have the structure of ``input_signature``, but with tuples instead of lists,
        because ``tf.data`` stacks the items of a list. Functions are traced without AutoGraph. Random numbers in
        training come from ``parts.randomness.example_seeds``. An error in an operation (such as a broken image) is
        reported with the name of the example.

        Args:
          plan: the batches to make: ``{"examples": int64 [batch], "epoch": int64 []}``.
          training: whether they are for training; otherwise the epoch is 0.
        """
        return None

    def make_batches(self, plan: Iterator[Wanted], training: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Returns an iterator over (number, batch) of the wanted batches, in order."""
        made = dataset_batches(self, plan, training) if self._uses_dataset() else None
        return made_singly(self, plan, training) if made is None else made

    @classmethod
    def _uses_dataset(cls) -> bool:
        """Whether the nearest class that makes batches does so by a data set."""
        maker = _nearest(cls, {"make_dataset", "make_batch", "make_training_batch"})
        return maker is not DataLayer and "make_dataset" in vars(maker)

    def _by_dataset(self, examples: np.ndarray, epoch: int, training: bool) -> dict[str, Any] | None:
        wanted = Wanted(0, np.asarray(examples, np.int64), epoch)
        made = dataset_batches(self, iter([wanted]), training)
        return None if made is None else next(made)[1]

    @property
    def fields(self) -> dict[str, Any]:
        """A ``data.fields.Field`` for each array of a batch, nested like the batch.

        By default derived from ``input_signature``: the first array of a side holds values, with time on axis 1 if
        its size is unknown, and the second array their lengths.
        """
        raise NotImplementedError("A data layer describes its batches by the property fields.")

    @property
    def input_signature(self) -> dict[str, Any]:
        """A ``tf.TensorSpec`` for each array of a batch, with None for unknown dimensions; derived from ``fields``."""
        raise NotImplementedError("A data layer describes its batches by the property fields.")

    def make_interactive_batch(self, inputs: list[Any]) -> dict[str, Any]:
        """Makes a batch of inputs that a user typed or passed in Python."""
        raise NotImplementedError(f"{type(self).__name__} takes no interactive input.")

    def describe_example(self, example: int) -> str:
        """Returns the name of an example for messages, such as its file and line."""
        return f"Example {example}"

    def examine(self) -> list[str]:
        """Examines every example, for ``--check``; returns lines to print.

        Raises:
          DataError: some examples cannot be used.
        """
        return []

    def assets(self) -> dict[str, str]:
        """Returns the files that a checkpoint needs besides the weights: name → path.

        By default the files of parameters declared with ``file="asset"``.
        """
        return {asset_name(file): file.value for file in named_files(type(self), self.params)
                if file.kind == ASSET and file.value is not None}

    def data_files(self, *kinds: str) -> dict[str, str]:
        """Returns the files that hold the examples, or list them: name → path.

        By default the files of parameters declared with ``file="data"`` or ``file="list"``.

        Args:
          kinds: which of these kinds; both by default.
        """
        named: dict[str, list[str]] = {}
        for file in named_files(type(self), self.params):
            if file.kind in (kinds or (DATA, LIST)) and file.value is not None:
                named.setdefault(asset_name(file), []).append(file.value)
        return {f"{name} {number}": path for name, paths in named.items() for number, path in enumerate(paths)}

    def example_files(self) -> Sequence[str]:
        """Returns the files that hold one example each, such as recordings named in a list."""
        return ()

    @property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """Fingerprints of ``data_files``, taken at the first call, which should be before they are read.

        Empty in inference.
        """
        if self._fingerprints is None:
            files = self.data_files() if self.mode in ("train", "eval") else {}
            found = {name: fingerprint(path) for name, path in files.items()}
            self._fingerprints = MappingProxyType({name: file for name, file in found.items() if file is not None})
        return dict(self._fingerprints)

    def sample_digest(self) -> str:
        """Returns the checksum of the beginnings of some of ``example_files``, always the same ones."""
        return digest_of_beginnings(self.example_files())

    def check_unchanged(self, *kinds: str) -> None:
        """Raises DataError if a data file has changed since its fingerprint was taken.

        Args:
          kinds: of the files: ``data`` for those that are read repeatedly; all by default.
        """
        names = self.data_files(*kinds)
        for name, file in self.fingerprints.items():
            if name in names and not file.is_current:
                raise DataError(f"{file.path} has changed since this run read it: results would belong neither to the "
                                "old file nor to the new one. Put the old one back, or start again with the new one.")

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        """Returns the parameters with other paths for the files of ``assets()``, such as those of a checkpoint.

        Args:
          paths: asset name → path; unknown names are ignored.
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
        """Returns the parameters with which inference reads the files of ``--infer_files``.

        Args:
          files: from the command line, at least one; ``-`` is standard input (see ``utils.given_files``).

        Raises:
          UserError: the layer cannot read such files, or one of them does not exist.
        """
        raise UserError(f"--infer_files names {files[0]}, but the data layer {cls.__name__} takes no files by that "
                        "flag: give a config that names its data.")

    def report_dropped(self) -> dict[str, int]:
        """Returns how many examples were dropped, by reason."""
        return {}


def asset_name(file: NamedFile) -> str:
    """Returns the name of a data layer's file in a checkpoint's assets: ``vocab_file``, ``tokenizer_model``."""
    return "_".join(file.keys)


def _nearest(cls: type, names: set[str]) -> type:
    """Returns the first class of the method resolution order that defines one of these names."""
    return next(base for base in cls.__mro__ if names & vars(base).keys())


def _value(attribute: Any, layer: DataLayer) -> Any:
    """Returns the value of a class attribute, possibly a property, for one layer."""
    return attribute.__get__(layer, type(layer)) if hasattr(attribute, "__get__") else attribute


register("data_layer", base=DataLayer)
