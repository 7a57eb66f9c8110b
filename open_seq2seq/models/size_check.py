"""Checks that a model's variables fit into memory before they are created."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import tensorflow as tf

from open_seq2seq import optimizers
from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import creating_variables, described_variables
from open_seq2seq.utils.errors import ConfigError, UserError
from open_seq2seq.utils.machine import GIB, available_bytes

Shapes = dict[str, tuple[int, ...]]

# Assumed memory of a GPU in bytes, more than any GPU has, because TensorFlow does not report how much there is.
_LARGEST_GPU = 512 * GIB
_NAMED = 3  # number of variables that the error message names


def check_size(model: Model, make_parts: Callable[[], None]) -> None:
    """Checks that a model's variables fit into memory, before they are created.

    See ``check_shapes``. The check is skipped if a part cannot be created without the values of its variables.

    Args:
      model: the model with its data layer, but without its other parts.
      make_parts: function that adds the parts to the model; within this call, placeholders replace the variables.

    Raises:
      ConfigError: the variables do not fit into memory.
      UserError: the parameters of the parts are invalid.
    """
    try:
        shapes = describe_variables(model, make_parts)
    except UserError:
        raise
    except Exception:  # a part reads the values of its variables while it is created, so the shapes are unknown
        return
    check_shapes(model, shapes)


def check_shapes(model: Model, shapes: Shapes) -> None:
    """Checks that variables of these shapes fit into memory.

    In training, this includes the gradients, the variables of the optimizer and the moving average of the weights.

    Args:
      model: the model with its data layer.
      shapes: shapes of the variables by name.

    Raises:
      ConfigError: the variables do not fit into memory; the message names the largest ones.
    """
    left = _memory_left()
    needed = {what: bytes_ for what, bytes_ in _bytes_by_use(model, shapes).items() if bytes_}
    if left is None or sum(needed.values()) <= left:
        return
    largest = sorted(shapes.items(), key=lambda item: -math.prod(item[1]))[:_NAMED]
    parts = ", ".join(f"{what} {_gib(bytes_)}" for what, bytes_ in needed.items())
    raise ConfigError([
        f"The model's variables need {_gib(sum(needed.values()))} of memory ({parts}), but only {_gib(left)} are left: "
        "reduce the size of the largest ones, which are "
        + ", ".join(f"{name} {list(shape)} of {_gib(4 * math.prod(shape))}" for name, shape in largest) + "."])


def check_carried(model: Model, needed: int) -> None:
    """Checks that a model's carried states fit into memory.

    Args:
      model: the model.
      needed: size of the states on one replica in bytes.

    Raises:
      ConfigError: the states do not fit into memory.
    """
    left, needed = _memory_left(), needed * (model.params["num_cpu_towers"] or 1)
    if left is not None and needed > left:
        raise ConfigError([f"The state that the model carries from batch to batch needs {_gib(needed)} of memory, but "
                           f"only {_gib(left)} are left: reduce the batch size (batch_size_per_gpu, "
                           "eval_batch_size_per_gpu) or, in training, iter_size."])


def describe_variables(model: Model, make_parts: Callable[[], None]) -> Shapes:
    """Returns the shapes, by name, of the variables that a model's parts would create, without creating them.

    Variables that a component creates without ``weight``, such as those of Keras layers, are not included.

    Args:
      model: the model with its data layer, but without its other parts.
      make_parts: function that adds the parts to the model.

    Raises:
      UserError: the parameters of the parts are invalid.
    """
    with creating_variables(shared=True):
        make_parts()
    return described_variables(model)


def _bytes_by_use(model: Model, shapes: Shapes) -> dict[str, int]:
    """Returns the memory in bytes, by use, of FP32 variables on all CPU replicas of this process.

    The uses are ``weights`` and, in training, ``gradients``, ``optimizer`` and ``moving average``.
    """
    params, copies = model.params, 4 * (model.params["num_cpu_towers"] or 1)
    weights = sum(map(math.prod, shapes.values()))
    if model.mode != "train":
        return {"weights": copies * weights}
    slots = 0
    if params["optimizer"] is not None:
        optimizer = optimizers.make_optimizer(params["optimizer"], dict(params["optimizer_params"]))
        slots = sum(itertools.starmap(optimizer.num_state_values, shapes.items()))
    average = weights if optimizers.averages_weights(params) else 0
    return {"weights": copies * weights, "gradients": copies * weights, "optimizer": copies * slots,
            "moving average": copies * average}


def _memory_left() -> int | None:
    left = available_bytes()
    return left if left is None or not tf.config.list_physical_devices("GPU") else max(left, _LARGEST_GPU)


def _gib(number: int) -> str:
    return f"{number / GIB:,.1f} GiB" if number >= GIB / 10 else f"{number / 2 ** 20:,.1f} MiB"
