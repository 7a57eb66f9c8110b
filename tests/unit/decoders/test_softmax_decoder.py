"""The decoder of classification."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import SoftmaxDecoder
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.pooling import POOLINGS
from open_seq2seq.utils.errors import ConfigError

SIZES = {"num_classes": 3, "hidden_size": 4}
HIDDEN = np.random.default_rng(0).normal(size=(4, 7, 4)).astype(np.float32)
LENGTHS = [7, 3, 1, 0]


def encoded(hidden=HIDDEN, lengths=LENGTHS, dtype=tf.float32):
    return {"encoder_output": {"outputs": tf.constant(hidden, dtype), "outputs_length": tf.constant(lengths)}}


def by_numpy(name, row, length):
    valid = row[:length]
    if not length:
        return np.zeros(row.shape[1])
    return {"mean": valid.mean(axis=0), "sqrtn": valid.sum(axis=0) / length ** 0.5, "max": valid.max(axis=0),
            "first": valid[0], "last": valid[-1]}[name]


@pytest.mark.parametrize("pooling", [*POOLINGS, ["max", "mean", "last"]])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_pooling_and_a_linear_layer(pooling, dtype):
    decoder = SoftmaxDecoder({**SIZES, "pooling": pooling, "dtype": dtype})
    decoder.bias.assign([0.5, -1.0, 2.0])
    hidden = tf.cast(tf.constant(HIDDEN, tf.as_dtype(dtype)), tf.float32).numpy()
    result = decoder.decode(encoded(dtype=tf.as_dtype(dtype)))
    names = [pooling] if isinstance(pooling, str) else pooling
    vectors = [np.concatenate([by_numpy(name, row, n) for name in names])
               for row, n in zip(hidden, LENGTHS, strict=True)]
    want = np.stack(vectors) @ decoder.kernel.numpy() + decoder.bias.numpy()
    assert result["logits"].dtype == tf.float32
    np.testing.assert_allclose(result["logits"], want, atol=1e-5 if dtype == "float32" else 0.05)
    np.testing.assert_allclose(result["outputs"][0], tf.nn.softmax(result["logits"]), atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_does_not_matter(pooling):
    decoder = SoftmaxDecoder({**SIZES, "pooling": pooling})
    other = HIDDEN.copy()
    for row, length in zip(other, LENGTHS, strict=True):
        row[length:] = np.nan
    together = decoder.decode(encoded(other))["logits"].numpy()
    np.testing.assert_array_equal(together, decoder.decode(encoded())["logits"])
    alone = decoder.decode(encoded(HIDDEN[1:2, :3], [3]))["logits"]
    np.testing.assert_allclose(alone[0], together[1], atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_of_padding_are_zero(pooling):
    decoder, hidden = SoftmaxDecoder({**SIZES, "pooling": pooling}), tf.constant(HIDDEN)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        inputs = {"encoder_output": {"outputs": hidden, "outputs_length": tf.constant(LENGTHS)}}
        total = tf.reduce_sum(decoder.decode(inputs)["logits"] ** 2)
    gradient = tape.gradient(total, hidden).numpy()
    assert np.isfinite(gradient).all() and gradient[0].any()
    for row, length in zip(gradient, LENGTHS, strict=True):
        assert not row[length:].any()


def test_dropout_is_of_training_only():
    decoder = SoftmaxDecoder({**SIZES, "dropout": 0.5})
    with forward_pass(1, tf.constant(0)):
        dropped = decoder.decode(encoded(), training=True)["logits"]
    plain = decoder.decode(encoded())["logits"]
    assert np.abs(dropped - plain).max() > 1e-3


def test_outputs_without_time_are_not_pooled():
    decoder = SoftmaxDecoder(SIZES)
    logits = decoder.decode({"encoder_output": {"outputs": tf.constant(HIDDEN[:, 0])}})["logits"]
    np.testing.assert_allclose(logits, HIDDEN[:, 0] @ decoder.kernel.numpy(), atol=1e-5)


@pytest.mark.parametrize(("params", "message"), [
    ({"pooling": "sum"}, "pooling' is 'sum', but must be one of mean, sqrtn, max, first, last"),
    ({"pooling": []}, "must be one of"),
    ({"hidden_size": None}, "hidden_size' is missing"),
    ({"hidden_size": 5}, "hidden_size' is 5, but the encoder's outputs have 4 channels"),
    ({"num_classes": 1}, "num_classes"),
])
def test_mistakes(params, message):
    with pytest.raises(ConfigError, match=message):
        SoftmaxDecoder({**SIZES, **params}).decode(encoded())
