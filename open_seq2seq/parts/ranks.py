"""Differentiable sums over ranks within a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass

# Function from (tensors by name, name of the reduction) to the sums of the tensors over ranks.
Reduce = Callable[[dict[str, Any], str], dict[str, Any]]


class JoinedRanks:
    """Computes sums over ranks, and numbers the reductions to give each a different name.

    Args:
      reduce: function that sums over ranks.
    """

    def __init__(self, reduce: Reduce) -> None:
        self._reduce, self._count = reduce, 0

    def sums(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the sums of the values over ranks; each call uses a new reduction name."""
        self._count += 1
        # The leading spaces avoid collisions with names of variables.
        tensors = {f" {number}": tf.convert_to_tensor(value) for number, value in enumerate(values)}
        return list(self._reduce(tensors, f"inside.{self._count}").values())


def sum_over_ranks(*values: tf.Tensor) -> Sequence[tf.Tensor]:
    """Returns the sums of FP32 tensors over all ranks; or the tensors themselves, unless the pass joins ranks.

    The gradient is summed over ranks too, because the loss of each rank depends on the values of all ranks.
    """
    joined = current_pass().ranks
    if joined is None:
        return values

    @tf.custom_gradient
    def add_up(*values: tf.Tensor) -> Any:
        def grad(*gradients: tf.Tensor) -> list[tf.Tensor]:
            return joined.sums(gradients)

        return joined.sums(values), grad

    return add_up(*values)

