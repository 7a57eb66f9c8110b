"""The plain network masks what it has to."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.measuring.plain_transformer import PlainTransformer

ENCODER = {"hidden_size": 16, "encoder_layers": 2, "num_heads": 2, "filter_size": 32, "attention_dropout": 0.0,
           "relu_dropout": 0.0, "layer_postprocess_dropout": 0.0}
DECODER = {**ENCODER, "num_hidden_layers": 2}
SOURCE = tf.constant([[4, 5, 6, 7]])
TARGET = tf.constant([[8, 9, 4, 5]])


@pytest.fixture
def network():
    return PlainTransformer(ENCODER, DECODER, vocabulary=10, policy="float32")


def test_padding_changes_nothing(network):
    padded = tf.pad(SOURCE, [[0, 0], [0, 3]])
    np.testing.assert_allclose(network(padded, TARGET), network(SOURCE, TARGET), atol=1e-5)


def test_a_target_sees_those_before_it_alone(network):
    other = tf.constant([[8, 9, 7, 7]])
    first, second = network(SOURCE, TARGET).numpy(), network(SOURCE, other).numpy()
    np.testing.assert_allclose(first[:, :3], second[:, :3], atol=1e-5)
    assert np.abs(first[:, 3] - second[:, 3]).max() > 1e-3
