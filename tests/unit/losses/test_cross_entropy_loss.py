"""The loss of classification."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.utils.errors import ConfigError

LOGITS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
LABELS = np.array([3, 0, 1, 1, 2])


def term(targets, logits=LOGITS, ids=None, **params):
    inputs = {"decoder_output": {"logits": tf.constant(logits)}, "target_tensors": [tf.constant(targets)]}
    return CrossEntropyLoss(params).compute_loss({**inputs, "ids": ids})[0]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_it_equals_the_formula(smoothing):
    log_probs = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
    want = np.full((5, 4), smoothing / 3)
    want[np.arange(5), LABELS] = 1.0 - smoothing
    for targets in (LABELS, np.eye(4, dtype=np.float32)[LABELS]):
        found = term(targets, label_smoothing=smoothing)
        assert float(found.sum) == pytest.approx(-(want * log_probs).sum(), rel=1e-5) and float(found.units) == 5.0


def test_empty_rows_do_not_count():
    ids = tf.constant([4, -1, 2, -1, 0], tf.int64)
    found, some = term(LABELS, ids=ids), term(LABELS[::2], LOGITS[::2])
    assert float(found.sum) == pytest.approx(float(some.sum), rel=1e-6) and float(found.units) == 3.0


def test_more_classes_than_logits_are_refused():
    with pytest.raises(ConfigError, match="labels have 5 classes, but the decoder's logits have only 4"):
        term(np.eye(5, dtype=np.float32)[LABELS])


def test_logits_may_have_more_classes_than_the_labels():
    found = term(np.eye(3, dtype=np.float32)[LABELS % 3])
    assert float(found.sum) == pytest.approx(float(term(LABELS % 3).sum), rel=1e-6)


def test_mixed_labels_are_smoothed_like_labels():
    mixed = 0.7 * np.eye(4, dtype=np.float32)[LABELS] + 0.3 * np.eye(4, dtype=np.float32)[[0, 0, 3, 1, 2]]
    smooth = mixed * (0.9 - 0.1 / 3) + 0.1 / 3
    log_probs = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
    assert float(term(mixed, label_smoothing=0.1).sum) == pytest.approx(-(smooth * log_probs).sum(), rel=1e-5)
    keras = tf.keras.losses.CategoricalCrossentropy(from_logits=True, reduction="sum")(mixed, LOGITS)
    assert float(term(mixed).sum) == pytest.approx(float(keras), rel=1e-5)
