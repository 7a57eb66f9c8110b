"""Sampled softmax: the distribution of the sample, and a gradient that approaches the exact one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import BasicSampledSequenceLoss, BasicSequenceLoss
from open_seq2seq.losses.sequence_loss import log_inclusion, log_uniform_ids, sampled_cross_entropy
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.output_layer import OutputProjection

VOCAB = 30


def test_ids_are_drawn_as_often_as_expected():
    drawn = log_uniform_ids(60_000, VOCAB, tf.constant([1, 2], tf.int64)).numpy()
    single = np.exp(log_inclusion(tf.range(VOCAB), 1, VOCAB))
    np.testing.assert_allclose(np.bincount(drawn, minlength=VOCAB) / 60_000, single, rtol=0.15)
    some = drawn.reshape(-1, 6)
    included = (some[:, :, np.newaxis] == np.arange(VOCAB)).any(1).mean(0)
    np.testing.assert_allclose(included, np.exp(log_inclusion(tf.range(VOCAB), 6, VOCAB)), rtol=0.1)


def test_rare_ids_of_a_large_vocabulary_are_drawn():
    """Of the 8,600 draws from the rarer half, about 7 are expected to repeat an id."""
    drawn = log_uniform_ids(200_000, 10_000_000, tf.constant([1, 2], tf.int64)).numpy()
    rare = drawn[drawn >= 5_000_000]
    assert 7_500 < len(rare) < 9_800 and len(rare) - len(np.unique(rare)) < 25


@pytest.mark.parametrize("count", [5, 20])
def test_the_expected_gradient_of_a_true_model_is_zero(count):
    """If labels are distributed as the model says, small samples do not lead it away: the rows are all labels."""
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=VOCAB) - np.log1p(np.arange(VOCAB))
    table, hidden = tf.constant(logits[:, np.newaxis], tf.float32), tf.ones([VOCAB, 1])
    probabilities = tf.nn.softmax(tf.constant(logits, tf.float32))

    def gradient(seed):
        with forward_pass(1, seed), tf.GradientTape() as tape:
            tape.watch(table)
            loss = sampled_cross_entropy(hidden, table, tf.range(VOCAB), probabilities, count)
        return tf.convert_to_tensor(tape.gradient(loss, table))[:, 0]

    gradients = tf.function(lambda: tf.map_fn(gradient, tf.range(3000, dtype=tf.int64),
                                              fn_output_signature=tf.float32), autograph=False)().numpy()
    assert np.linalg.norm(gradients.mean(0)) < 0.06 * np.linalg.norm(gradients, axis=1).mean()


def test_a_large_sample_approaches_the_exact_loss_and_gradient():
    rng = np.random.default_rng(0)
    hidden, table = (tf.constant(rng.normal(size=shape), tf.float32) for shape in ((6, 4), (VOCAB, 4)))
    labels, weights = tf.constant([0, 3, 29, 7, 7, 1]), tf.constant([1.0, 1.0, 1.0, 2.0, 0.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(table)
        logits = tf.matmul(hidden, table, transpose_b=True)
        exact = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) * weights)
    by_table = tape.gradient(exact, table)
    with forward_pass(1, tf.constant(0)), tf.GradientTape() as tape:
        tape.watch(table)
        sampled = sampled_cross_entropy(hidden, table, labels, weights, 100_000)
    np.testing.assert_allclose(sampled, exact, rtol=0.02)
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(sampled, table)), by_table, atol=0.03)


def test_evaluation_is_exact():
    rng = np.random.default_rng(0)
    hidden, table = (tf.constant(rng.normal(size=shape), tf.float32) for shape in ((2, 3, 4), (VOCAB, 4)))
    targets = [tf.constant([[1, 2, 3], [4, 5, 0]]), tf.constant([3, 2])]
    params = {"tgt_vocab_size": VOCAB, "batch_size": 2, "offset_target_by_one": False}

    def found(loss, training):
        logits = tf.einsum("bth,vh->btv", hidden, table)
        output = {"logits": logits, "projection": OutputProjection(hidden, table, training), "num_sampled": 5}
        with forward_pass(1, tf.constant(0)):
            return loss(params).compute_loss({"decoder_output": output, "target_tensors": targets})[0].sum.numpy()

    np.testing.assert_allclose(found(BasicSampledSequenceLoss, False), found(BasicSequenceLoss, False), rtol=1e-6)
    np.testing.assert_allclose(found(BasicSequenceLoss, True), found(BasicSequenceLoss, False), rtol=1e-6)
    assert abs(found(BasicSampledSequenceLoss, True) - found(BasicSequenceLoss, True)) > 1e-3
