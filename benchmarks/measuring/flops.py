"""Counts the FLOPs of the matrix products and convolutions in a model's forward pass.

Shapes are read while the pass runs on real batches, so padding that the model removes is not
counted. A training step is assumed to cost three forward passes, without recomputation, like the
model FLOPs of Chowdhery et al. 2022 (PaLM, https://arxiv.org/abs/2204.02311, appendix B).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import tensorflow as tf

from benchmarks.measuring.utilization import FlopCount

_LOOPS = {"While", "StatelessWhile"}
_WITH_KERNEL = {"Conv2D", "Conv3D"}
_BACKWARD_CONVOLUTIONS = {"Conv2DBackpropInput", "Conv3DBackpropInputV2"}  # transposed convolutions
_MATMULS = {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}
PRODUCTS = _MATMULS | _WITH_KERNEL | _BACKWARD_CONVOLUTIONS | {"Einsum", "DepthwiseConv2dNative"}
# Kernels with internal products that cannot be counted.
_OPAQUE = ("CudnnRNN", "BlockLSTM", "LSTMBlockCell", "GRUBlockCell")


def count_flops(model: Any, batches: Sequence[dict[str, Any]]) -> FlopCount:
    """Counts the FLOPs of the forward pass from batch to loss.

    Args:
      model: a ``Model`` built for training; its weights are not changed.
      batches: NumPy batches from the model's data layer.
    """
    from open_seq2seq.parts.precision import weight_cast_scope

    tally = Tally()

    @tf.function(autograph=False, input_signature=[model.data_layer.input_signature])
    def count(batch: Any) -> tf.Tensor:
        with weight_cast_scope(), tally.watching_loops():
            terms, _ = model.loss_terms(batch, training=False)
        return tally.flops_behind([tensor for term in terms for tensor in (term.sum, term.units)
                                   if isinstance(tensor, tf.Tensor)])

    flops = sum(float(count(batch)) for batch in batches)
    return FlopCount(flops, sum(model.num_objects(batch) for batch in batches), tuple(sorted(tally.uncounted)))


class Tally:
    """Builds a graph's FLOP count while the graph is traced.

    The operations in the body of a loop cannot be counted from outside the loop. So while the model is
    traced, ``tf.while_loop`` is replaced by a version that has the count as an additional loop variable.
    """

    def __init__(self) -> None:
        self.uncounted: set[str] = set()
        self._loops: dict[Any, tf.Tensor] = {}

    @contextlib.contextmanager
    def watching_loops(self) -> Iterator[None]:
        """Context manager within which loops count the FLOPs of their bodies."""
        with mock.patch.object(tf, "while_loop", self._make_while_loop(tf.while_loop)):
            yield

    def flops_behind(self, tensors: Iterable[Any]) -> tf.Tensor:
        """Returns the FLOPs needed to compute tensors of one graph, as a float64 scalar tensor of that graph."""
        total = tf.zeros([], tf.float64)
        for operation in _operations_behind(tensors):
            if operation.type in PRODUCTS:
                total += product_flops(operation)
            elif operation in self._loops:
                total += self._loops[operation]
            elif operation.type.startswith(_OPAQUE) or _hides_products(operation):
                self.uncounted.add(operation.type)
        return total

    def _make_while_loop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def while_loop(cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, **options: Any) -> Any:
            def counting_body(flops: tf.Tensor, values: Any) -> tuple[tf.Tensor, Any]:
                results = tf.nest.flatten(body(*values))
                return flops + self.flops_behind(_tensors(results)), tf.nest.pack_sequence_as(values, results)

            if shape_invariants is not None:
                options["shape_invariants"] = (tf.TensorShape([]), shape_invariants)
            flops, results = original(lambda _, values: cond(*values), counting_body,
                                      (tf.zeros([], tf.float64), loop_vars), **options)
            if not tf.executing_eagerly():
                operation = flops.op
                while operation.type not in _LOOPS:
                    operation = operation.inputs[0].op
                self._loops[operation] = flops
            return results

        return while_loop


def product_flops(operation: Any) -> tf.Tensor:
    """Returns the FLOPs of one product or convolution, twice its multiply-adds, as a float64 scalar."""
    kind, inputs = operation.type, [_shape(tensor) for tensor in operation.inputs]
    out = tf.reduce_prod(_shape(operation.outputs[0]))
    if kind == "Einsum":
        return _einsum_flops(operation.get_attr("equation").decode(), inputs, _shape(operation.outputs[0]))
    if kind == "DepthwiseConv2dNative":
        return 2.0 * out * tf.reduce_prod(inputs[1][:2])
    if kind in _WITH_KERNEL:
        return 2.0 * out * tf.reduce_prod(inputs[1][:-1])  # kernel: ``[…, input channels per group, output channels]``
    if kind in _BACKWARD_CONVOLUTIONS:
        return 2.0 * tf.reduce_prod(inputs[2]) * tf.reduce_prod(inputs[1][:-1])
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
        sizes.update((label, shape[place]) for place, label in enumerate(before))
        sizes.update((label, shape[place - len(after)]) for place, label in enumerate(after))
        if dots:
            sizes["..."] = tf.reduce_prod(shape[len(before):tf.size(shape) - len(after)])
    total = tf.constant(2.0, tf.float64)
    for size in sizes.values():
        total *= size
    return total


def _shape(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.shape(tensor), tf.float64)


def _tensors(values: Iterable[Any]) -> list[Any]:
    """Converts values to tensors; a tensor array becomes its flow tensor, which depends on all writes."""
    return [value.flow if isinstance(value, tf.TensorArray) else tf.convert_to_tensor(value) for value in values]


def _operations_behind(tensors: Iterable[Any]) -> list[Any]:
    seen: dict[Any, None] = {}
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen[operation] = None
            waiting += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    return list(seen)


def _hides_products(operation: Any) -> bool:
    """Returns whether a function that the operation calls contains products, directly or in functions it calls."""
    names = _called(operation.node_def)
    if not names:
        return False
    library = {function.signature.name: function for function in operation.graph.as_graph_def().library.function}
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name in seen or name not in library:
            continue
        seen.add(name)
        for node in library[name].node_def:
            if node.op in PRODUCTS or node.op.startswith(_OPAQUE):
                return True
            names += _called(node)
    return False


def _called(node: Any) -> list[str]:
    return [function.name for value in node.attr.values() for function in (value.func, *value.list.func)
            if function.name]
