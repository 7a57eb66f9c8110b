"""Normalisation layers for Transformers; statistics are always FP32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param, check_params
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import sum_over_rows
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.initializers import make_named
from open_seq2seq.utils.errors import ConfigError

NORM_TYPES = ["layernorm_L2", "layernorm_L1", "batch_norm"]

# Profiles identify normalisation by this name scope.
_SCOPE = "norm"

_NORM_PARAMS = {
    "type": Param(NORM_TYPES, "layernorm_L2", "Kind of normalisation."),
    "epsilon": Param(float, None, "Number added to the variance (layernorm_L1: to the mean absolute deviation); by "
                     "default 1e-6 for layer norms and 1e-4 for batch norm.", above=0.0),
    "momentum": Param(float, 0.95, "Batch norm: fraction of the old moving statistics kept at each step.",
                      minimum=0.0, below=1.0),
    "center_scale": Param(bool, True, "Batch norm: whether to learn an offset and a scale."),
    "data_format": Param(["channels_last", "channels_first"], "channels_last",
                         "Batch norm: accepted for old configs, without effect; activations are channels-last."),
    "regularizer": Param((type, callable, str, type(None)), None, "Batch norm: regulariser of the scale.",
                         names="regularizer"),
    "regularizer_params": Param(dict, {}, "Batch norm: arguments of the regulariser."),
}


@tf.custom_gradient
def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> Any:
    """Applies layer normalisation to rows (Ba et al. 2016, https://arxiv.org/abs/1607.06450).

    The gradient is ``dx = (g − mean(g) − x̂ · mean(g · x̂)) / σ`` with ``g = γ · dy``. The means of a row are computed
    as matrix products of ``dy`` and ``dy · x̂`` with the column γ / hidden.

    Args:
      x: ``[rows, hidden]`` of any floating-point dtype.
      gamma: the scale γ, ``[hidden]`` FP32.
      beta: the offset, ``[hidden]`` FP32.
      epsilon: number added to the variance.

    Returns:
      ``[rows, hidden]`` in the dtype of ``x``.
    """
    with tf.name_scope(_SCOPE):
        wide = tf.cast(x, tf.float32)
        centered = wide - tf.reduce_mean(wide, -1, keepdims=True)
        if current_pass().for_xla:
            variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
        else:  # mean(square) would write a copy of the rows
            norm = tf.math.reduce_euclidean_norm(centered, -1, keepdims=True)
            variance = tf.square(norm) / tf.cast(tf.size(gamma), tf.float32)
        inverse = tf.math.rsqrt(variance + epsilon)
        normed = centered * inverse
        y = tf.cast(normed * gamma + beta, x.dtype)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, None]:
        with tf.name_scope(_SCOPE):
            wide_dy = tf.cast(dy, tf.float32)
            product = wide_dy * normed
            column = tf.expand_dims(gamma / tf.cast(tf.size(gamma), tf.float32), 1)
            mean, correlation = tf.matmul(wide_dy, column), tf.matmul(product, column)
            dx = (wide_dy * gamma - mean - normed * correlation) * inverse
            rows = tf.shape(dy)[0]
            return tf.cast(dx, x.dtype), sum_over_rows(product, rows), sum_over_rows(dy, rows), None

    return y, grad


class LayerNorm(Module):
    """Layer normalisation by the standard deviation (L2) or the mean absolute deviation (L1).

    Args:
      hidden_size: number of channels.
      epsilon: number added to the variance (L2) or to the mean absolute deviation (L1).
      order: 2 for L2, or 1 for L1 (Hoffer et al. 2018, https://arxiv.org/abs/1803.01814).
    """

    def __init__(self, hidden_size: int, epsilon: float = 1e-6, order: int = 2) -> None:
        super().__init__(name="layer_norm")
        self.epsilon = epsilon
        self.order = order
        self.gamma = self.weight([hidden_size], "ones")
        self.beta = self.weight([hidden_size], "zeros")

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False) -> tf.Tensor:
        """Normalises each position of ``[..., hidden]`` separately, so ``mask`` and ``training`` have no effect."""
        if self.order == 2:
            flat = tf.reshape(x, [-1, x.shape[-1]])
            y = layer_norm(flat, tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta), self.epsilon)
            return tf.reshape(y, tf.shape(x))
        with tf.name_scope(_SCOPE):
            wide = tf.cast(x, tf.float32)
            centered = wide - tf.reduce_mean(wide, -1, keepdims=True)
            deviation = tf.reduce_mean(tf.abs(centered), -1, keepdims=True) + self.epsilon
            return tf.cast(centered / deviation * self.gamma + self.beta, x.dtype)


def check_norm_params(norm_params: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Checks ``norm_params`` and returns them with defaults filled in.

    Args:
      norm_params: the parameters in the config: ``type`` and the settings of that type.
      path: path of the parameters in the config, for messages.

    Raises:
      ConfigError: keys are unknown, or values are invalid.
    """
    params, problems = check_params(norm_params, {}, _NORM_PARAMS, path)
    if problems:
        raise ConfigError(problems)
    return params


def make_norm(hidden_size: int, params: Mapping[str, Any]) -> Module:
    """Creates a normalisation layer.

    Args:
      hidden_size: number of channels.
      params: the result of ``check_norm_params``.

    Raises:
      ConfigError: the arguments of the regulariser are invalid.
    """
    if params["type"] != "batch_norm":
        epsilon = 1e-6 if params["epsilon"] is None else params["epsilon"]
        return LayerNorm(hidden_size, epsilon, order=1 if params["type"] == "layernorm_L1" else 2)
    regularizer = params["regularizer"]
    if regularizer is not None:
        regularizer = make_named(regularizer, params["regularizer_params"], "regularizer", "norm_params/regularizer")
    return BatchNorm(hidden_size, params["momentum"], 1e-4 if params["epsilon"] is None else params["epsilon"],
                     params["center_scale"], regularizer)
