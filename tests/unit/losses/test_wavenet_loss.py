"""The cross-entropy of WaveNet against a computation with NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.losses import WavenetLoss
from open_seq2seq.parts.sample_values import LogisticMixture, MuLaw


def test_the_last_samples_of_each_clip_count():
    rng = np.random.default_rng(0)
    audio, logits = rng.uniform(-1, 1, [3, 10]).astype(np.float32), rng.normal(size=[3, 6, 8]).astype(np.float32)
    labels = MuLaw(8).of_audio(tf.constant(audio)).numpy()
    (term,) = WavenetLoss({}).compute_loss({
        "decoder_output": {"logits": tf.constant(logits)}, "ids": tf.constant([4, 7, -1]),
        "target_tensors": [tf.constant(audio), tf.constant([10, 7, 10])]})
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = [log_probs[row, place - 4, labels[row, place]] for row, length in ((0, 10), (1, 7))
                for place in range(4, length)]
    np.testing.assert_allclose([term.sum, term.units], [-np.sum(expected), len(expected)], rtol=1e-6)
    assert term.unit == "sample"


def test_of_mixtures_the_last_samples_count_too():
    rng = np.random.default_rng(1)
    audio, parameters = rng.uniform(-1, 1, [2, 7]).astype(np.float32), rng.normal(size=[2, 5, 6]).astype(np.float32)
    mixture = LogisticMixture(2 ** 10, 2)
    (term,) = WavenetLoss({"samples": mixture}).compute_loss({
        "decoder_output": {"logits": tf.constant(parameters)}, "ids": tf.constant([0, 1]),
        "target_tensors": [tf.constant(audio), tf.constant([7, 4])]})
    errors = mixture.errors(tf.constant(parameters), tf.constant(audio[:, 2:])).numpy()
    np.testing.assert_allclose([term.sum, term.units], [errors[0].sum() + errors[1, :2].sum(), 7], rtol=1e-6)
