import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.transformer.embedding import SharedEmbedding
from open_seq2seq.parts.transformer.position import padding_bias, position_signal

VOCAB, HIDDEN = 11, 16


@pytest.fixture
def embedding():
    with creating_variables(2):
        return SharedEmbedding(VOCAB, HIDDEN)


def test_rows_are_scaled_and_padding_is_zero(embedding):
    ids = np.array([[3, 10, 0], [1, VOCAB, -1]])
    x = embedding.lookup(tf.constant(ids, tf.int32)).numpy()
    np.testing.assert_allclose(x[0, :2], embedding.table.numpy()[[3, 10]] * 4.0, rtol=1e-6)
    assert not np.any(x[0, 2]) and not np.any(x[1, 1:])


def test_table_is_initialised_for_unit_rows():
    with creating_variables(2):
        table = SharedEmbedding(1000, 64).table.numpy()
    assert abs(table.std() - 64 ** -0.5) < 0.002


def test_gradient_adds_up_repeated_ids_and_skips_padding(embedding):
    ids, upstream = tf.constant([[3, 3, 0, 5]]), np.random.default_rng(0).normal(size=(1, 4, HIDDEN)).astype(np.float32)
    with tf.GradientTape() as tape:
        x = embedding.lookup(ids)
    gradient = tf.convert_to_tensor(tape.gradient(x, embedding.table, upstream)).numpy()
    want = np.zeros([VOCAB, HIDDEN], np.float32)
    want[3], want[5] = 4 * (upstream[0, 0] + upstream[0, 1]), 4 * upstream[0, 3]
    np.testing.assert_allclose(gradient, want, rtol=1e-5, atol=1e-6)


def test_logits_are_products_with_the_table(embedding):
    x = np.random.default_rng(0).normal(size=(2, 3, HIDDEN)).astype(np.float32)
    np.testing.assert_allclose(embedding.logits(tf.constant(x)), x @ embedding.table.numpy().T, atol=1e-5)


def test_rows_round_up_to_eight():
    assert SharedEmbedding(VOCAB, HIDDEN, pad_to_eight=True).table.shape == [16, HIDDEN]


def test_position_signal_is_that_of_tensor2tensor():
    time, half = np.arange(50)[:, None], HIDDEN // 2
    rates = 1e4 ** (-np.arange(half) / (half - 1))
    want = np.concatenate([np.sin(time * rates), np.cos(time * rates)], 1)
    np.testing.assert_allclose(position_signal(tf.range(50), HIDDEN), want, atol=1e-4)
    assert position_signal(tf.range(3), 5).shape == [3, 5]


def test_padding_bias():
    np.testing.assert_array_equal(padding_bias(tf.constant([[True, False]])), [[[[0.0, -1e9]]]])
