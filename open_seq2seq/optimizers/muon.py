"""Muon: momentum whose matrices are made orthogonal before they change the weights."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.optimizers.adaptive import Adam
from open_seq2seq.optimizers.clipping import Gradients
from open_seq2seq.optimizers.optimizer import Optimizer, Slot, Variables
from open_seq2seq.utils.errors import ConfigError

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of x, x³ and x⁵, as published
_OTHER_LAYERS = r"embedding|positions|tokens|output_layer|stop_token|decoder/(output_|projection/)?kernel$"


class Muon(Optimizer):
    """Muon (Jordan et al. 2024) for the matrices of hidden layers, and Adam for all other variables.

    With the momentum ``a = momentum·a + g``, a matrix changes by ``w -= lr · s · O(g + momentum·a)``, in which O is
    nearly the closest orthogonal matrix: five steps of a Newton-Schulz iteration move the singular values to between
    0.7 and 1.2. The factor s is ``rms_rate · sqrt(max(rows, columns))``, with which an update is about as large as
    Adam's (Liu et al. 2025), or, if ``rms_rate`` is None, the original ``sqrt(max(1, columns / rows))``; the rows of
    the matrix are inputs and its columns outputs. The kernel of a convolution is a matrix with a column for each output
    channel.

    The iteration uses the dtype of the model's matrix products. Adam updates vectors and scalars, matrices of one row
    or column, and those that ``exclude`` names: embeddings and output layers by default.
    See https://kellerjordan.github.io/posts/muon and https://arxiv.org/abs/2502.16982.
    """

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._adam = Adam(beta1=self.params["adam_beta1"], beta2=self.params["adam_beta2"],
                          epsilon=self.params["adam_epsilon"])
        try:
            self._exclude = re.compile(self.params["exclude"]) if self.params["exclude"] else None
        except re.error as error:
            raise ConfigError([f"'optimizer_params/exclude' is {self.params['exclude']!r}, which is not a valid "
                               f"regular expression: {error}."]) from error

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            "momentum": Param(float, 0.95, "Fraction of the momentum that is kept at each update.", minimum=0.0,
                              below=1.0),
            "use_nesterov": Param(bool, True, "Whether to use Nesterov momentum."),
            "ns_steps": Param(int, 5, "Number of steps of the Newton-Schulz iteration.", minimum=1),
            "rms_rate": Param((float, type(None)), 0.2, "Root mean square of an update of a matrix, divided by the "
                              "learning rate. 0.2 suits learning rates of Adam; None selects the original factor, with "
                              "rates of about 0.02.",
                              above=0.0),
            "exclude": Param((str, type(None)), _OTHER_LAYERS, "Regular expression; matrices whose names contain a "
                             "match are updated by Adam."),
            "adam_lr_ratio": Param(float, 1.0, "Factor of the learning rate for the variables that Adam updates.",
                                   minimum=0.0),
            "adam_beta1": Param(float, 0.9, "beta1 of Adam.", minimum=0.0, below=1.0),
            "adam_beta2": Param(float, 0.999, "beta2 of Adam.", minimum=0.0, below=1.0),
            "adam_epsilon": Param(float, 1e-8, "epsilon of Adam.", minimum=0.0),
        }

    def build(self, variables: Variables) -> None:
        """Creates the slots, of Muon's matrices and of Adam's variables; see the base class.

        Raises:
          ConfigError: no variable is a matrix that Muon updates.
        """
        matrices = {name: v for name, v in variables.items() if self._is_matrix(name, tuple(v.shape))}
        if not matrices:
            raise ConfigError(["'optimizer' is Muon, but none of the variables that are trained is a matrix that it "
                               "updates: choose Adam, or change 'optimizer_params/exclude'."])
        super().build(matrices)
        self._adam.build({name: variable for name, variable in variables.items() if name not in matrices})

    def state(self) -> Variables:
        return {**super().state(), **self._adam.state()}

    def num_state_values(self, name: str, shape: tuple[int, ...]) -> int:
        return math.prod(shape) if self._is_matrix(name, shape) else self._adam.num_state_values(name, shape)

    def apply(self, gradients: Gradients, variables: Variables, learning_rate: tf.Tensor,
              update_index: tf.Tensor) -> None:
        if self._slots is None:
            raise RuntimeError("The optimizer has no slots yet: call build first.")
        momenta = self._slots["momentum"]
        rest = {name: gradient for name, gradient in gradients.items() if name not in momenta}
        self._adam.apply(rest, variables, learning_rate * self.params["adam_lr_ratio"], update_index)
        groups: dict[tuple[int, int], list[str]] = {}
        for name in gradients:
            if name in momenta:
                groups.setdefault(_matrix_size(tuple(momenta[name].shape)), []).append(name)
        for size, names in groups.items():
            own = [self.prepare(gradients[name]) for name in names]
            self._update_matrices(size, own, [momenta[name] for name in names], [variables[name] for name in names],
                                  learning_rate)

    def _update_matrices(self, size: tuple[int, int], gradients: list[tf.Tensor], momenta: list[tf.Variable],
                         variables: list[tf.Variable], learning_rate: tf.Tensor) -> None:
        """Updates matrices of the same size together, by a few large operations instead of many small ones."""
        stacked, before = (tf.stack([tf.reshape(one, size) for one in given]) for given in (gradients, momenta))
        after = self.params["momentum"] * before + stacked
        direction = stacked + self.params["momentum"] * after if self.params["use_nesterov"] else after
        changes = learning_rate * self._factor(*size) * self._orthogonal(direction)
        for variable, momentum, new, change in zip(variables, momenta, tf.unstack(after), tf.unstack(changes),
                                                   strict=True):
            momentum.assign(tf.reshape(new, momentum.shape))
            variable.assign_sub(tf.reshape(change, variable.shape))

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        return {"momentum": Slot(shape)}

    def _is_matrix(self, name: str, shape: tuple[int, ...]) -> bool:
        """Returns whether Muon updates the variable."""
        if len(shape) < 2 or min(_matrix_size(shape)) < 2:
            return False
        return self._exclude is None or not self._exclude.search(name)

    def _factor(self, rows: int, columns: int) -> float:
        if self.params["rms_rate"] is None:
            return math.sqrt(max(1.0, columns / rows))
        return float(self.params["rms_rate"] * math.sqrt(max(rows, columns)))

    def _orthogonal(self, matrices: tf.Tensor) -> tf.Tensor:
        """Returns nearly orthogonal matrices with the singular vectors of the given ones, both FP32 ``[…, m, n]``."""
        a, b, c = _COEFFICIENTS
        is_wide = matrices.shape[-2] < matrices.shape[-1]
        # The largest singular value has to be at most 1. The Gram matrix G is that of the shorter side. For matrices
        # multiplied by c^¼, the step (a I + b G + c G²) X has the factor a I + b/√c G + G² = a I + G (G + b/√c I),
        # which needs two operations element by element instead of five.
        scale = c ** 0.25
        identity = np.eye(min(matrices.shape[-2:]))
        first, second = (tf.constant(factor * identity, self.product_dtype) for factor in (b / math.sqrt(c), a))
        norm = tf.norm(matrices, axis=(-2, -1), keepdims=True) + 1e-7
        x = tf.cast(matrices * (scale / norm), self.product_dtype)
        for _ in range(self.params["ns_steps"]):
            gram = tf.matmul(x, x, transpose_a=not is_wide, transpose_b=is_wide)
            polynomial = tf.matmul(gram, gram + first) + second
            x = tf.matmul(polynomial, x) if is_wide else tf.matmul(x, polynomial)
        return tf.cast(x, tf.float32) / scale


def _matrix_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns the rows and columns of a kernel with two or more axes, the last of which are the output channels."""
    return math.prod(shape[:-1]), shape[-1]
