"""Gradient checkpointing: activations are recomputed in the backward pass instead of kept in memory.

See Chen et al. 2016, https://arxiv.org/abs/1604.06174. ``tf.recompute_grad`` is not used, because it does not restore
the state in which the forward pass was traced, such as dropout seeds and whether XLA compiles, and would update moving
statistics twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass, entered


def recomputed(function: Callable[..., tf.Tensor], *inputs: tf.Tensor) -> tf.Tensor:
    """Returns ``function(*inputs)`` without keeping intermediate results for the gradient.

    The function is computed twice. Results and gradients, including those of dropout, are the same as without
    recomputing. Memory is saved only in graphs, because an eager tape keeps all intermediate results.

    Args:
      function: the function, which is traced twice. All tensors that need a gradient, except variables, must be among
        its inputs.
      inputs: tensors; only floating-point ones have gradients.
    """
    start = current_pass().again()

    @tf.custom_gradient
    def run(*inputs: tf.Tensor) -> Any:
        def grad(dy: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> Any:
            learned = [v for v in variables if v.trainable and v.dtype.is_floating]
            again = start.again()  # a persistent tape recomputes more than once
            with entered(again):
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    copies = _copies_after(dy, inputs)
                    watched = [copy for copy in copies if copy.dtype.is_floating]
                    tape.watch([*watched, *learned])
                    if again.micro_batch is not None:
                        again.micro_batch, again.key = _copies_after(dy, [again.micro_batch, again.key])
                    result = function(*copies)
                gradients = tape.gradient(result, [*watched, *learned], dy)
            by_input, by_variable = iter(gradients[:len(watched)]), iter(gradients[len(watched):])
            by_inputs = [next(by_input) if copy.dtype.is_floating else None for copy in copies]
            if not variables:
                return by_inputs
            learned_ids = {id(v) for v in learned}
            return by_inputs, [next(by_variable) if id(v) in learned_ids else None for v in variables]

        return function(*inputs), grad

    return run(*inputs)


def run_layers(layers: Sequence[Callable[..., Any]], x: tf.Tensor, *inputs: tf.Tensor, training: bool,
               recompute: bool = False) -> tf.Tensor:
    """Applies layers to whole sequences, one after the other.

    Args:
      layers: the layers, which return (output, cache) for (x, …).
      x: input of the first layer, ``[batch, time, hidden]``.
      inputs: the other inputs of all layers.
      training: whether to apply dropout.
      recompute: whether training recomputes activations in the backward pass.
    """
    for layer in layers:
        run = functools.partial(_output, layer, training=training)
        x = recomputed(run, x, *inputs) if recompute and training else run(x, *inputs)
    return x


def _output(layer: Callable[..., Any], *inputs: tf.Tensor, training: bool) -> tf.Tensor:
    return layer(*inputs, training=training)[0]


def _copies_after(dy: tf.Tensor, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns copies of the tensors that are made only after ``dy`` is known.

    Otherwise all layers would be recomputed at once, or the recomputation would be merged with the forward pass.
    """
    if not current_pass().for_xla:
        with tf.control_dependencies([dy]):
            return [tf.identity(tensor) for tensor in tensors]
    # XLA ignores control dependencies, so the copies depend on a zero that XLA cannot simplify.
    some = tf.reduce_sum(tf.reshape(dy, [-1])[:1])
    zero = tf.where(tf.math.is_finite(some), tf.minimum(tf.abs(some), tf.zeros([], dy.dtype)), tf.zeros([], dy.dtype))
    return [tensor if tensor.dtype == tf.bool else tensor + tf.cast(zero, tensor.dtype) for tensor in tensors]
