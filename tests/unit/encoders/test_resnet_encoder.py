import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import ResNetEncoder
from open_seq2seq.parts.component import SharedVariable, creating_variables, named_modules, named_variables
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders.keras_resnet import KerasResNet

SMALL = {"block_sizes": [1, 1], "first_num_filters": 4, "first_kernel_size": 3, "first_conv_stride": 1,
         "first_pool_size": 0}


def make(**params):
    with creating_variables(1):
        encoder = ResNetEncoder(params, name="encoder")
    rng = np.random.default_rng(0)
    for name, variable in named_variables(encoder).items():
        if "norm" in name:  # other values than zeros and ones
            variable.assign(rng.uniform(0.5, 1.5, variable.shape).astype(np.float32))
    return encoder


def images(count, side, seed=0):
    return np.random.default_rng(seed).normal(size=(count, side, side, 3)).astype(np.float32)


def encode(encoder, pixels, training=False, ids=None):
    return encoder.encode({"source_tensors": [tf.constant(pixels)], "ids": ids}, training)["outputs"]


@pytest.mark.parametrize("size,version,filters", [(18, 1, 8), (18, 2, 8), (50, 1, 4), (50, 1.5, 4), (50, 2, 4)])
def test_equals_keras(size, version, filters):
    encoder = make(resnet_size=size, version=version, first_num_filters=filters)
    keras = KerasResNet(size, version, 33, filters)
    keras.copy_from(encoder)
    pixels = images(3, 33)
    np.testing.assert_allclose(encode(encoder, pixels), keras.model(pixels), rtol=2e-3, atol=2e-4)
    # In training, both normalise by the batch and move their statistics.
    np.testing.assert_allclose(encode(encoder, pixels, True), keras.model(pixels, training=True), rtol=2e-3, atol=5e-4)
    moved = named_variables(encoder)["last_norm/moving_mean" if version == 2 else "first_norm/moving_mean"]
    layer = keras.layers["last_norm" if version == 2 else "first_norm"]
    np.testing.assert_allclose(moved, layer.moving_mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("version", [1, 2])
def test_cifar_network_equals_keras(version):
    encoder = make(resnet_size=20, version=version)
    keras = KerasResNet(20, version, 16, 16, cifar=True)
    keras.copy_from(encoder)
    np.testing.assert_allclose(encode(encoder, images(2, 16)), keras.model(images(2, 16)), rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("size,version,millions", [
    (18, 1, 11.69), (34, 1, 21.80), (50, 1, 25.557), (50, 1.5, 25.557), (50, 2, 25.549), (101, 1, 44.549),
    (152, 1, 60.193)])
def test_number_of_parameters(size, version, millions):
    """With the output layer for 1,000 classes; the figures of the published networks."""
    with creating_variables(shared=True):
        encoder = ResNetEncoder({"resnet_size": size, "version": version})
    weights = [value for module in named_modules(encoder).values() for name, value in vars(module).items()
               if isinstance(value, SharedVariable) and not name.startswith("moving")]
    total = sum(int(np.prod(weight.shape)) for weight in weights) + 1000 * (encoder.output_size + 1)
    assert total / 1e6 == pytest.approx(millions, abs=6e-3)


@pytest.mark.parametrize("version", [1, 1.5, 2])
def test_an_image_alone_is_as_in_a_batch(version):
    encoder = make(**SMALL, version=version, bottleneck=True)
    pixels = images(3, 8)
    np.testing.assert_allclose(encode(encoder, pixels)[1], encode(encoder, pixels[1:2])[0], atol=1e-5)
    assert encode(encoder, pixels[:0]).shape == (0, encoder.output_size)


def test_empty_rows_do_not_count_in_statistics():
    pixels = images(4, 8)
    first, second = make(**SMALL), make(**SMALL)
    alone = encode(first, pixels[:2], True, tf.constant([5, 3]))
    padded = encode(second, np.concatenate([pixels[:2], np.zeros_like(pixels[:2])]), True, tf.constant([5, 3, -1, -1]))
    np.testing.assert_allclose(padded[:2], alone, atol=1e-5)
    for name, variable in named_variables(first).items():
        np.testing.assert_allclose(named_variables(second)[name], variable, atol=1e-6)


def test_gradients_equal_finite_differences():
    encoder = make(**SMALL, version=1)
    pixels = tf.constant(images(2, 6))
    kernel = named_variables(encoder)["block_1/projection/kernel"]

    def total():
        return tf.reduce_sum(tf.sin(encode(encoder, pixels, True)))

    with tf.GradientTape() as tape:
        value = total()
    gradient = tape.gradient(value, kernel).numpy()
    direction = np.random.default_rng(2).normal(size=kernel.shape).astype(np.float32)
    direction /= np.linalg.norm(direction)
    old, step = kernel.numpy(), 1e-2
    values = []
    for sign in (1, -1):
        kernel.assign(old + sign * step * direction)
        values.append(float(total()))
    slope = (values[0] - values[1]) / (2 * step)
    assert slope == pytest.approx(float(np.sum(gradient * direction)), rel=2e-2, abs=1e-4)


@pytest.mark.parametrize("params,words", [
    ({}, "must set exactly one of resnet_size and block_sizes"),
    ({"resnet_size": 18, "block_sizes": [1]}, "must set exactly one of resnet_size and block_sizes"),
    ({"resnet_size": 19}, "one of"),
    ({"block_sizes": [1, 1], "block_strides": [1]}, "has 1 entries, but there are 2 groups"),
    ({"block_sizes": [1, "2"]}, "block_sizes"),
    ({"resnet_size": 18, "final_size": 2048}, "have 512 output channels"),
    ({"resnet_size": 18, "version": 3}, "version"),
])
def test_mistakes_are_explained(params, words):
    with pytest.raises(ConfigError, match=words):
        ResNetEncoder(params, name="encoder")


def test_half_precision_is_close():
    encoder = make(**SMALL)
    with creating_variables(1):
        half = ResNetEncoder({**SMALL, "dtype": "bfloat16"}, name="encoder")
    for name, variable in named_variables(half).items():
        variable.assign(named_variables(encoder)[name])
    pixels = images(2, 8)
    np.testing.assert_allclose(tf.cast(encode(half, pixels), tf.float32), encode(encoder, pixels), rtol=0.1, atol=0.1)
