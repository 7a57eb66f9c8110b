import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import CNNEncoder
from open_seq2seq.parts.component import creating_variables, named_variables, regularized_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError

LAYERS = [
    ("conv2d", {"filters": 4, "kernel_size": (3, 5), "strides": (2, 1), "activation": "relu", "name": "first"}),
    ("max_pooling2d", {"pool_size": 3, "strides": 2, "padding": "SAME"}),
    ("tf.layers.conv2d", {"filters": 6, "kernel_size": 3, "padding": "same", "use_bias": False, "activation": None}),
    ("batch_normalization", {"momentum": 0.9, "epsilon": 1e-4}),
    (tf.nn.tanh, {}),
    ("average_pooling2d", {"pool_size": (2, 2), "strides": (1, 2)}),
]
DENSE = [("dense", {"units": 5, "activation": "tanh"}), ("dropout", {"rate": 0.5}), ("dense", {"units": 3})]


def make(layers=LAYERS, fc_layers=(), shape=(13, 14, 3), **others):
    with creating_variables(1):
        encoder = CNNEncoder({"cnn_layers": layers, "fc_layers": list(fc_layers), "image_shape": shape, **others},
                             name="encoder")
    rng = np.random.default_rng(0)
    for name, variable in named_variables(encoder).items():
        variable.assign(rng.uniform(0.1, 0.6, variable.shape) * (1 if "moving" in name else rng.choice([-1, 1])))
    return encoder


def encode(encoder, pixels, training=False):
    with forward_pass(0, tf.constant(3, tf.int64)):
        return encoder.encode({"source_tensors": [tf.constant(pixels)]}, training)["outputs"]


def pixels(count=3, shape=(13, 14, 3)):
    return np.random.default_rng(1).normal(size=(count, *shape)).astype(np.float32)


@pytest.mark.parametrize("fc_layers", [(), DENSE])
def test_equals_keras(fc_layers):
    encoder = make(fc_layers=fc_layers)
    k = tf.keras.layers
    layers = [k.Conv2D(4, (3, 5), (2, 1), activation="relu"), k.MaxPool2D(3, 2, padding="same"),
              k.Conv2D(6, 3, padding="same", use_bias=False), k.BatchNormalization(epsilon=1e-4),
              k.Activation("tanh"), k.AveragePooling2D((2, 2), (1, 2))]
    layers += [k.Flatten(), k.Dense(5, "tanh"), k.Dense(3)] if fc_layers else [k.GlobalAveragePooling2D()]
    keras = tf.keras.Sequential([tf.keras.Input([13, 14, 3]), *layers])
    order = ("kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance")
    values = sorted(named_variables(encoder).items(), key=lambda item: (
        item[0].startswith("encoder/fc") or item[0].startswith("fc"), item[0].rpartition("/")[0],
        order.index(item[0].rpartition("/")[2])))
    keras.set_weights([value.numpy() for _, value in values])
    np.testing.assert_allclose(encode(encoder, pixels()), keras(pixels()), atol=2e-5)
    assert encoder.output_size == keras.output_shape[-1]


def test_an_image_alone_is_as_in_a_batch_and_empty_batches_work():
    encoder = make(fc_layers=DENSE)
    np.testing.assert_allclose(encode(encoder, pixels())[1], encode(encoder, pixels()[1:2])[0], atol=1e-5)
    assert encode(encoder, pixels()[:0]).shape == (0, 3)
    assert encode(make(), pixels()[:0]).shape == (0, 6)


def test_dropout_is_drawn_from_the_scope():
    encoder = make(fc_layers=DENSE)
    first, second = (encode(encoder, pixels(), True).numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, encode(encoder, pixels()))


def test_regulariser_and_names():
    with creating_variables(1):
        encoder = CNNEncoder({"cnn_layers": LAYERS, "fc_layers": DENSE, "image_shape": [13, 14, 3],
                              "regularizer": "l2", "regularizer_params": {"l2": 0.1}}, name="encoder")
    assert set(named_variables(encoder)) >= {"layer_0/convolution/kernel", "layer_3/norm/gamma", "fc_layer_0/kernel"}
    assert len(list(regularized_variables(encoder))) == 5


def test_whitening():
    with creating_variables(1):
        encoder = CNNEncoder({"cnn_layers": [("whitening", {"kernel_size": (2, 3), "epsilon": 1e-9})],
                              "image_shape": [13, 14, 3]}, name="encoder")
    images = tf.nn.avg_pool2d(pixels(20), 3, 1, "SAME").numpy() * [1.0, 2.0, 0.5]  # neighbours and colours differ
    encoder.whitening.fit(images)
    x = tf.constant(images, tf.float32)
    results = encoder.whitening(x, None, True)
    assert results.shape == (20, 12, 12, 36) and encoder.output_size == 36
    first, second = tf.split(tf.reshape(results, [-1, 36]), 2, axis=1)
    np.testing.assert_allclose(tf.transpose(first) @ first / len(first), np.eye(18), atol=1e-3)
    np.testing.assert_array_equal(second, -first)
    patches = tf.image.extract_patches(x, [1, 2, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
    kernel = tf.reshape(encoder.whitening.kernel, [18, 18])
    np.testing.assert_allclose(first, tf.reshape(patches, [-1, 18]) @ kernel, atol=1e-4)
    trainable = [name for name, variable in named_variables(encoder).items() if variable.trainable]
    assert trainable == ["layer_0/bias"]
    encoder.whitening.fit(np.repeat(images[..., :1], 3, axis=-1))  # grey images have moments of lower rank
    assert np.isfinite(encoder.whitening.kernel.numpy()).all()


@pytest.mark.parametrize("layers,words", [
    ([("relu", {}), ("whitening", {"kernel_size": 2})], "make it the first"),
    ([("conv3d", {"filters": 3})], "'encoder_params/cnn_layers/0' is 'conv3d', which is not a layer .*'conv2d'"),
    (["conv2d"], "must be a layer and its parameters"),
    ([("relux", {})], "neither an activation nor one of conv2d"),
    ([("conv2d", {"filters": 3})], "kernel_size"),
    ([("conv2d", {"filters": 3, "kernel_size": 3, "stride": 2})], "stride.*Did you mean 'strides'"),
    ([("conv2d", {"filters": 3, "kernel_size": (3, 3, 3)})], "must be an integer or a pair of integers"),
    ([("conv2d", {"filters": 3, "kernel_size": (3, None)})], "must be an integer or a pair of integers"),
    ([("conv2d", {"filters": 3, "kernel_size": 20})], "whose window is larger than its input of 13 × 14"),
    ([("dense", {"units": 3}), ("conv2d", {"filters": 3, "kernel_size": 1})], "needs images, but a dense layer before"),
])
def test_mistakes_are_explained(layers, words):
    with pytest.raises(ConfigError, match=words):
        make(layers)
