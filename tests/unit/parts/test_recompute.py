"""Gradient checkpointing: equal losses and gradients, with dropout, in every way that a step is made."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.forward_pass import current_pass, forward_pass
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.randomness import next_seed
from open_seq2seq.parts.recompute import recomputed

VOCAB = 21
SIZES = {"hidden_size": 16, "num_heads": 2, "filter_size": 32, "attention_dropout": 0.2, "relu_dropout": 0.2,
         "layer_postprocess_dropout": 0.2}
ENCODER = {"encoder_layers": 1, "src_vocab_size": VOCAB, "remove_padding": True}
DECODER = {"num_hidden_layers": 1, "tgt_vocab_size": VOCAB, "EOS_ID": 1, "batch_size": 1, "beam_size": 1,
           "alpha": 0.6, "extra_decode_length": 4}


class Translator(tf.Module):
    def __init__(self, recompute, norm="layernorm_L2", dtype="float32"):
        super().__init__()
        shared = {**SIZES, "norm_params": {"type": norm}, "dtype": dtype, "recompute": recompute}
        with creating_variables(11):
            self.encoder = TransformerEncoder({**shared, **ENCODER}, name="encoder")
            self.decoder = TransformerDecoder({**shared, **DECODER}, name="decoder")
            self.loss = PaddedCrossEntropyLossWithSmoothing({"label_smoothing": 0.1, "tgt_vocab_size": VOCAB})

    def mean_loss(self, source, target):
        encoded = self.encoder.encode({"source_tensors": source}, True)
        output = self.decoder.decode({"encoder_output": encoded, "target_tensors": target}, True)
        (term,) = self.loss.compute_loss({"decoder_output": output, "target_tensors": target})
        return term.sum / term.units


def side(lengths, seed):
    ids = np.random.default_rng(seed).integers(3, VOCAB, (len(lengths), max(lengths))).astype(np.int32)
    for row, length in enumerate(lengths):
        ids[row, length - 1], ids[row, length:] = 1, 0
    return [tf.constant(ids), tf.constant(lengths, tf.int32)]


def make_step(model, variables, persistent=False):
    """A step as TrainStep makes it: an explicit tape, seeds of a micro-batch, casts remembered."""

    def step(batch, source, target):
        with tf.GradientTape(persistent=persistent, watch_accessed_variables=False) as tape:
            tape.watch(list(variables.values()))
            with forward_pass(3, batch):
                loss = model.mean_loss(source, target)
        found = tape.gradient(loss, variables)
        return loss, {name: tf.convert_to_tensor(g) for name, g in found.items() if g is not None}

    return tf.function(step, autograph=False)


def results(recompute, norm="layernorm_L2", dtype="float32", frozen=(), **options):
    model = Translator(recompute, norm, dtype)
    variables = {name: v for name, v in named_variables(model).items() if v.trainable and not name.startswith(frozen)}
    source, target = side((7, 3, 5), 0), side((4, 6, 2), 1)
    loss, gradients = make_step(model, variables, **options)(tf.constant(5, tf.int64), source, target)
    moving = {name: v.numpy() for name, v in named_variables(model).items() if "moving" in name}
    return loss, gradients, moving


NORMS = ["layernorm_L2", "layernorm_L1", "batch_norm"]


@pytest.mark.long
@pytest.mark.parametrize("norm, dtype", [*itertools.product(NORMS, ["float32"]), ("layernorm_L2", "bfloat16"),
                                         ("layernorm_L2", "float16"), ("batch_norm", "bfloat16")])
def test_losses_gradients_and_moving_statistics_are_equal(norm, dtype):
    (loss, gradients, moving), (loss2, gradients2, moving2) = (results(r, norm, dtype) for r in (False, True))
    assert float(loss) == float(loss2)
    assert gradients.keys() == gradients2.keys() and len(gradients) > 20
    for name, gradient in gradients.items():
        # The order in which parts of a gradient are added may differ.
        np.testing.assert_allclose(gradients2[name], gradient, rtol=2e-5, atol=1e-6, err_msg=name)
    assert moving.keys() == moving2.keys() and bool(moving) == (norm == "batch_norm")
    for name, value in moving.items():
        np.testing.assert_array_equal(moving2[name], value, err_msg=name)


@pytest.mark.long
def test_a_persistent_tape_and_frozen_variables():
    frozen = ("encoder/layer_0", "encoder/embedding")
    (loss, gradients, _), (loss2, gradients2, _) = (results(r, frozen=frozen, persistent=True) for r in (False, True))
    assert float(loss) == float(loss2) and gradients.keys() == gradients2.keys()
    assert not any(name.startswith(frozen) for name in gradients2)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradients2[name], gradient, rtol=2e-5, atol=1e-6, err_msg=name)


class Deep(tf.Module):
    """Products with a square matrix, each followed by a tanh, by dropout and by a note of how often it ran."""

    def __init__(self, depth=4):
        super().__init__()
        rng = np.random.default_rng(0)
        self.kernels = [tf.Variable(rng.normal(size=(8, 8)).astype(np.float32)) for _ in range(depth)]
        self.seen = []

    def layer(self, kernel, x, shift):
        self.seen.append(current_pass().is_recomputing)
        return dropout(tf.tanh(tf.matmul(x, cast_weight(kernel, x.dtype)) + shift), 0.3, True)

    def __call__(self, x, shift, again):
        for kernel in self.kernels:
            run = functools.partial(self.layer, kernel)
            x = recomputed(run, x, shift) if again else run(x, shift)
        return x


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_inputs_and_variables_get_their_gradients(traced, dtype):
    x, shift = (tf.cast(np.random.default_rng(s).normal(size=(5, 8)), dtype) for s in (1, 2))

    def step(again, deep):
        with tf.GradientTape() as tape, forward_pass(1, 2):
            tape.watch([x, shift])
            loss = tf.reduce_sum(tf.cast(deep(x, shift, again), tf.float32) ** 2)
            after = next_seed()
        return [loss, after, *tape.gradient(loss, [x, shift, *deep.kernels])]

    found = []
    for again in (False, True):
        deep = Deep()
        body = functools.partial(step, again, deep)
        found.append((tf.function(body, autograph=False) if traced else body)())
        assert deep.seen == [False] * 4 + [True] * (4 if again else 0)
    for number, (one, other) in enumerate(zip(*found, strict=True)):
        # TensorFlow adds the four gradients of the shift in an order that differs from run to run.
        rounding = 0.02 if number == 3 else 0.0
        np.testing.assert_allclose(tf.cast(one, tf.float32), tf.cast(other, tf.float32), rounding, rounding)


def test_a_function_without_variables_and_without_random_numbers():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = recomputed(lambda x, keep: tf.where(keep, x ** 3, 0.0), x, tf.constant([True, False]))
    np.testing.assert_allclose(tape.gradient(y, x), [3.0, 0.0])


def test_what_is_kept_between_forward_and_backward_is_less():
    """In the graph, the backward pass needs of each layer its inputs only."""
    x = tf.zeros([5, 8])

    def kept(again):
        deep = Deep()

        @tf.function(autograph=False)
        def step(x):
            with tf.GradientTape() as tape, forward_pass(1, 2):
                loss = tf.reduce_sum(deep(x, x, again))
            return tape.gradient(loss, deep.kernels)

        graph = step.get_concrete_function(x).graph
        first = next(i for i, op in enumerate(graph.get_operations()) if op.name.startswith("gradient"))
        operations = graph.get_operations()
        forward = {op.name for op in operations[:first]}
        return {i.op.type for op in operations[first:] for i in op.inputs if i.op.name in forward}

    assert "Tanh" in kept(False) and "Tanh" not in kept(True)
