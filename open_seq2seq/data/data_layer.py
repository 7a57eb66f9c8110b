"""The base of data layers: numbered examples, their lengths, and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, NamedFile, named_files
from open_seq2seq.config.names import register
from open_seq2seq.config.params import Param
from open_seq2seq.parts.component import Component
from open_seq2seq.utils.errors import UserError


class DataLayer(Component):
    """Base of data layers.

    A data layer knows how many examples there are, how long each is, and makes a padded
    batch of any examples asked for by number. Order, shuffling, batching, sharding and
    resuming are made from that by ``data.batching``, alike for every task.

    A batch is a dict ``{"source_tensors": [values, lengths, …], "target_tensors":
    [values, lengths, …], "ids": [batch]}`` of NumPy arrays, batch first. Under
    ``xla_buckets`` it is padded afterwards, with rows whose id is -1 (``data.static_batches``).

    Args:
      params: the layer's parameters.
      model: the model that it feeds, or None.
      name: its name in the model.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``; the parameter ``mode`` by default.

    Attributes:
      seed: the run's ``random_seed``; the trainer sets it before the first training batch is made.
    """

    seed: int = 0

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        if mode is not None:
            params = {**params, "mode": mode}
        super().__init__(params, model, name, params.get("mode", "train"))
        if self.params["shuffle"] is None:
            self._params = MappingProxyType({**self._params, "shuffle": self.mode == "train"})

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "mode": Param(["train", "eval", "infer", "interactive_infer"], "train", "Set by the model.", derived=True),
            "batch_size": Param(int, 1, "Batch size on each device; set by the model.", "examples or tokens",
                                derived=True),
            "batch_size_unit": Param(["sentences", "tokens"], "sentences", "Whether a batch is measured in sentences, "
                                     "or in padded tokens of its longer side."),
            "shuffle": Param((bool, type(None)), None, "Whether examples come in a new random order in each epoch; "
                             "by default in training only."),
            "repeat": Param(bool, True, "Accepted for old configs; training repeats, evaluation never does."),
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

        Integers: what the example takes in a padded batch, in tokens or frames. ``xla_buckets``
        needs a column for each side of a batch that has a time axis.
        """
        return np.ones(self.num_examples, np.int64)

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Makes the padded batch of the examples with these numbers ``[batch]``.

        Called from a background thread, one call at a time.
        """
        raise NotImplementedError("A data layer makes a batch by make_batch(examples).")

    def make_training_batch(self, examples: np.ndarray, epoch: int) -> dict[str, Any]:
        """Makes a batch for training in one epoch, from 0; by default the same in all epochs.

        What a layer draws at random has to follow from its ``seed``, the example and the epoch alone: then a
        resumed run draws what the uninterrupted one would have drawn.
        """
        return self.make_batch(examples)

    @property
    def input_signature(self) -> dict[str, Any]:
        """A ``tf.TensorSpec`` for each array of a batch, unknown dimensions as None."""
        raise NotImplementedError("A data layer describes its batches by the property input_signature.")

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


register("data_layer", base=DataLayer)
