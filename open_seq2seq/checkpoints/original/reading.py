"""Reads the original's checkpoints: files ``model.ckpt-N.index`` and ``model.ckpt-N.data-…`` of TensorFlow 1."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints.original.names import Conventions, Conversion, convert
from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError

_WEIGHTS = "ForwardPass/"
_FP32 = "Loss_Optimization/FP32-master-copy/"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_INDEX = ".index"
_BIASES_OF_CUDNN = re.compile(r"/bias_cudnn[_ ]\d+$")  # their sums are in the checkpoint, too


@dataclass(frozen=True)
class OriginalFiles:
    """The files of a checkpoint of the original.

    Attributes:
      prefix: their path, without ``.index`` and ``.data-…``.
    """

    prefix: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> OriginalFiles | None:
        """Returns the files at a path with or without ``.index``; None if there are none."""
        text = os.fspath(path).removesuffix(_INDEX)
        return cls(Path(text)) if os.path.isfile(text + _INDEX) else None

    @classmethod
    def newest_in(cls, folder: str | os.PathLike[str]) -> OriginalFiles | None:
        """Returns the files of the newest checkpoint in a folder; None if there is none."""
        # TensorFlow's list of a folder's checkpoints may have absolute paths, of where the folder was before.
        prefixes = [file.with_suffix("") for file in Path(folder).glob("*" + _INDEX)]
        newest = max(prefixes, key=lambda prefix: (_step_in(prefix), prefix.name), default=None)
        return None if newest is None else cls(newest)

    def __str__(self) -> str:
        return str(self.prefix)


@dataclass(frozen=True)
class OriginalCheckpoint:
    """A checkpoint of the original in memory.

    Attributes:
      step: number of updates.
      arrays: the variables of the model, by name.
      left_out: names of the variables that no model needs: those of the optimizer and of the loss scaler, the step, and
        copies of weights in FP32, whose values ``arrays`` has.
    """

    step: int
    arrays: dict[str, np.ndarray]
    left_out: list[str]


def read_original(files: OriginalFiles) -> OriginalCheckpoint:
    """Reads a checkpoint of the original.

    Raises:
      CheckpointError: it is damaged or of another program.
    """
    prefix = files.prefix
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        names = sorted(reader.get_variable_to_shape_map())
        if _OBJECTS in names or not any(name.startswith(_WEIGHTS) for name in names):
            raise CheckpointError(f"{prefix} is not a checkpoint of NVIDIA's OpenSeq2Seq, whose variables are below "
                                  f"{_WEIGHTS[:-1]}: give one of it, or the logdir of a model of this package.")
        copies = {name.removeprefix(_FP32): name for name in names if name.startswith(_FP32 + _WEIGHTS)}
        arrays = {name: reader.get_tensor(copies.get(name, name)) for name in names if name.startswith(_WEIGHTS)}
        step = int(reader.get_tensor("global_step")) if "global_step" in names else _step_in(prefix)
    except (tf.errors.OpError, RuntimeError, ValueError, LookupError) as error:  # TensorFlow raises any of them
        reason = str(getattr(error, "message", error)).partition("\n")[0]
        raise CheckpointError(f"The checkpoint {prefix} is damaged or incomplete ({reason[:200]}): copy all of its "
                              "files again.") from error
    for name, value in arrays.items():
        if not np.isfinite(value).all():
            raise CheckpointError(f"The checkpoint {prefix} cannot be used: {name} contains inf or NaN.")
    return OriginalCheckpoint(step, arrays, [name for name in names if name not in arrays])


def _step_in(prefix: Path) -> int:
    number = prefix.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def read_converted(files: OriginalFiles, model: Model) -> tuple[int, Conversion]:
    """Reads a checkpoint of the original, converts it for a model, and prints what is not needed.

    Returns:
      (number of updates, the converted weights).

    Raises:
      CheckpointError: see ``read_original`` and ``convert``.
    """
    checkpoint = read_original(files)
    shapes = {name: tuple(variable.shape) for name, variable in named_variables(model).items()}
    conventions = Conventions.of({name: getattr(model, name).params for name in model.components})
    conversion = convert(checkpoint.arrays, shapes, conventions)
    sums = [name for name in conversion.unused if _BIASES_OF_CUDNN.search(name)]
    left_out = [*checkpoint.left_out, *sums]
    if left_out:
        deco_print(f"Not needed: {len(left_out)} variables of the optimizer, its loss scaler and the like, such as "
                   f"{left_out[0]}", offset=1)
    return checkpoint.step, Conversion(conversion.weights, [name for name in conversion.unused if name not in sums])
