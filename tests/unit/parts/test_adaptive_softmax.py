"""Adaptive softmax: against NumPy, its gradients, and its use by losses, scores and generation."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import LMEncoder, TransformerLMEncoder
from open_seq2seq.losses import BasicSampledSequenceLoss, BasicSequenceLoss, CrossEntropyWithSmoothing
from open_seq2seq.models.lm.language_model import negative_log_probs, total_negative_log_prob
from open_seq2seq.parts.adaptive_softmax import AdaptiveOutputLayer
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError

VOCAB, SIZE, CUTOFFS = 23, 8, [4, 11]
LABELS = np.array([0, 3, 4, 10, 11, 22, 22, 7, 1], np.int32)
WEIGHTS = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 0.5, 1.0, 0.0, 1.0], np.float32)
KINDS = {"projected": (False, 2.0, True), "whole": (False, 1.0, False), "tied": (True, 1.0, True)}


def make(kind):
    tied, factor, use_bias = KINDS[kind]
    rng = np.random.default_rng(0)
    table = tf.Variable(tf.zeros([VOCAB, SIZE])) if tied else None
    with creating_variables(1):
        layer = AdaptiveOutputLayer(SIZE, VOCAB, {"cutoffs": CUTOFFS, "factor": factor}, table, use_bias)
    for variable in [*named_variables(layer).values(), *([table] if tied else [])]:
        variable.assign(rng.normal(0.0, 0.7, variable.shape))
    return layer, table, tf.constant(rng.normal(size=(len(LABELS), SIZE)), tf.float32)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def by_numpy(layer, table, hidden):
    """Returns the probabilities ``[rows, vocabulary]`` in float64, by the definition."""
    w = {name: variable.numpy().astype(np.float64) for name, variable in named_variables(layer).items()}
    x, edges = hidden.numpy().astype(np.float64), [*CUTOFFS, VOCAB]
    bias, cluster_bias = w.get("bias", np.zeros(VOCAB)), w.get("cluster_bias", np.zeros(2))
    first = w["kernel"] if table is None else table.numpy()[:CUTOFFS[0]]
    head = softmax(np.concatenate([x @ first.T + bias[:CUTOFFS[0]], x @ w["cluster_kernel"].T + cluster_bias], 1))
    found = [head[:, :CUTOFFS[0]]]
    for number in range(2):
        begin, end = edges[number], edges[number + 1]
        kernel = w[f"tail_{number}/kernel"] if table is None else table.numpy()[begin:end]
        inner = x @ w.get(f"tail_{number}/projection", np.eye(SIZE))
        found.append(head[:, CUTOFFS[0] + number:][:, :1] * softmax(inner @ kernel.T + bias[begin:end]))
    return np.concatenate(found, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_and_loss_equal_numpy(kind):
    layer, table, hidden = make(kind)
    expected = by_numpy(layer, table, hidden)
    found = np.exp(layer.logits(hidden).numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1.0, rtol=1e-6)
    loss = -(np.log(expected[np.arange(len(LABELS)), LABELS]) * WEIGHTS).sum()
    for training in (False, True):
        np.testing.assert_allclose(layer.cross_entropy(hidden, LABELS, WEIGHTS, training), loss, rtol=1e-5)
    with forward_pass(for_xla=True):
        np.testing.assert_allclose(layer.cross_entropy(hidden, LABELS, WEIGHTS, True), loss, rtol=1e-5)


def test_the_sizes_of_clusters():
    shapes = {name: tuple(variable.shape) for name, variable in named_variables(make("projected")[0]).items()}
    assert shapes == {"bias": (23,), "cluster_bias": (2,), "cluster_kernel": (2, 8), "kernel": (4, 8),
                      "tail_0/projection": (8, 4), "tail_0/kernel": (7, 4),
                      "tail_1/projection": (8, 2), "tail_1/kernel": (12, 2)}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_finite_differences(kind):
    layer, table, hidden = make(kind)
    values = [tf.Variable(hidden), *named_variables(layer).values(), *([] if table is None else [table])]

    def loss():
        picked = np.log(by_numpy(layer, table, values[0])[np.arange(len(LABELS)), LABELS])
        return -(picked * WEIGHTS).sum()

    with tf.GradientTape() as tape:
        total = layer.cross_entropy(tf.convert_to_tensor(values[0]), LABELS, WEIGHTS, True)
    rng = np.random.default_rng(2)
    for value, gradient in zip(values, tape.gradient(total, values), strict=True):
        before, direction = value.numpy(), rng.normal(size=value.shape).astype(np.float32)
        ends = []
        for step in (1e-2, -1e-2):
            value.assign(before + step * direction)
            ends.append(loss())
        value.assign(before)
        expected = (ends[0] - ends[1]) / 2e-2
        found = float(tf.reduce_sum(tf.convert_to_tensor(gradient) * direction))
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_half_precision(dtype):
    layer, _, hidden = make("projected")
    exact = layer.cross_entropy(hidden, LABELS, WEIGHTS, True)
    variables = list(named_variables(layer).values())
    with tf.GradientTape() as tape:
        found = layer.cross_entropy(tf.cast(hidden, dtype), LABELS, WEIGHTS, True)
    assert found.dtype == tf.float32 and layer.logits(tf.cast(hidden, dtype)).dtype == tf.float32
    np.testing.assert_allclose(found, exact, rtol=0.03)
    np.testing.assert_allclose(tf.reduce_sum(tf.exp(layer.logits(tf.cast(hidden, dtype))), 1), 1.0, rtol=1e-5)
    assert all(gradient.dtype == tf.float32 and np.isfinite(gradient).all()
               for gradient in tape.gradient(found, variables))


def test_a_cluster_without_labels():
    layer, table, hidden = make("projected")
    labels, weights = tf.constant([0, 1, 12]), tf.constant([1.0, 1.0, 0.0])
    with tf.GradientTape() as tape:
        found = layer.cross_entropy(hidden[:3], labels, weights, True)
    expected = -np.log(by_numpy(layer, table, hidden)[[0, 1], [0, 1]]).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for gradient in tape.gradient(found, [layer.tails[0].kernel, layer.tails[1].kernel]):
        assert not np.any(gradient)


def encoder_of(kind, **params):
    recurrent = kind is LMEncoder
    given = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": SIZE}, "encoder_layers": 1,
             "emb_size": SIZE} if recurrent else {"encoder_layers": 1, "hidden_size": SIZE, "num_heads": 2,
                                                  "filter_size": 12}
    with creating_variables(1):
        encoder = kind({**given, "vocab_size": VOCAB, "num_tokens_gen": 4,
                        "adaptive_softmax": {"cutoffs": CUTOFFS, "factor": 2.0}, **params}, mode="infer")
    rng = np.random.default_rng(0)
    for variable in named_variables(encoder).values():
        variable.assign(variable + rng.normal(0.0, 0.3, variable.shape))
    return encoder


TIED = {"weight_tied": True, "adaptive_softmax": {"cutoffs": CUTOFFS, "factor": 1.0}}


@pytest.mark.parametrize("params", [{}, TIED], ids=["own", "tied"])
@pytest.mark.parametrize("kind", [LMEncoder, TransformerLMEncoder])
def test_losses_and_scores_use_the_same_probabilities(kind, params):
    encoder, rng = encoder_of(kind, **params), np.random.default_rng(1)
    ids, lengths = tf.constant(rng.integers(0, VOCAB, (2, 5)), tf.int32), tf.constant([5, 3])
    output, targets = encoder.encode({"source_tensors": [ids, lengths]}), [tf.roll(ids, -1, 1), lengths]
    expected = 0.0
    for row, length in enumerate(lengths.numpy()):
        for place in range(length):
            expected -= output["logits"][row, place, targets[0][row, place]].numpy()
    loss = BasicSequenceLoss({"tgt_vocab_size": VOCAB, "batch_size": 2, "offset_target_by_one": False})
    terms = loss.compute_loss({"decoder_output": output, "target_tensors": targets})
    summed = tf.reduce_sum(negative_log_probs(output, targets))
    for found in (terms[0].sum, total_negative_log_prob(output, targets), summed):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("kind", [LMEncoder, TransformerLMEncoder])
def test_generation_uses_the_same_probabilities(kind):
    encoder, rng = encoder_of(kind), np.random.default_rng(1)
    ids = tf.constant(rng.integers(0, VOCAB, (2, 5)), tf.int32)
    generated = encoder.generate(ids, tf.constant([5, 3]), tf.range(2)).numpy()
    text = ids[1, :3].numpy().tolist()
    for _ in range(4):
        text.append(int(encoder.encode({"source_tensors": [tf.constant([text]), tf.constant([len(text)])]})[
            "logits"][0, -1].numpy().argmax()))
    assert generated[1].tolist() == text[3:]


BAD = {
    "order": ({"adaptive_softmax": {"cutoffs": [11, 4]}}, "increasing list"),
    "none": ({"adaptive_softmax": {}}, "increasing list"),
    "large": ({"adaptive_softmax": {"cutoffs": [4, VOCAB]}}, "only 23 ids"),
    "tied": ({"weight_tied": True}, "set it to 1"),
    "sampled": ({"num_sampled": 5}, "leave one out"),
    "factor": ({"adaptive_softmax": {"cutoffs": [4], "factor": 0.5}}, "at least 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_named(name):
    params, expected = BAD[name]
    with pytest.raises(ConfigError, match=expected):
        encoder_of(LMEncoder, **params)


@pytest.mark.parametrize("loss, params", [(BasicSampledSequenceLoss, {}),
                                          (CrossEntropyWithSmoothing, {"label_smoothing": 0.1})])
def test_losses_that_need_another_softmax_are_refused(loss, params):
    ids, lengths = tf.ones([1, 2], tf.int32), tf.constant([2])
    output = encoder_of(LMEncoder).encode({"source_tensors": [ids, lengths]})
    judge = loss({"tgt_vocab_size": VOCAB, "batch_size": 1, "offset_target_by_one": False, **params})
    with pytest.raises(ConfigError, match="adaptive_softmax"):
        judge.compute_loss({"decoder_output": output, "target_tensors": [ids, lengths]})
