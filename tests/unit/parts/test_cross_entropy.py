import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts import cross_entropy
from open_seq2seq.parts.cross_entropy import (
    SoftTargets,
    label_surprises,
    projected_cross_entropy,
    weighted_cross_entropy,
)

ROWS, VOCAB, HIDDEN = 37, 53, 16
SMOOTHINGS = [0.0, 0.1, 0.3]


def reference(logits, labels, targets):
    """Row losses and their gradients in float64."""
    x = np.asarray(logits, np.float64)
    q = np.full(x.shape, targets.off)
    q[np.arange(len(labels)), labels] = targets.on
    lse = np.log(np.sum(np.exp(x - x.max(-1, keepdims=True)), -1, keepdims=True)) + x.max(-1, keepdims=True)
    return -np.sum(q * (x - lse), -1), np.exp(x - lse) - q


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(ROWS, HIDDEN)).astype(np.float32), rng.normal(size=(VOCAB, HIDDEN)).astype(np.float32),
            rng.integers(0, VOCAB, ROWS).astype(np.int32), rng.uniform(size=ROWS).astype(np.float32))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_weighted_agrees_with_float64(case, smoothing):
    hidden, table, labels, weights = case
    logits, targets = tf.constant(hidden @ table.T), SoftTargets.of(smoothing, VOCAB)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = 3.0 * weighted_cross_entropy(logits, labels, weights, targets)
    losses, errors = reference(logits, labels, targets)
    np.testing.assert_allclose(loss, 3 * np.sum(losses * weights), rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(loss, logits), 3 * weights[:, None] * errors, atol=1e-5)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("chunk", [5, 37, 1024])
def test_projected_agrees_with_float64(case, smoothing, chunk, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_ROWS", chunk)
    hidden, table, labels, weights = case
    targets = SoftTargets.of(smoothing, VOCAB)
    values = [tf.constant(hidden), tf.constant(table)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = 3.0 * projected_cross_entropy(*values, labels, weights, targets, training=True)
    by_hidden, by_table = tape.gradient(loss, values)
    losses, errors = reference(hidden @ table.T, labels, targets)
    np.testing.assert_allclose(loss, 3 * np.sum(losses * weights), rtol=1e-5)
    errors = errors * weights[:, None]
    np.testing.assert_allclose(by_hidden, 3 * errors @ table, atol=1e-4)
    np.testing.assert_allclose(by_table, 3 * errors.T @ hidden, atol=1e-4)
    untrained = projected_cross_entropy(*values, labels, weights, targets, training=False)
    np.testing.assert_allclose(3 * untrained, loss, rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_half_precision_gradients(case, dtype):
    hidden, table, labels, weights = case
    targets = SoftTargets.of(0.1, VOCAB)
    values = [tf.cast(hidden, dtype), tf.constant(table)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = projected_cross_entropy(*values, labels, weights, targets, training=True)
    by_hidden, by_table = tape.gradient(loss, values)
    assert by_hidden.dtype == dtype and by_table.dtype == tf.float32
    losses, errors = reference(hidden @ table.T, labels, targets)
    np.testing.assert_allclose(loss, np.sum(losses * weights), rtol=5e-3)
    errors = errors * weights[:, None]
    for got, want in ((by_hidden, errors @ table), (by_table, errors.T @ hidden)):
        assert np.linalg.norm(tf.cast(got, tf.float64) - want) < 0.02 * np.linalg.norm(want)

    logits = tf.cast(hidden @ table.T, dtype)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = weighted_cross_entropy(logits, labels, weights, targets)
    gradient = tape.gradient(loss, logits)
    losses, errors = reference(tf.cast(logits, tf.float64), labels, targets)
    assert gradient.dtype == dtype
    np.testing.assert_allclose(loss, np.sum(losses * weights), rtol=5e-3)
    assert np.linalg.norm(tf.cast(gradient, tf.float64) - weights[:, None] * errors) < 0.02 * np.linalg.norm(errors)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_hopeless_labels_have_finite_exact_losses(dtype):
    logits = tf.constant([[500.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype)
    loss = weighted_cross_entropy(logits, tf.constant([1, 1]), tf.ones([2]), SoftTargets(1.0, 0.0))
    np.testing.assert_allclose(loss, 500 + np.log(np.e + 2) - 1, rtol=1e-3)


@pytest.mark.parametrize("training", [True, False])
def test_no_rows(training):
    values = [tf.zeros([0, 4]), tf.ones([5, 4])]

    @tf.function
    def run(hidden, table):
        with tf.GradientTape() as tape:
            tape.watch([hidden, table])
            loss = projected_cross_entropy(
                hidden, table, tf.zeros([0], tf.int32), tf.zeros([0]), SoftTargets.of(0.1, 5), training)
        return loss, tape.gradient(loss, [hidden, table]) if training else [hidden, tf.zeros_like(table)]

    loss, (by_hidden, by_table) = run(*values)
    assert loss == 0 and by_hidden.shape == [0, 4] and not np.any(by_table)


def test_a_persistent_tape_keeps_nothing_of_the_loop(case):
    hidden, table, labels, weights = (tf.constant(value) for value in case)

    @tf.function
    def gradients(hidden, table):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([hidden, table])
            loss = projected_cross_entropy(hidden, table, labels, weights, SoftTargets.of(0.1, VOCAB), True)
        return tape.gradient(loss, [hidden, table])

    graph = gradients.get_concrete_function(hidden, table).graph
    names = {node.op for node in graph.as_graph_def().node}
    assert "PartitionedCall" not in names and "StatefulPartitionedCall" not in names


def test_entropy_is_the_least_loss():
    targets = SoftTargets.of(0.1, VOCAB)
    logits = np.log(np.full([1, VOCAB], targets.off, np.float32))
    logits[0, 3] = np.log(targets.on)
    np.testing.assert_allclose(reference(logits, [3], targets)[0], targets.entropy(VOCAB), rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_subtracting_at_labels_is_the_same_on_gpus(dtype, monkeypatch):
    x = tf.cast(tf.reshape(tf.range(12), [3, 4]) / 12, dtype)
    places, values = tf.constant([[0, 1], [1, 3], [2, 0]]), tf.cast([0.5, 0.25, 0.75], dtype)
    expected = cross_entropy._minus_at(x, places, values)
    monkeypatch.setattr(cross_entropy.tf.config, "list_logical_devices", lambda kind: ["one"])
    np.testing.assert_array_equal(cross_entropy._minus_at(x, places, values), expected)
    assert float(expected[0, 1]) == pytest.approx(1 / 12 - 0.5, abs=1e-2)


@pytest.mark.parametrize("chunk", [5, 37, 1024])
def test_surprises_of_labels_need_only_the_logits_of_a_chunk(case, chunk, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_ROWS", chunk)
    hidden, table, labels, _ = case
    most = []

    def logits_of(rows):
        most.append(len(rows))
        return tf.matmul(rows, table, transpose_b=True)

    found = label_surprises(tf.constant(hidden), tf.constant(labels), logits_of)
    np.testing.assert_allclose(found, reference(hidden @ table.T, labels, SoftTargets(1.0, 0.0))[0], rtol=1e-5)
    assert max(most) == min(chunk, ROWS) and sum(most) == ROWS
    assert label_surprises(tf.constant(hidden[:0]), tf.constant(labels[:0]), logits_of).shape == (0,)
