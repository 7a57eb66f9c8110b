"""The functions of a model as graphs, which contain neither this package nor paths of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.models.model import Model
from open_seq2seq.models.serving import ServingFunction, Tensors
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass


def bare_module(model: Model, functions: Sequence[ServingFunction]) -> tf.Module:
    """Returns a module with the variables of a model and the resources of its functions, and nothing else.

    Raises:
      NoGraphForm: a function has no graph form.
    """
    module: Any = tf.Module()
    module.weights = dict(named_variables(model))
    module.resources = [resource for function in functions for resource in function.resources()]
    return module


def traced(function: Callable[[Tensors], Tensors], specs: Mapping[str, tf.TensorSpec]) -> Any:
    """Returns the concrete function of a function, traced portably, whose arguments are named as its inputs."""
    def call(**inputs: tf.Tensor) -> Tensors:
        with forward_pass(portable=True):
            return function(inputs)

    specs = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()}
    return tf.function(call, autograph=False).get_concrete_function(**specs)


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
