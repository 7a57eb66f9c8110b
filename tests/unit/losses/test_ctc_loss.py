import itertools

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import CTCLoss
from open_seq2seq.parts.ctc import ctc_loss, frames_needed
from open_seq2seq.utils.errors import ConfigError


def collapse(path, blank):
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != blank)


def brute_force(logits, label):
    """Loss and gradient with respect to the logits ``[time, vocabulary]``, in float64, over all paths."""
    steps, vocab = logits.shape
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    total, counts = 0.0, np.zeros_like(probs)
    for path in itertools.product(range(vocab), repeat=steps):
        if collapse(path, vocab - 1) == tuple(label):
            probability = np.prod(probs[np.arange(steps), path])
            total += probability
            counts[np.arange(steps), path] += probability
    if total == 0.0:
        return np.inf, np.full_like(probs, np.nan)
    return -np.log(total), probs - counts / total


def loss_and_gradient(logits, labels, label_lengths, lengths, function=ctc_loss):
    @tf.function(autograph=False)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            losses = function(x, tf.constant(labels, tf.int32), tf.constant(label_lengths, tf.int32),
                              tf.constant(lengths, tf.int32))
        return losses, tape.gradient(losses, x)

    return [value.numpy() for value in run(tf.constant(logits, tf.float32))]


CASES = [([], 3), ([0], 1), ([0], 4), ([1, 1], 3), ([1, 1], 5), ([0, 1, 0], 5), ([2, 2, 1], 5), ([0, 0, 0], 5),
         ([0, 1, 2], 3), ([0], 0), ([], 0), ([1, 1], 2), ([0, 1, 2, 0], 3)]


def batch_of(cases, vocab=4, scale=1.0, padding=0.0):
    rng = np.random.default_rng(1)
    logits = np.full([len(cases), max(t for _, t in cases), vocab], padding)
    labels = np.full([len(cases), max(len(label) for label, _ in cases) + 1], 1)
    for row, (label, steps) in enumerate(cases):
        logits[row, :steps] = scale * rng.normal(size=(steps, vocab))
        labels[row, :len(label)] = label
    return logits, labels, [len(label) for label, _ in cases], [steps for _, steps in cases]


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_equals_all_paths(scale):
    logits, labels, label_lengths, lengths = batch_of(CASES, scale=scale)
    losses, gradient = loss_and_gradient(logits, labels, label_lengths, lengths)
    for row, (label, steps) in enumerate(CASES):
        loss, slope = brute_force(logits[row, :steps].astype(np.float32).astype(np.float64), label)
        np.testing.assert_allclose(losses[row], loss, rtol=1e-5, atol=2e-5)
        np.testing.assert_allclose(gradient[row, :steps], slope, atol=2e-6 * scale)
        assert not gradient[row, steps:].any()


def recursion(logits, label):
    """Loss in float64 by the forward recursion on logarithms."""
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    states = np.full(2 * len(label) + 1, logits.shape[1] - 1)
    states[1::2] = label
    skips = np.where(np.r_[True, True, states[2:] == states[:-2]], -np.inf, 0.0)
    alpha = np.full(len(states), -np.inf)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:, states]:
        one, two = np.r_[-np.inf, alpha[:-1]], np.r_[-np.inf, -np.inf, alpha[:-2]] + skips
        alpha = np.logaddexp(np.logaddexp(alpha, one), two) + frame
    return -np.logaddexp.reduce(alpha[-2:])


def slope(logits, label, frame, symbol, by=1e-5):
    """Derivative of the loss by one logit, from differences."""
    change = np.zeros_like(logits)
    change[frame, symbol] = by
    return (recursion(logits + change, label) - recursion(logits - change, label)) / (2 * by)


def test_equals_a_float64_recursion_on_long_input():
    rng = np.random.default_rng(2)
    label, logits = rng.integers(0, 11, 60), rng.normal(size=(300, 12))
    losses, gradient = loss_and_gradient(logits[None], label[None], [len(label)], [len(logits)])
    np.testing.assert_allclose(losses, [recursion(logits, label)], rtol=1e-6)
    np.testing.assert_allclose(gradient.sum(2), 0.0, atol=1e-5)
    for frame, symbol in ((0, 11), (150, int(label[30])), (299, 4)):
        assert gradient[0, frame, symbol] == pytest.approx(slope(logits, label, frame, symbol), abs=1e-5)


