"""SavedModel: graphs of functions, which contain neither this package nor paths of this machine.

TensorFlow, without this package, and TensorFlow Serving run functions of raw inputs and cores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from open_seq2seq.export.formats import Format
from open_seq2seq.models.model import Model
from open_seq2seq.models.serving import ServingFunction, Tensors
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.graphs import release_graphs


def save(model: Model, functions: Sequence[ServingFunction], folder: str, fourier_by_matrix: bool = False) -> None:
    """Writes a SavedModel with one signature for each function; the first is also ``serving_default``.

    It contains the variables of the model and the resources of the functions, and nothing else of them.

    Args:
      model: the model.
      functions: the functions.
      folder: the folder to write.
      fourier_by_matrix: see ``ForwardPass``. The matrix is a constant of each signature, often of megabytes.

    Raises:
      NoGraphForm: a function has no graph form.
    """
    module: Any = tf.Module()
    module.weights = dict(named_variables(model))
    module.resources = [resource for function in functions for resource in function.resources()]
    signatures = {function.name: portable(function, fourier_by_matrix) for function in functions}
    tf.saved_model.save(module, folder, {"serving_default": signatures[functions[0].name], **signatures})
    for traced in signatures.values():
        release_graphs(traced)


def portable(function: ServingFunction, fourier_by_matrix: bool = False) -> Any:
    """Returns a ``tf.function`` that is traced portably, whose arguments are named as the inputs of ``function``."""
    def call(inputs: Tensors) -> Tensors:
        with forward_pass(portable=True, fourier_by_matrix=fourier_by_matrix):
            return function.function(inputs)

    specs = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in function.inputs.items()}
    return tf.function(call, autograph=False, input_signature=[specs])


def for_any_number_of_rows(function: Callable[[Tensors], Tensors], searches: bool) -> Callable[[Tensors], Tensors]:
    """Returns a function that also accepts a batch without rows, which searches cannot compute, and is fast for one.

    Args:
      function: a function of tensors whose first dimension is the batch, and whose outputs have it, too.
      searches: see ``Model.searches``; single examples then have a graph of their own.
    """
    def call(inputs: Tensors) -> Tensors:
        rows = tf.shape(next(iter(inputs.values())))[0]
        filled = {name: _with_a_row(value) for name, value in inputs.items()}

        def alone() -> Tensors:
            with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
                return function(filled)

        outputs = tf.cond(rows > 1, lambda: function(filled), alone) if searches else function(filled)
        return {name: value[:rows] for name, value in outputs.items()}

    return call


def _with_a_row(value: tf.Tensor) -> tf.Tensor:
    """Returns a tensor with zeros or empty strings along each dynamic dimension of size 0."""
    for axis in (axis for axis, size in enumerate(value.shape) if size is None):
        missing = tf.maximum(1 - tf.shape(value)[axis], 0)
        sizes = tf.tensor_scatter_nd_update(tf.shape(value), [[axis]], [missing])
        value = tf.concat([value, tf.zeros(sizes, value.dtype)], axis)
    return value


def write(model: Any, functions: Sequence[ServingFunction], folder: Path) -> None:
    """Writes a SavedModel; see ``save``."""
    save(model, [dataclasses.replace(function, function=for_any_number_of_rows(function.function, model.searches))
                 for function in functions], str(folder))


def loading(function: ServingFunction, folder: str) -> list[str]:
    """Returns lines of Python that load the folder and call a function."""
    arguments = ", ".join(f"{name}=tf.constant({_example(spec)})" for name, spec in function.inputs.items())
    return ["import tensorflow as tf", "", f"model = tf.saved_model.load({folder!r})",
            f"outputs = model.signatures[{function.name!r}]({arguments})",
            *(f"print(outputs[{name!r}].numpy())" for name in function.outputs)]


def _example(spec: tf.TensorSpec) -> str:
    """Returns an expression for an example of an input."""
    value = '"…"' if spec.dtype == tf.string else "0.0" if spec.dtype.is_floating else "1"
    for _ in range(spec.shape.rank or 0):
        value = f"[{value}]"
    return value if spec.dtype == tf.string else f"{value}, tf.{spec.dtype.name}"


FORMAT = Format("savedmodel", "SavedModel", True, write, loading, "pip install tensorflow-cpu")
