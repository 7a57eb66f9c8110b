"""Run on two ranks by test_reduction.py: each reduction, traced, against NumPy sums of what all ranks bring."""

import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from open_seq2seq.runners.horovod.runner import Reduction

hvd.init()
rank, ranks = hvd.rank(), hvd.size()


def dense(of_rank):
    return np.random.default_rng(of_rank).standard_normal([300, 70]).astype(np.float32)


def lookups(of_rank, tokens, rows):
    """Rows of a lookup; rank 1 looks up none where ``tokens`` is odd, and no rank does where it is 0."""
    rng = np.random.default_rng([of_rank, tokens])
    count = 0 if tokens % 2 and of_rank == 1 else tokens
    return rng.integers(0, rows, count), rng.standard_normal([count, 5]).astype(np.float32)


def table(of_rank, tokens, rows):
    whole = np.zeros([rows, 5], np.float32)
    np.add.at(whole, *lookups(of_rank, tokens, rows))
    return whole


def make(compression):
    reduction = Reduction(hvd, compression)
    spec = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 5], tf.float32), tf.TensorSpec([], tf.int64))

    @tf.function(input_signature=spec, autograph=False)
    def reduce(indices, values, rows):
        slices = tf.IndexedSlices(values, indices, tf.stack([rows, 5]))
        tensors = {"e": slices, "w": tf.constant(dense(rank)), " loss": tf.constant(0.1 + rank)}
        reduced = reduction(tensors, f"gradients.{compression}")
        return tf.convert_to_tensor(reduced["e"]), reduced["e"].indices, reduced["w"], reduced[" loss"]

    return reduce


for compression, tolerance in ((None, 1e-6), ("fp16", 1e-2)):
    reduce = make(compression)
    for tokens, rows in ((40, 1000), (40, 8), (41, 1000), (0, 20), (7, 5)):
        got, indices, weights, loss = reduce(*lookups(rank, tokens, rows), rows)
        np.testing.assert_allclose(got, sum(table(r, tokens, rows) for r in range(ranks)), atol=tolerance)
        np.testing.assert_allclose(weights, sum(dense(r) for r in range(ranks)), atol=tolerance)
        np.testing.assert_allclose(loss, sum(0.1 + r for r in range(ranks)), rtol=1e-6)
        assert set(indices.numpy()) == {i for r in range(ranks) for i in lookups(r, tokens, rows)[0]}
        bits = hvd.allgather(tf.concat([tf.reshape(t, [-1]) for t in (got, weights)], 0)[tf.newaxis], name="bits")
        np.testing.assert_array_equal(bits.numpy()[0], bits.numpy()[1])
    assert reduce.experimental_get_tracing_count() == 1
print(f"rank {rank} agrees", flush=True)
sys.stdout.flush()
hvd.shutdown()