def test_where_probabilities_are_too_small_logarithms_do_it():
    """A model that is sure of blanks everywhere: 60 symbols of probability e^-40 each."""
    logits = np.zeros([1, 130, 3])
    logits[:, :, 2] = 40.0
    logits[:, :, :2] += np.random.default_rng(0).normal(size=(1, 130, 2))
    labels = np.tile([[0, 1]], [1, 30])
    losses, gradient = loss_and_gradient(logits, labels, [60], [130])
    logits = logits.astype(np.float32).astype(np.float64)
    assert losses[0] > 2000.0
    np.testing.assert_allclose(losses, [recursion(logits[0], labels[0])], rtol=1e-6)
    np.testing.assert_allclose(gradient.sum(2), 0.0, atol=1e-5)
    for frame in (0, 64, 129):
        assert gradient[0, frame, 2] == pytest.approx(slope(logits[0], labels[0], frame, 2), abs=1e-4)


def test_equals_tensorflow():
    logits, labels, label_lengths, lengths = batch_of([([0, 1, 1, 2], 14), ([2], 5), ([3, 3, 3], 20)], vocab=5)
    want = loss_and_gradient(logits, labels, label_lengths, lengths, lambda x, ids, sizes, steps: tf.nn.ctc_loss(
        ids, x, sizes, steps, logits_time_major=False, blank_index=-1))
    for ours, theirs in zip(loss_and_gradient(logits, labels, label_lengths, lengths), want, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_padding_changes_nothing():
    logits, labels, label_lengths, lengths = batch_of(CASES)
    losses, gradient = loss_and_gradient(logits, labels, label_lengths, lengths)
    logits = np.concatenate([logits, np.full([len(CASES), 3, 4], 5.0)], 1)
    for row, steps in enumerate(lengths):
        logits[row, steps:] = np.nan
        labels[row, label_lengths[row]:] = 0
    labels = np.concatenate([labels, np.full([len(CASES), 2], 2)], 1)
    again, slope = loss_and_gradient(logits, labels, label_lengths, lengths)
    np.testing.assert_array_equal(again, losses)
    np.testing.assert_array_equal(slope[:, :-3], gradient)
    row = 5
    alone, _ = loss_and_gradient(logits[row:row + 1, :lengths[row]], labels[row:row + 1, :label_lengths[row]],
                                 label_lengths[row:row + 1], lengths[row:row + 1])
    np.testing.assert_allclose(alone[0], losses[row], rtol=1e-6)


def test_frames_needed():
    labels = tf.constant([[1, 1, 1, 2], [0, 1, 0, 1], [2, 2, 2, 2]])
    assert frames_needed(labels, tf.constant([4, 4, 1])).numpy().tolist() == [6, 4, 1]
    assert frames_needed(tf.zeros([2, 0], tf.int32), tf.constant([0, 0])).numpy().tolist() == [0, 0]


def component(logits, labels, label_lengths, lengths, ids=None, **params):
    loss = CTCLoss(params, name="loss")
    with tf.GradientTape() as tape:
        x = tf.constant(logits, tf.float32)
        tape.watch(x)
        terms = loss.compute_loss({
            "decoder_output": {"logits": x, "src_length": tf.constant(lengths)},
            "target_tensors": [tf.constant(labels), tf.constant(label_lengths)],
            **({} if ids is None else {"ids": tf.constant(ids, tf.int64)})})
        total = sum(term.weight * term.sum for term in terms)
    return terms, tape.gradient(total, x).numpy()


def test_infeasible_and_broken_utterances_add_nothing():
    cases = [([0, 1], 4), ([1, 1], 2), ([2], 3)]
    logits, labels, label_lengths, lengths = batch_of(cases)
    logits[2, 1, 0] = np.nan
    (loss, masked), gradient = component(logits, labels, label_lengths, lengths, tgt_vocab_size=4)
    np.testing.assert_allclose(loss.sum, brute_force(logits[0], [0, 1])[0], rtol=1e-5)
    assert (float(loss.units), loss.unit) == (3.0, "utterance")
    assert (float(masked.sum), masked.weight, masked.name) == (2.0, 0.0, "masked")
    assert gradient[0].any() and not gradient[1:].any()
    (loss, masked), gradient = component(logits, labels, label_lengths, lengths, mask_nan=False)
    assert not np.isfinite(loss.sum) and not np.isfinite(gradient[1, :2]).any() and masked.sum == 0.0


def test_empty_rows_change_nothing():
    logits, labels, label_lengths, lengths = batch_of([([0, 1], 4), ([2], 3), ([1], 0)])
    (loss, masked), gradient = component(logits, labels, label_lengths, lengths, ids=[5, 3, -1])
    (alone, _), _ = component(logits[:2], labels[:2], label_lengths[:2], lengths[:2])
    np.testing.assert_allclose([loss.sum, loss.units, masked.sum], [alone.sum, 2.0, 0.0], rtol=1e-6)
    assert not gradient[2].any()


def test_the_vocabulary_has_to_fit():
    with pytest.raises(ConfigError, match="tgt_vocab_size' is 3.*4 columns"):
        component(*batch_of(CASES[:2]), tgt_vocab_size=3)
