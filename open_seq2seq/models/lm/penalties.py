"""Regularisation of a recurrent language model's activations (Merity et al. 2017, https://arxiv.org/abs/1708.01009)."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.losses.loss import LossTerm

PENALTIES = ("activation_regularization", "temporal_activation_regularization")
"""Names of the parameters of models that are the weights of the two penalties."""


def activation_penalty(outputs: tf.Tensor, lengths: tf.Tensor, weight: float) -> LossTerm:
    """Returns the loss term of activation regularisation (AR): ``weight`` times the mean square of the outputs.

    Args:
      outputs: outputs of the encoder after dropout, ``[batch, time, channels]``.
      lengths: ``[batch]`` int32, in tokens.
      weight: factor of the term.
    """
    squares = tf.reduce_mean(tf.square(tf.cast(outputs, tf.float32)), -1)
    held = tf.sequence_mask(lengths, tf.shape(outputs)[1], tf.float32)
    return LossTerm(tf.reduce_sum(squares * held), tf.reduce_sum(held), weight, "output", "activation penalty")


def temporal_penalty(outputs: tf.Tensor, lengths: tf.Tensor, weight: float) -> LossTerm:
    """Returns the loss term of temporal activation regularisation (TAR).

    The term is ``weight`` times the mean square of the differences between consecutive outputs.

    Args:
      outputs: outputs of the encoder before dropout, ``[batch, time, channels]``.
      lengths: ``[batch]`` int32, in tokens.
      weight: factor of the term.
    """
    outputs = tf.cast(outputs, tf.float32)
    squares = tf.reduce_mean(tf.square(outputs[:, 1:] - outputs[:, :-1]), -1)
    held = tf.sequence_mask(tf.maximum(lengths - 1, 0), tf.shape(squares)[1], tf.float32)
    return LossTerm(tf.reduce_sum(squares * held), tf.reduce_sum(held), weight, "difference", "temporal penalty")
