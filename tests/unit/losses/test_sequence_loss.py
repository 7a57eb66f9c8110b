import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import BasicSequenceLoss, CrossEntropyWithSmoothing, PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.utils.errors import ConfigError

BATCH, TIME, VOCAB = 3, 6, 9
SIZES = {"tgt_vocab_size": VOCAB, "batch_size": BATCH}


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    ids = rng.integers(1, VOCAB, (BATCH, TIME)).astype(np.int32)
    lengths = np.array([6, 4, 2], np.int32)
    ids[np.arange(TIME) >= lengths[:, None]] = 0
    return rng.normal(size=(BATCH, TIME, VOCAB)).astype(np.float32), ids, lengths


def compute(loss, logits, ids, lengths):
    (term,) = loss.compute_loss({"decoder_output": {"logits": tf.constant(logits)},
                                 "target_tensors": [tf.constant(ids), tf.constant(lengths)]})
    return float(term.sum), float(term.units), term.unit


def crosses(logits, ids, smoothing=0.0):
    """Cross-entropies ``[batch, time]`` in float64."""
    x = logits.astype(np.float64)
    logp = x - np.log(np.exp(x).sum(-1, keepdims=True))
    q = np.full(x.shape, smoothing / (VOCAB - 1))
    np.put_along_axis(q, ids[..., None], 1 - smoothing, -1)
    return -(q * logp).sum(-1)


def entropy(smoothing):
    q = np.array([1 - smoothing] + [smoothing / (VOCAB - 1)] * (VOCAB - 1))
    return -np.sum(q * np.log(q + 1e-20))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("do_mask", [False, True])
def test_basic_sequence_loss(case, average, offset, do_mask):
    logits, ids, lengths = case
    loss = BasicSequenceLoss({**SIZES, "average_across_timestep": average, "offset_target_by_one": offset,
                              "do_mask": do_mask})
    x, labels, count = (logits[:, :-1], ids[:, 1:], lengths - 1) if offset else (logits, ids, lengths)
    mask = np.arange(labels.shape[1]) < count[:, None] if do_mask else np.ones(labels.shape)
    total, units, unit = compute(loss, logits, ids, lengths)
    np.testing.assert_allclose(total, np.sum(crosses(x, labels) * mask), rtol=1e-5)
    assert (units, unit) == ((mask.sum(), "token") if average else (BATCH, "example"))


def test_cross_entropy_with_smoothing(case):
    logits, ids, lengths = case
    mask = np.arange(TIME - 1) < lengths[:, None] - 1
    loss = CrossEntropyWithSmoothing({**SIZES, "label_smoothing": 0.2})
    total, _, _ = compute(loss, logits, ids, lengths)
    np.testing.assert_allclose(total, np.sum(crosses(logits[:, :-1], ids[:, 1:], 0.2) * mask), rtol=1e-5)
    plain = compute(CrossEntropyWithSmoothing(SIZES), *case)
    assert plain == compute(BasicSequenceLoss(SIZES), *case)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padded_cross_entropy(case, smoothing):
    logits, ids, lengths = case
    loss = PaddedCrossEntropyLossWithSmoothing({"label_smoothing": smoothing, "tgt_vocab_size": VOCAB})
    total, units, unit = compute(loss, logits, ids, lengths)
    want = np.sum((crosses(logits, ids, smoothing) - entropy(smoothing)) * (ids != 0))
    np.testing.assert_allclose(total, want, rtol=1e-5)
    assert (units, unit) == (lengths.sum(), "token")


def test_without_smoothing_both_losses_agree(case):
    basic = compute(BasicSequenceLoss({**SIZES, "offset_target_by_one": False}), *case)
    np.testing.assert_allclose(compute(PaddedCrossEntropyLossWithSmoothing({}), *case)[0], basic[0], rtol=1e-6)


@pytest.mark.parametrize("steps", [4, 8])
def test_logits_of_another_length_are_padded(case, steps):
    logits, ids, lengths = case
    fitted = np.zeros([BATCH, max(steps, TIME), VOCAB], np.float32)
    fitted[:, :min(steps, TIME)] = logits[:, :steps]
    if steps > TIME:
        fitted[:, TIME:] = 7.0
    total, units, _ = compute(PaddedCrossEntropyLossWithSmoothing({}), fitted[:, :steps], ids, lengths)
    np.testing.assert_allclose(total, np.sum(crosses(fitted[:, :TIME], ids) * (ids != 0)), rtol=1e-5)
    assert units == lengths.sum()


@pytest.mark.parametrize("loss", [BasicSequenceLoss(SIZES), PaddedCrossEntropyLossWithSmoothing({})])
def test_no_examples(loss):
    total, units, _ = compute(loss, np.zeros([0, 3, VOCAB], np.float32), np.zeros([0, 3], np.int32),
                              np.zeros([0], np.int32))
    assert total == units == 0


def test_mistakes_are_named(case):
    with pytest.raises(ConfigError, match="label_smoothing' is 1.5"):
        compute(PaddedCrossEntropyLossWithSmoothing({"label_smoothing": 1.5}, name="loss"), *case)
    with pytest.raises(ConfigError, match="tgt_vocab_size' is 20"):
        compute(PaddedCrossEntropyLossWithSmoothing({"tgt_vocab_size": 20}), *case)


@pytest.mark.parametrize("cls, options", [
    (BasicSequenceLoss, {**SIZES}), (BasicSequenceLoss, {**SIZES, "average_across_timestep": True}),
    (BasicSequenceLoss, {**SIZES, "do_mask": False}), (CrossEntropyWithSmoothing, {**SIZES, "label_smoothing": 0.1}),
    (PaddedCrossEntropyLossWithSmoothing, {"tgt_vocab_size": VOCAB, "label_smoothing": 0.1})])
def test_empty_rows_change_nothing(case, cls, options):
    logits, ids, lengths = case
    loss = cls(options)
    alone = compute(loss, logits, ids, lengths)
    padded = {"decoder_output": {"logits": tf.pad(logits, [[0, 2], [0, 0], [0, 0]], constant_values=3.0)},
              "target_tensors": [tf.pad(ids, [[0, 2], [0, 0]]), tf.pad(lengths, [[0, 2]])],
              "ids": tf.constant([4, 0, 2, -1, -1], tf.int64)}
    (term,) = loss.compute_loss(padded)
    np.testing.assert_allclose([term.sum, term.units], alone[:2], rtol=1e-6)
