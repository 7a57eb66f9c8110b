"""Batch norm over all replicas: two of them are one process with the joined batch."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import DeepSpeech2Encoder, ListenAttendSpellEncoder, TDNNEncoder
from open_seq2seq.losses import LossTerm
from open_seq2seq.optimizers import MixedPrecisionOptimizer, make_loss_scaler, make_optimizer
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module, creating_variables, named_variables
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.forward_pass import sum_over_ranks
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.recompute import recomputed
from open_seq2seq.runners import Runner
from open_seq2seq.runners.tower import TowerRunner, mirrored_strategy
from open_seq2seq.training.loop.step import TrainStep


class Layer:
    input_signature = {"x": tf.TensorSpec([None, 3], tf.float32), "held": tf.TensorSpec([None], tf.bool)}


class Net(Module):
    """Two normalised layers, the second computed again in the backward pass; only held rows count."""

    def __init__(self, dtype, drop):
        super().__init__(name="net")
        self.kernel = self.weight([3, 4], "glorot_uniform")
        self.second = self.weight([4, 1], "glorot_uniform")
        self.norm, self.norm_2 = BatchNorm(4), BatchNorm(4)
        self.data_layer, self.dtype, self.drop = Layer(), dtype, drop

    def loss_terms(self, batch, training):
        held = batch["held"]
        x = tf.matmul(tf.cast(batch["x"], self.dtype), cast_weight(self.kernel, self.dtype))
        x = tf.tanh(self.norm(x, held, training))
        x = recomputed(lambda x: self.norm_2(dropout(x, self.drop, training), held, training) ** 3, x)
        y = tf.cast(tf.matmul(x, cast_weight(self.second, self.dtype)), tf.float32)[:, 0]
        weight = tf.cast(held, tf.float32)
        return [LossTerm(tf.reduce_sum((y - 1.0) ** 2 * weight), tf.reduce_sum(weight), unit="row")], {}


def make_step(towers, iter_size=1, dtype=tf.float32, drop=0.0, make_model=Net, sync_batch_norm=True):
    runner = TowerRunner(mirrored_strategy([f"CPU:{n}" for n in range(towers)])) if towers > 1 else Runner()
    with runner.scope(), creating_variables(3):
        model = make_model(dtype, drop)
        variables = {name: v for name, v in named_variables(model).items() if v.trainable}
        wrapper = MixedPrecisionOptimizer(make_optimizer("Momentum", {"momentum": 0.9}), lambda step: tf.constant(0.05),
                                          make_loss_scaler(8.0, None, dtype))
        wrapper.build(variables)
        step = TrainStep(model, wrapper, variables, runner, seed=1, iter_size=iter_size,
                         sync_batch_norm=sync_batch_norm)
    return model, step


def make_batch(rows, seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, 3)).astype(np.float32), "held": rng.random(rows) < 0.8}


def joined(batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def assert_same_variables(several, one):
    """Those of several replicas are equal to the bit, and those of one process but for rounding."""
    for name, variable in named_variables(several).items():
        np.testing.assert_allclose(variable.numpy(), named_variables(one)[name].numpy(), rtol=2e-5, atol=1e-6,
                                   err_msg=name)
        for copy in variable.values[1:]:
            np.testing.assert_array_equal(copy.numpy(), variable.values[0].numpy(), err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize(("towers", "iter_size"), [(2, 1), (3, 1), (2, 2)])
def test_replicas_are_one_process_with_the_joined_batch(towers, iter_size):
    one, one_step = make_step(1, iter_size)
    several, step = make_step(towers, iter_size)
    for start in range(3):
        batches = [make_batch(rows, start * 9 + rows) for rows in (2, 11, 5, 7, 3, 4)[:towers * iter_size]]
        expected = one_step([joined(batches[n:n + towers]) for n in range(0, len(batches), towers)])
        found = step(batches)
        for name in ("loss", "grad_norm"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, err_msg=name)
    assert_same_variables(several, one)


class Utterances:
    input_signature = {"features": tf.TensorSpec([None, None, 6], tf.float32),
                       "lengths": tf.TensorSpec([None], tf.int32)}


class Encoded(Module):
    """An encoder of audio whose outputs, without padding, are to be 1; the unit of the loss is the frame."""

    def __init__(self, encoder):
        super().__init__(name="net")
        self.encoder, self.data_layer = encoder, Utterances()

    def loss_terms(self, batch, training):
        result = self.encoder.encode({"source_tensors": [batch["features"], batch["lengths"]]}, training)
        held = tf.sequence_mask(result["src_length"], tf.shape(result["outputs"])[1], tf.float32)
        errors = tf.reduce_mean(tf.square(result["outputs"] - 1.0), -1)
        return [LossTerm(tf.reduce_sum(errors * held), tf.reduce_sum(held), unit="frame")], {}


CONVOLUTION = {"type": "conv1d", "repeat": 1, "kernel_size": [5], "stride": [2], "num_channels": 8, "padding": "SAME"}
COMMON = {"dropout_keep_prob": 1.0, "activation_fn": "relu", "num_audio_features": 6}
# Without recurrent layers, which have no batch norm.
ENCODERS = {
    "tdnn": lambda: TDNNEncoder({**COMMON, "convnet_layers": [
        CONVOLUTION, {**CONVOLUTION, "repeat": 2, "stride": [1], "residual": True}]}),
    "deep speech 2": lambda: DeepSpeech2Encoder({
        **COMMON, "conv_layers": [{"kernel_size": [5, 3], "stride": [2, 1], "num_channels": 3, "padding": "SAME"}],
        "num_rnn_layers": 0, "row_conv": True, "row_conv_width": 3, "n_hidden": 5, "use_cudnn_rnn": False,
        "rnn_cell_dim": 4, "rnn_type": "gru", "rnn_unidirectional": True}),
    "las": lambda: ListenAttendSpellEncoder({**COMMON, "convnet_layers": [CONVOLUTION], "recurrent_layers": []}),
}


def padded(lengths, longest, seed):
    """Utterances of so many frames; what stands in their padding is not to matter."""
    features = np.full([len(lengths), longest, 6], 100.0, np.float32)
    for row, length in enumerate(lengths):
        features[row, :length] = np.random.default_rng([seed, row, length]).normal(size=[length, 6])
    return {"features": features, "lengths": np.array(lengths, np.int32)}


@pytest.mark.long
@pytest.mark.parametrize("kind", ENCODERS)
def test_convolutional_encoders_normalise_over_all_replicas(kind):
    """Unequal numbers of utterances and frames, padded to each replica's longest: as one process with all of them."""
    def make(dtype, drop):
        return Encoded(ENCODERS[kind]())

    (one, one_step), (several, step) = make_step(1, make_model=make), make_step(2, make_model=make)
    for seed in range(2):
        first, second = padded((9, 31, 22), 31, seed), padded((14, 5), 17, seed + 10)
        longer = {**second, "features": np.pad(second["features"], [[0, 0], [0, 14], [0, 0]])}
        expected, found = one_step([joined([first, longer])]), step([first, second])
        for name in ("loss", "grad_norm"):
            np.testing.assert_allclose(found[name], expected[name], rtol=2e-5, err_msg=name)
    assert_same_variables(several, one)
    moving = [v.numpy() for name, v in named_variables(several).items() if name.endswith("moving_variance")]
    assert moving and all((value != 1.0).all() for value in moving)


