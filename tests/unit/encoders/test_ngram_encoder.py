"""The encoder of n-grams: the sums that it returns, compared with sums over tuples of ids."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import NgramEncoder
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass

IDS = [[5, 6, 7, 5, 6, 1], [5, 6, 1, 0, 0, 0], [9, 1, 0, 0, 0, 0]]
LENGTHS = [6, 3, 2]


def make(**params):
    encoder = NgramEncoder({"src_vocab_size": 10, "embedding_size": 4, "buckets": 5000, "embedding_scale": 1.0,
                            **params}, name="encoder")
    table = encoder.embedding
    table.assign(np.random.default_rng(0).normal(size=table.shape))
    return encoder


def encode(encoder, ids, lengths, training=False):
    sources = [tf.constant(ids, tf.int32), tf.constant(lengths, tf.int32)]
    return encoder.encode({"source_tensors": sources}, training)["outputs"].numpy()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_each_ngram_has_one_embedding_wherever_it_is(order):
    encoder = make(max_ngram=order)
    table = encoder.embedding.numpy()
    outputs = encode(encoder, IDS, LENGTHS)
    if order == 1:
        np.testing.assert_array_equal(outputs, np.where(np.arange(6) < np.c_[LENGTHS], table.T[:, IDS], 0).transpose(
            1, 2, 0))
        return
    shorter = NgramEncoder({**encoder.params, "max_ngram": order - 1}, name="encoder")
    shorter.embedding.assign(table[:shorter.embedding.shape[0]])
    alone = outputs - encode(shorter, IDS, LENGTHS)  # the embeddings of the n-grams of this order
    embeddings = {}
    for row, ids, length in zip(alone, IDS, LENGTHS, strict=True):
        assert not row[:order - 1].any() and not row[length:].any()
        for end in range(order, length + 1):
            row_of_table = np.abs(table - row[end - 1]).max(axis=1).argmin()
            np.testing.assert_allclose(table[row_of_table], row[end - 1], atol=1e-5)
            assert embeddings.setdefault(tuple(ids[end - order:end]), row_of_table) == row_of_table
    assert len(set(embeddings.values())) == len(embeddings) == {2: 5, 3: 4}[order] and min(embeddings.values()) >= 10


def test_a_text_alone_is_as_in_a_batch():
    encoder = make(max_ngram=3)
    together = encode(encoder, IDS, LENGTHS)
    for row, ids, length in zip(together, IDS, LENGTHS, strict=True):
        np.testing.assert_array_equal(encode(encoder, [ids[:length]], [length])[0], row[:length])


def test_the_scale_is_a_factor():
    np.testing.assert_allclose(encode(make(embedding_scale=7.5), IDS, LENGTHS), 7.5 * encode(make(), IDS, LENGTHS),
                               rtol=1e-5)


def test_embeddings_are_zero_at_first_and_only_those_of_the_batch_have_gradients():
    encoder = NgramEncoder({"src_vocab_size": 10, "buckets": 64}, name="encoder")
    assert list(named_variables(encoder)) == ["embedding"] and encoder.embedding.shape == [74, 8]
    assert encoder.output_size == 8 and not encoder.embedding.numpy().any()
    with tf.GradientTape() as tape:
        sources = [tf.constant([[3, 4, 0]]), tf.constant([2])]
        outputs = encoder.encode({"source_tensors": sources})["outputs"]
    gradient = tape.gradient(outputs, encoder.embedding)
    assert isinstance(gradient, tf.IndexedSlices)
    dense = tf.convert_to_tensor(gradient).numpy()
    assert set(np.flatnonzero(dense.any(axis=1)[:10])) == {3, 4} and dense[10:].any(axis=1).sum() == 1
    assert NgramEncoder({"src_vocab_size": 10, "max_ngram": 1}, name="encoder").embedding.shape == [10, 8]


def test_ngrams_are_spread_over_the_buckets():
    ids = np.stack(np.meshgrid(np.arange(4, 260), np.arange(4, 260)), -1).reshape(-1, 2)
    rows, _ = make(src_vocab_size=300, buckets=1 << 16)._rows(tf.constant(ids), tf.fill([len(ids)], 2))
    used = len(np.unique(rows[:, 1, 1]))  # 2¹⁶ pairs in 2¹⁶ buckets: 63 % are used if they are spread at random
    assert used > 0.6 * 2 ** 16 and rows.numpy()[:, :, 1].min() >= 300


def test_dropout_leaves_out_whole_ngrams_in_training():
    encoder = make(max_ngram=1, dropout=0.5)
    ids = np.tile([[5]], (4000, 1))
    with forward_pass(1, tf.constant(0)):
        outputs = encode(encoder, ids, np.ones(4000), training=True)
    kept = outputs.any(axis=(1, 2))
    np.testing.assert_allclose(outputs[kept], np.broadcast_to(2 * encoder.embedding[5], [kept.sum(), 1, 4]), rtol=1e-5)
    assert abs(kept.mean() - 0.5) < 0.05
    assert encode(encoder, ids, np.ones(4000)).any(axis=(1, 2)).all()
