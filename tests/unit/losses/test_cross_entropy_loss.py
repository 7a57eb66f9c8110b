import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.utils.errors import ConfigError

LOGITS = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
LABELS = np.array([1, 4, 0])


def term(targets, ids=None, **params):
    (found,) = CrossEntropyLoss(params).compute_loss({
        "decoder_output": {"logits": tf.constant(LOGITS)}, "target_tensors": [tf.constant(targets)],
        "ids": None if ids is None else tf.constant(ids)})
    return found


def test_is_the_mean_negative_log_likelihood():
    expected = -np.log(np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True))[np.arange(3), LABELS]
    for targets in (LABELS.astype(np.int32), np.eye(5, dtype=np.float32)[LABELS]):
        found = term(targets)
        assert float(found.sum) == pytest.approx(expected.sum(), rel=1e-5) and float(found.units) == 3.0
        assert float(term(targets, [3, -1, 0]).sum) == pytest.approx(expected[[0, 2]].sum(), rel=1e-5)


def test_smoothing_mixture_and_unused_outputs():
    logs = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    mixed = 0.7 * np.eye(5)[LABELS] + 0.3 * np.eye(5)[[0, 0, 3]]
    smooth = mixed * (0.9 - 0.1 / 4) + 0.1 / 4
    assert float(term(mixed.astype(np.float32), label_smoothing=0.1).sum) == pytest.approx(
        -(smooth * logs).sum(), rel=1e-5)
    assert float(term(np.eye(5, dtype=np.float32)[LABELS]).sum) == pytest.approx(
        float(tf.keras.losses.CategoricalCrossentropy(from_logits=True, reduction="sum")(np.eye(5)[LABELS], LOGITS)),
        rel=1e-5)
    narrow = np.eye(4, dtype=np.float32)[[1, 3, 0]]  # the decoder has an output more
    assert float(term(narrow).sum) == pytest.approx(-logs[np.arange(3), [1, 3, 0]].sum(), rel=1e-5)
    with pytest.raises(ConfigError, match="has 6 classes, but the decoder's logits have only 5"):
        term(np.eye(6, dtype=np.float32)[LABELS])
