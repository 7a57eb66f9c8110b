"""Lambdas in configs that compute a well-known activation."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.lambdas import name_lambdas
from open_seq2seq.parts.activations import resolve_activation


@pytest.mark.parametrize("function", [
    lambda x: tf.minimum(tf.nn.relu(x), 20.0), lambda x: tf.nn.relu(x), lambda x: tf.clip_by_value(x, 0, 6),
    lambda x: x, lambda x: x * tf.sigmoid(x), lambda x: tf.nn.selu(x)])
def test_a_known_activation_gets_the_name_of_an_equal_function(function):
    section = name_lambdas({"layers": [{"activation_fn": function}], "conv_activation": (function,)})
    name = section["layers"][0]["activation_fn"]
    assert section["conv_activation"] == (name,)
    x = tf.linspace(-40.0, 40.0, 1001)
    np.testing.assert_allclose(resolve_activation(name, "x")(x), function(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("function", [
    lambda x: tf.minimum(tf.nn.relu(x), 19.0), lambda x: tf.nn.relu(x) + 1e-3, lambda x: x[:3], lambda x, y: x,
    lambda x: undefined, lambda x: tf.nn.leaky_relu(x)])  # noqa: F821
def test_other_lambdas_are_kept(function):
    assert name_lambdas({"activation_fn": function}) == {"activation_fn": function}


def test_only_lambdas_of_activations_are_replaced():
    def relu(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x)

    section = {"activation_fn": relu, "hook": lambda x: x}
    assert name_lambdas(section) == section
