"""The cross-entropy of WaveNet against a computation with NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.losses import WavenetLoss
from open_seq2seq.parts.wavenet import mu_law_ids


def test_the_last_samples_of_each_clip_count():
    rng = np.random.default_rng(0)
    audio, logits = rng.uniform(-1, 1, [3, 10]).astype(np.float32), rng.normal(size=[3, 6, 8]).astype(np.float32)
    labels = mu_law_ids(tf.constant(audio), 8).numpy()
    (term,) = WavenetLoss({}).compute_loss({
        "decoder_output": {"logits": tf.constant(logits)}, "ids": tf.constant([4, 7, -1]),
        "target_tensors": [tf.constant(audio), tf.constant([10, 7, 10])]})
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = [log_probs[row, place - 4, labels[row, place]] for row, length in ((0, 10), (1, 7))
                for place in range(4, length)]
    np.testing.assert_allclose([term.sum, term.units], [-np.sum(expected), len(expected)], rtol=1e-6)
    assert term.unit == "sample"
