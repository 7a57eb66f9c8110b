import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses.guided_attention import guided_attention
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.rnn.attention import GlobalAttention
from open_seq2seq.parts.rnn.attentive import AttentiveStack
from open_seq2seq.parts.rnn.layers import Direction
from open_seq2seq.parts.rnn.location import LocationAttention
from open_seq2seq.parts.rnn.residual import ResidualLayer


def test_each_example_has_its_own_diagonal():
    weights = np.random.default_rng(0).dirichlet(np.ones(6), [2, 9]).astype(np.float32)
    steps, symbols = [9, 5], [6, 4]
    expected = [sum(weights[b, t, n] * (1 - np.exp(-(n / symbols[b] - t / steps[b]) ** 2 / (2 * 0.3 ** 2)))
                    for t in range(steps[b]) for n in range(symbols[b])) for b in range(2)]
    found = guided_attention(weights, tf.constant(steps), tf.constant(symbols), 0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    alone = guided_attention(weights[1:, :5, :4], tf.constant(steps[1:]), tf.constant(symbols[1:]), 0.3)
    np.testing.assert_allclose(alone[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("make", [lambda: LocationAttention(6, 8, 5, True),
                                  lambda: GlobalAttention("bahdanau", 6, 8, 5)], ids=["location", "bahdanau"])
def test_gradients_flow_through_the_attention_weights(make):
    random = np.random.default_rng(1)
    with creating_variables():
        stack = AttentiveStack([ResidualLayer(Direction(10, 8, "lstm"), False, 0.0, 0.0)], make(), 1, 6)
    far = random.random([5, 2, 7]).astype(np.float32)

    def loss(x, source):
        memory = stack.memory(source, tf.constant([7, 5]))
        outputs, contexts, weights = stack.fed(x, memory, False, [None], True)
        return tf.reduce_sum(3.0 * weights * far) + tf.reduce_sum(contexts ** 2) + tf.reduce_sum(outputs)

    values = [tf.constant(random.normal(size=shape), tf.float32) for shape in ([5, 2, 4], [2, 7, 6])]
    with tf.GradientTape() as tape:
        tape.watch(values)
        total = loss(*values)
    for place, gradient in enumerate(tape.gradient(total, values)):
        direction = random.normal(size=gradient.shape).astype(np.float32)
        moved = [[v + sign * 3e-3 * direction if n == place else v for n, v in enumerate(values)] for sign in (1, -1)]
        slope = (loss(*moved[0]) - loss(*moved[1])) / 6e-3
        np.testing.assert_allclose(slope, tf.reduce_sum(gradient * direction), rtol=0.01, atol=0.01)
