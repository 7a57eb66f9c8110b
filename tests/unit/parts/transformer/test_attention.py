import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.transformer.attention import CrossAttention, FeedForward, SelfAttention, attend
from open_seq2seq.parts.transformer.position import causal_bias, padding_bias

HIDDEN, HEADS = 12, 3


def random(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.fixture
def attention():
    with creating_variables(5):
        return SelfAttention(HIDDEN, HEADS)


def attended(layer, x, bias, training=False):
    return layer(x, bias, layer.kernels(tf.float32, training), training)[0]


def reference(layer, x, memory, bias):
    """Multi-head attention by loops in float64."""
    q, k, v, out = (np.asarray(w, np.float64) for w in (layer.query, layer.key, layer.value, layer.output))
    depth = HIDDEN // HEADS
    result = np.zeros(x.shape)
    for b in range(x.shape[0]):
        contexts = []
        for h in range(HEADS):
            part = slice(h * depth, (h + 1) * depth)
            scores = (x[b] @ q[:, part]) @ (memory[b] @ k[:, part]).T / np.sqrt(depth) + bias[b % len(bias), 0]
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            contexts.append(weights / weights.sum(-1, keepdims=True) @ (memory[b] @ v[:, part]))
        result[b] = np.concatenate(contexts, -1) @ out
    return result


def test_self_attention_agrees_with_loops(attention):
    x = random(2, 5, HIDDEN)
    bias = padding_bias(tf.sequence_mask([5, 3], 5))
    want = reference(attention, x.numpy(), x.numpy(), bias.numpy())
    np.testing.assert_allclose(attended(attention, x, bias), want, atol=1e-5)


def test_variables_are_four_matrices(attention):
    assert set(named_variables(attention)) == {"query", "key", "value", "output"}


def test_causal_bias_hides_the_future(attention):
    x = random(1, 6, HIDDEN).numpy()
    changed = x.copy()
    changed[:, 4:] += 1.0
    first, second = (attended(attention, tf.constant(v), causal_bias(6)).numpy() for v in (x, changed))
    np.testing.assert_array_equal(first[:, :4], second[:, :4])
    assert np.abs(first[:, 4:] - second[:, 4:]).max() > 1e-3


def test_steps_equal_the_whole(attention):
    x = random(2, 3, 5, HIDDEN)  # batch, beam, time
    whole = attended(attention, tf.reshape(x, [6, 5, HIDDEN]), causal_bias(5))
    cache = attention.initial_cache(2, 3, tf.float32)
    kernels = attention.kernels(tf.float32)
    for step in range(5):
        y, cache = attention(tf.reshape(x[:, :, step], [6, 1, HIDDEN]), None, kernels, cache=cache)
        np.testing.assert_allclose(tf.reshape(y, [6, HIDDEN]), whole[:, step], atol=1e-5)
    assert cache["key"].shape == [2, 3, HEADS, 5, HIDDEN // HEADS]


def test_hypotheses_share_the_memory_of_their_sentence():
    with creating_variables(5):
        layer = CrossAttention(HIDDEN, HEADS)
    x, encoded, bias = random(2, 4, HIDDEN), random(2, 7, HIDDEN, seed=1), padding_bias(tf.sequence_mask([7, 4], 7))
    got = layer(x, layer.memory(encoded), bias, layer.kernels(tf.float32))
    np.testing.assert_allclose(got, reference(layer, x.numpy(), encoded.numpy(), bias.numpy()), atol=1e-5)


def test_dropout_keeps_the_expectation(attention):
    x = random(2, 4, HIDDEN)
    layer = SelfAttention(HIDDEN, HEADS, dropout_rate=0.3)
    for name in ("query", "key", "value", "output"):
        getattr(layer, name).assign(getattr(attention, name))
    repeated = tf.repeat(x, 2000, 0)
    with forward_pass(0, 0):
        dropped = attended(layer, repeated, None, training=True)
    mean = tf.reduce_mean(tf.reshape(dropped, [2, 2000, 4, HIDDEN]), 1)
    np.testing.assert_allclose(mean, attended(attention, x, None), atol=0.06)
    assert float(tf.math.reduce_std(dropped[:2000], 0)[0, 0]) > 0.01


def test_no_rows(attention):
    assert attended(attention, tf.zeros([0, 3, HIDDEN]), causal_bias(3)).shape == [0, 3, HIDDEN]
    assert attended(attention, tf.zeros([0, 0, HIDDEN]), causal_bias(0)).shape == [0, 0, HIDDEN]


@pytest.mark.parametrize("mask", [None, [[True, True, False], [True, False, False]]])
def test_feed_forward_agrees_with_its_formula(mask):
    with creating_variables(5):
        layer = FeedForward(HIDDEN, 20)
    layer.filter_bias.assign(random(20, seed=3))
    layer.output_bias.assign(random(HIDDEN, seed=4))
    x = random(2, 3, HIDDEN)
    want = tf.nn.relu(x @ layer.filter_kernel + layer.filter_bias) @ layer.output_kernel + layer.output_bias
    got = layer(x, layer.kernels(tf.float32, output_scale=2.0), mask=None if mask is None else tf.constant(mask))
    held = np.ones([2, 3], bool) if mask is None else np.array(mask)
    np.testing.assert_allclose(got.numpy()[held], 2 * want.numpy()[held], atol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
def test_the_gradients_of_the_products_are_tensorflows(dtype, biased):
    """To the bit, in a graph without static shapes."""
    query, key, value = (tf.cast(random(2, HEADS, steps, 4, seed=steps), dtype) for steps in (5, 7, 7))
    bias = random(2, 1, 1, 7, seed=9) if biased else None

    def plain(query, key, value):
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        return tf.matmul(tf.cast(tf.nn.softmax(scores if bias is None else scores + bias), dtype), value)

    @tf.function(input_signature=[tf.TensorSpec([None] * 4, dtype)] * 3)
    def gradients(*inputs):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(inputs)
            squares = [tf.square(y) for y in (attend(*inputs, bias), plain(*inputs))]
        return [tape.gradient(y, inputs) for y in squares]

    ours, theirs = gradients(query, key, value)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(tf.cast(one, tf.float32), tf.cast(other, tf.float32))
