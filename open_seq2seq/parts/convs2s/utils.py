"""Activations that may halve the number of channels, and the check of the list of convolutions in a config."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import register
from open_seq2seq.config.params import shown
from open_seq2seq.parts.activations import NAMES
from open_seq2seq.utils.errors import ConfigError

Activation = Callable[[tf.Tensor], tf.Tensor]

_TRIED = 4  # number of channels of the tensor on which an activation is tested


def gated_linear_units(inputs: tf.Tensor) -> tf.Tensor:
    """Multiplies the first half of the channels by the sigmoid of the second (Dauphin et al. 2017).

    See https://arxiv.org/abs/1612.08083.

    Args:
      inputs: ``[…, 2 · channels]``.

    Returns:
      ``[…, channels]``.
    """
    values, gates = tf.split(inputs, 2, axis=-1)
    return values * tf.sigmoid(gates)


def inputs_per_output(activation: Activation | None, path: str) -> int:
    """Returns 2 if an activation halves the number of channels, as gates do, and 1 if it keeps the number.

    Args:
      activation: a function of ``[batch, time, channels]``, or None for the identity.
      path: path of the activation in the config, for messages.

    Raises:
      ConfigError: the activation fails, or neither keeps nor halves the number of channels.
    """
    if activation is None:
        return 1
    try:
        with tf.Graph().as_default():
            shape = activation(tf.zeros([1, 1, _TRIED])).shape.as_list()
    except Exception as error:  # a user's function may raise anything
        raise ConfigError([f"'{path}' is {shown(activation)}, which fails for a tensor [batch, time, channels] "
                           f"({type(error).__name__}: {shown(str(error))}): give another function."]) from error
    if shape not in ([1, 1, _TRIED], [1, 1, _TRIED // 2]):
        raise ConfigError([f"'{path}' is {shown(activation)}, which returns the shape {shape} for [1, 1, {_TRIED}]: "
                           "give a function that keeps the number of channels or halves it."])
    return _TRIED // shape[-1]


def check_layers(layers: Sequence[Any], path: str) -> list[tuple[int, int]]:
    """Checks ``conv_nchannels_kwidth`` and returns its (channels, kernel width) pairs.

    Args:
      layers: the list in the config.
      path: path of the list in the config, for messages.

    Raises:
      ConfigError: the list is empty, or an entry is not a pair of positive integers.
    """
    if not layers:
        raise ConfigError([f"'{path}' is empty: give at least one pair (channels, kernel width)."])
    problems = [f"'{path}/{number}' is {shown(entry)} but has to be a pair of positive integers: channels and kernel "
                "width." for number, entry in enumerate(layers) if not _is_pair(entry)]
    if problems:
        raise ConfigError(problems)
    return [(channels, width) for channels, width in layers]


def _is_pair(entry: Any) -> bool:
    return (isinstance(entry, (list, tuple)) and len(entry) == 2
            and all(isinstance(value, int) and not isinstance(value, bool) and value > 0 for value in entry))


register("convs2s_activation", lambda: {**NAMES, "gated_linear_units": gated_linear_units},
         wanted="gated_linear_units, another function of a tensor, or the name of one")