class Meeting(Module):
    """Replicas meet in the middle of the forward pass, to no effect."""

    def __init__(self, dtype, drop):
        super().__init__(name="net")
        self.kernel, self.second = self.weight([3, 4]), self.weight([4, 1])
        self.data_layer, self.dtype, self.drop = Layer(), dtype, drop

    def loss_terms(self, batch, training):
        x = tf.matmul(tf.cast(batch["x"], self.dtype), cast_weight(self.kernel, self.dtype))
        (total,) = sum_over_ranks(tf.cast(tf.reduce_sum(x), tf.float32))
        x = dropout(x, self.drop, training) + tf.cast(0.0 * total, self.dtype)
        y = tf.matmul(x, cast_weight(self.second, self.dtype)) + tf.reduce_sum(cast_weight(self.kernel, self.dtype))
        return [LossTerm(tf.reduce_sum(tf.cast(y, tf.float32) ** 2), tf.cast(tf.size(y), tf.float32), unit="row")], {}


def test_what_a_replica_has_drawn_and_cast_is_its_own():
    """Neither dropout nor half-precision weights of the replica that came last hold for the one that goes on."""
    one, one_step = make_step(1, 2, tf.bfloat16, 0.5, Meeting)
    several, step = make_step(2, 1, tf.bfloat16, 0.5, Meeting)
    for seed in range(3):
        batches = [make_batch(12, seed), make_batch(12, seed + 10)]
        np.testing.assert_allclose(step(batches)["loss"], one_step(batches)["loss"], rtol=1e-6)
    np.testing.assert_allclose(several.kernel.numpy(), one.kernel.numpy(), rtol=1e-5)


def test_a_replica_without_rows():
    _, one_step = make_step(1)
    model, step = make_step(2)
    full, empty = make_batch(9, 1), make_batch(0, 1)
    expected = one_step([full])
    np.testing.assert_allclose(step([full, empty])["grad_norm"], expected["grad_norm"], rtol=1e-5)
    np.testing.assert_array_equal(*[copy.numpy() for copy in model.norm.moving_mean.values])
