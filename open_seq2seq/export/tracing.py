"""The functions of a model as graphs, which contain neither this package nor paths of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.models.model import Model
from open_seq2seq.models.serving import ServingFunction, Tensors
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.graphs import release_graphs


def save(model: Model, functions: Sequence[ServingFunction], folder: str) -> None:
    """Writes a SavedModel with one signature for each function; the first is also ``serving_default``.

    It contains the variables of the model and the resources of the functions, and nothing else of them.

    Raises:
      NoGraphForm: a function has no graph form.
    """
    module: Any = tf.Module()
    module.weights = dict(named_variables(model))
    module.resources = [resource for function in functions for resource in function.resources()]
    signatures = {function.name: portable(function) for function in functions}
    tf.saved_model.save(module, folder, {"serving_default": signatures[functions[0].name], **signatures})
    for traced in signatures.values():
        release_graphs(traced)


def portable(function: ServingFunction) -> Any:
    """Returns a ``tf.function`` that is traced portably, whose arguments are named as the inputs of ``function``."""
    def call(inputs: Tensors) -> Tensors:
        with forward_pass(portable=True):
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
