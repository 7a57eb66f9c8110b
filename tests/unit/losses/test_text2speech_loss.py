import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.losses.text2speech_loss import (
    attention_to_durations,
    backward_attention,
    beta_binomial,
    forward_sum,
    guided_attention,
)
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.rnn.attention import GlobalAttention, LocationAttention
from open_seq2seq.parts.rnn.attentive import AttentiveStack
from open_seq2seq.parts.rnn.layers import Direction, ResidualLayer


def test_each_example_has_its_own_diagonal():
    weights = np.random.default_rng(0).dirichlet(np.ones(6), [2, 9]).astype(np.float32)
    steps, symbols = [9, 5], [6, 4]
    expected = [sum(weights[b, t, n] * (1 - np.exp(-(n / symbols[b] - t / steps[b]) ** 2 / (2 * 0.3 ** 2)))
                    for t in range(steps[b]) for n in range(symbols[b])) for b in range(2)]
    found = guided_attention(weights, tf.constant(steps), tf.constant(symbols), 0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    alone = guided_attention(weights[1:, :5, :4], tf.constant(steps[1:]), tf.constant(symbols[1:]), 0.3)
    np.testing.assert_allclose(alone[0], found[1], rtol=1e-6)


STEPS, SIZES = np.array([9, 5], np.int32), np.array([6, 4], np.int32)
DURATIONS = np.array([[1, 2, 1, 2, 2, 1], [2, 1, 1, 1, 0, 0]], np.int32)


AIDS = {"durations": lambda w, steps, sizes, durations: attention_to_durations(w, durations, steps),
        "back": lambda w, steps, sizes, durations: backward_attention(w, steps, sizes),
        "sum": lambda w, steps, sizes, durations: forward_sum(w, steps, sizes)}


@pytest.mark.parametrize("function", AIDS.values(), ids=AIDS)
def test_aids_are_least_for_the_right_attention_and_padding_changes_nothing(function):
    right = np.zeros([2, 9, 6], np.float32)
    for row in range(2):
        right[row, np.arange(STEPS[row]), np.repeat(np.arange(6), DURATIONS[row])] = 1.0
    random = np.random.default_rng(0).dirichlet(np.ones(6), [2, 9]).astype(np.float32)
    random[1, :, 4:] = 0.0
    whole, numbers = tf.TensorSpec([None, None, None]), tf.TensorSpec([None], tf.int32)
    traced = tf.function(function, [whole, numbers, numbers, tf.TensorSpec([None, None], tf.int32)])
    values = [traced(weights, STEPS, SIZES, DURATIONS).numpy() for weights in (right, right[:, ::-1], random)]
    assert (values[0] < values[1]).all() and (values[0] <= values[2]).all()
    alone = traced(random[1:, :5, :4], STEPS[1:], SIZES[1:], DURATIONS[1:, :4])
    np.testing.assert_allclose(alone[0], values[2][1], rtol=1e-5)


def test_the_forward_sum_adds_all_monotonic_paths():
    weights = np.random.default_rng(1).dirichlet(np.ones(2), [1, 3]).astype(np.float32)
    prior = np.exp(beta_binomial(np.array([3]), np.array([2]), 3, 2)[0])
    np.testing.assert_allclose(prior.sum(1), 1.0, rtol=1e-5)
    values = np.concatenate([weights[0] * prior, np.full([3, 1], np.exp(-1.0))], 1)
    values /= values.sum(1, keepdims=True)
    total = sum(np.prod(values[np.arange(3), path]) for path in ((0, 0, 1), (0, 1, 1), (0, 2, 1), (2, 0, 1), (0, 1, 2)))
    np.testing.assert_allclose(forward_sum(weights, np.array([3]), np.array([2]))[0], -np.log(total), rtol=1e-4)


def test_the_prior_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    prior = np.exp(beta_binomial(np.array([7]), np.array([5]), 7, 5)[0])
    expected = [stats.betabinom(4, t, 8 - t).pmf(np.arange(5)) for t in range(1, 8)]
    np.testing.assert_allclose(prior, expected, rtol=1e-4)


def test_decaying_weights_are_halved_in_training_and_absent_in_evaluation():
    loss = Text2SpeechLoss({"guided_attention_weight": 2.0, "attention_half_life": 10.0})
    weights = np.random.default_rng(0).dirichlet(np.ones(6), [2, 9]).astype(np.float32)
    spectrogram = tf.zeros([2, 9, 3])
    inputs = {"decoder_output": {"outputs": [spectrogram, spectrogram, weights, None, None, tf.zeros([2, 9, 0])],
                                 "stop_token_prediction": tf.zeros([2, 9, 1]), "symbols": tf.constant(SIZES)},
              "target_tensors": [spectrogram, tf.zeros([2, 9]), tf.constant(STEPS)], "ids": tf.range(2)}

    def guide(batch):
        with forward_pass(0, batch):
            return {term.name: term.sum for term in loss.compute_loss(inputs)}.get("guided_attention")

    first, later = (guide(tf.constant(batch, tf.int64)) for batch in (0, 10))
    np.testing.assert_allclose(later, first / 2, rtol=1e-6)
    assert guide(None) is None


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
