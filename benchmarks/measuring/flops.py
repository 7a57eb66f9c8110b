"""Counts the FLOPs of the matrix products and convolutions in a model's forward pass.

Shapes are read while the pass runs on real batches, so padding that the model removes is not
counted. A training step is assumed to cost three forward passes, without recomputation, like the
model FLOPs of Chowdhery et al. 2022 (PaLM, https://arxiv.org/abs/2204.02311, appendix B).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest import mock

import tensorflow as tf

from benchmarks.measuring.settings import sample_batches

_BATCHES = 8
_TRAINING_FACTOR = 3  # a backward pass costs two forward passes; recomputation is not counted
_LOOPS = {"While", "StatelessWhile"}
_PRODUCTS = {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv2D", "DepthwiseConv2dNative"}
_OPAQUE = "CudnnRNN"  # contains products that cannot be counted


def count_training_flops(trainer: Any) -> tuple[float, set[str]]:
    """Counts the FLOPs of a trainer's model on batches spread over an epoch.

    Returns:
      (training FLOPs per token, frame or image; types of operations that contain uncounted products).
    """
    layer = trainer.model.data_layer
    batches = [layer.make_batch(examples) for examples in sample_batches(layer, _BATCHES)]
    flops, uncounted = count_flops(trainer.model, batches)
    return _TRAINING_FACTOR * flops / sum(trainer.model.num_objects(batch) for batch in batches), uncounted


def count_flops(model: Any, batches: Sequence[dict[str, Any]]) -> tuple[float, set[str]]:
    """Counts the FLOPs of the forward pass from batch to loss.

    Args:
      model: a ``Model`` built for training; its weights are not changed.
      batches: NumPy batches from the model's data layer.

    Returns:
      (number of FLOPs, in which a multiply-add counts as two; types of operations that contain uncounted products).
    """
    from open_seq2seq.parts.forward_pass import forward_pass

    def loss_tensors(batch: Any) -> list[tf.Tensor]:
        with forward_pass():
            terms, _ = model.loss_terms(batch, training=False)
        return [tensor for term in terms for tensor in (term.sum, term.units) if isinstance(tensor, tf.Tensor)]

    tally = Tally()
    count = tally.counting(loss_tensors, [model.data_layer.input_signature])
    return sum(float(count(batch)) for batch in batches), tally.uncounted


class Tally:
    """Builds a graph's FLOP count while the graph is traced.

    The operations in the body of a loop or of a called function cannot be counted from outside. So while the model is
    traced, ``tf.while_loop`` is replaced by a version that has the count as an additional loop variable, and functions
    become part of the graph that calls them.
    """

    def __init__(self) -> None:
        self.uncounted: set[str] = set()
        self._loops: dict[Any, tf.Tensor] = {}

    def counting(self, function: Callable[..., Sequence[Any]], signature: Sequence[Any]) -> Callable[..., tf.Tensor]:
        """Returns a function with the arguments of ``function`` that returns the FLOPs of its results, float64 ``[]``.

        Args:
          function: returns a list of tensors.
          signature: the ``tf.TensorSpec`` of each argument.
        """
        @tf.function(autograph=False, input_signature=signature)
        def count(*arguments: Any) -> tf.Tensor:
            return self._flops_behind(function(*arguments))

        before = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)  # in the graph of ``count``, this makes other functions parts of it
        try:
            with mock.patch.object(tf, "while_loop", self._make_while_loop(tf.while_loop)):
                return count.get_concrete_function()
        finally:
            tf.config.run_functions_eagerly(before)

    def _flops_behind(self, tensors: Iterable[Any]) -> tf.Tensor:
        """Returns the FLOPs needed to compute tensors of one graph, as a float64 scalar tensor of that graph."""
        total = tf.zeros([], tf.float64)
        for operation in _operations_behind(tensors):
            if operation.type in _PRODUCTS:
                total += _product_flops(operation)
            elif operation in self._loops:
                total += self._loops[operation]
            elif operation.type.startswith(_OPAQUE):
                self.uncounted.add(operation.type)
        return total

    def _make_while_loop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def while_loop(cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, **options: Any) -> Any:
            def counting_body(flops: tf.Tensor, values: Any) -> tuple[tf.Tensor, Any]:
                results = tf.nest.flatten(body(*values))
                return flops + self._flops_behind(_tensors(results)), tf.nest.pack_sequence_as(values, results)

            if shape_invariants is not None:
                options["shape_invariants"] = (tf.TensorShape([]), shape_invariants)
            flops, results = original(lambda _, values: cond(*values), counting_body,
                                      (tf.zeros([], tf.float64), loop_vars), **options)
            operation = flops.op
            while operation.type not in _LOOPS:
                operation = operation.inputs[0].op
            self._loops[operation] = flops
            return results

        return while_loop


def _product_flops(operation: Any) -> tf.Tensor:
    """Returns the FLOPs of one product or convolution, twice its multiply-adds, as a float64 scalar."""
    kind, inputs = operation.type, [_shape(tensor) for tensor in operation.inputs]
    out = tf.reduce_prod(_shape(operation.outputs[0]))
    if kind == "Einsum":
        return _einsum_flops(operation.get_attr("equation").decode(), inputs, _shape(operation.outputs[0]))
    if kind == "DepthwiseConv2dNative":
        return 2.0 * out * tf.reduce_prod(inputs[1][:2])
    if kind == "Conv2D":
        return 2.0 * out * tf.reduce_prod(inputs[1][:-1])  # kernel: ``[…, input channels per group, output channels]``
    transposed = operation.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
    return 2.0 * out * inputs[0][-2 if transposed else -1]


def _einsum_flops(equation: str, inputs: list[tf.Tensor], output: tf.Tensor) -> tf.Tensor:
    """Returns twice the product of the sizes of all labels; 0 for an einsum of only one operand."""
    if len(inputs) < 2:
        return tf.zeros([], tf.float64)
    sources, target = equation.replace(" ", "").split("->")
    sizes: dict[str, tf.Tensor] = {}
    for labels, shape in zip([*sources.split(","), target], [*inputs, output], strict=True):
        before, dots, after = labels.partition("...")
        sizes.update((label, shape[axis]) for axis, label in enumerate(before))
        sizes.update((label, shape[axis - len(after)]) for axis, label in enumerate(after))
        if dots:
            sizes["..."] = tf.reduce_prod(shape[len(before):tf.size(shape) - len(after)])
    return 2.0 * tf.reduce_prod(list(sizes.values()))


def _shape(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.shape(tensor), tf.float64)


def _tensors(values: Iterable[Any]) -> list[Any]:
    """Converts values to tensors; a tensor array becomes its flow tensor, which depends on all writes."""
    return [value.flow if isinstance(value, tf.TensorArray) else tf.convert_to_tensor(value) for value in values]


def _operations_behind(tensors: Iterable[Any]) -> list[Any]:
    reached: dict[Any, None] = {}
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        operation = waiting.pop()
        if operation not in reached:
            reached[operation] = None
            waiting += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    return list(reached)
