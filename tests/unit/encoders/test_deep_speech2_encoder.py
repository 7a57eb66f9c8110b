"""The encoder of Deep Speech 2: padding, lengths, kinds of cells, row convolution, mistakes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import DeepSpeech2Encoder
from open_seq2seq.encoders.deep_speech2_encoder import RNN_TYPES, RowConvolution
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders.padding import assert_alike, trained

FEATURES = 10
CONVOLUTIONS = [
    {"kernel_size": [5, 5], "stride": [2, 2], "num_channels": 3, "padding": "SAME"},
    {"kernel_size": [3, 3], "stride": [1, 2], "num_channels": 4, "padding": "SAME"},
]
PARAMS = {"dropout_keep_prob": 1.0, "conv_layers": CONVOLUTIONS, "activation_fn": "relu", "num_rnn_layers": 2,
          "row_conv": False, "n_hidden": 7, "use_cudnn_rnn": True, "rnn_cell_dim": 6, "rnn_type": "cudnn_gru",
          "rnn_unidirectional": False, "num_audio_features": FEATURES}
KINDS = {
    "gru": {}, "lstm": {"rnn_type": "lstm"}, "layer norm": {"rnn_type": "layernorm_lstm"},
    "row convolution": {"rnn_type": "cudnn_lstm", "rnn_unidirectional": True, "row_conv": True, "row_conv_width": 4},
    "recurrent only": {"conv_layers": [], "rnn_type": "classic_gru"},
    "valid": {"conv_layers": [{**CONVOLUTIONS[0], "padding": "VALID"}], "num_rnn_layers": 0},
}


def make(**params: Any) -> DeepSpeech2Encoder:
    with creating_variables(3):
        return DeepSpeech2Encoder({**PARAMS, **params})


def utterances(lengths: Any = (23, 9, 16, 30), longest: int = 33, filler: float = 0.0) -> list[tf.Tensor]:
    features = np.full([len(lengths), longest, FEATURES], filler, np.float32)
    for row, length in enumerate(lengths):
        features[row, :length] = np.random.default_rng(row).normal(size=[length, FEATURES])
    return [tf.constant(features), tf.constant(lengths, tf.int32)]


def encode(encoder: DeepSpeech2Encoder, tensors: list[tf.Tensor], training: bool = False) -> dict[str, Any]:
    with forward_pass(1, tf.constant(3, tf.int64)):
        return encoder.encode({"source_tensors": tensors}, training)


# Every cell, in both directions, and forward with a row convolution.
STACKS = {**KINDS, **{
    f"{cell}, {'row convolution' if forward else 'both directions'}":
        {"rnn_type": cell, "rnn_unidirectional": forward, "row_conv": forward, "row_conv_width": 4}
    for cell in RNN_TYPES for forward in (False, True)}}


@pytest.mark.parametrize("kind", STACKS)
def test_an_utterance_alone_is_the_same_as_in_a_batch(kind: str):
    encoder, (features, lengths) = make(**STACKS[kind]), utterances(np.random.default_rng(1).integers(9, 33, 16))
    encode(encoder, [features, lengths], True)  # moving statistics that are not 0 and 1
    together = encode(encoder, [features, lengths])
    assert together["outputs"].shape[-1] == encoder.output_size == 7
    largest = np.abs(together["outputs"]).max()
    for row in (3, 12):
        length = int(lengths[row])
        alone = encode(encoder, [features[row:row + 1, :length], lengths[row:row + 1]])
        assert int(alone["src_length"][0]) == int(together["src_length"][row]) == alone["outputs"].shape[1]
        np.testing.assert_allclose(together["outputs"][row, :alone["outputs"].shape[1]], alone["outputs"][0],
                                   atol=1e-5 * largest)


@pytest.mark.parametrize("kind", ["gru", "row convolution"])
def test_padding_changes_nothing_in_training(kind: str):
    """Not even where it holds NaN."""
    outcomes = []
    for longest, filler in ((30, 0.0), (41, np.nan)):
        encoder, tensors = make(**KINDS[kind]), utterances(longest=longest, filler=filler)
        outcomes.append(trained(encoder, functools.partial(encode, encoder, tensors, True), tf.square))
    assert_alike(*outcomes)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_for_all_shapes(kind: str):
    encoder = make(**KINDS[kind])

    @tf.function(input_signature=[tf.TensorSpec([None, None, FEATURES]), tf.TensorSpec([None], tf.int32)],
                 autograph=False)
    def run(features: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        return encoder.encode({"source_tensors": [features, lengths]})["outputs"]

    for lengths in ((23, 9), (12, 30, 14)):
        tensors = utterances(lengths)
        np.testing.assert_allclose(run(*tensors), encode(encoder, tensors)["outputs"], atol=2e-6)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_lengths(padding: str):
    encoder = make(conv_layers=[{**layer, "padding": padding} for layer in CONVOLUTIONS[:1]], num_rnn_layers=1)
    result = encode(encoder, [tf.zeros([5, 12, FEATURES]), tf.constant([12, 11, 10, 5, 0])])
    np.testing.assert_array_equal(result["src_length"], [6, 6, 5, 3, 0] if padding == "SAME" else [4, 4, 3, 1, 0])
    np.testing.assert_array_equal(encoder.output_lengths(np.array([12, 11, 10, 5, 0])), result["src_length"])
    assert result["outputs"].shape == [5, 6 if padding == "SAME" else 4, 7] and encoder.time_stride == 2


@pytest.mark.parametrize("kind", KINDS)
def test_everything_learns_in_mixed_precision_too(kind: str):
    encoder = make(dtype=tf.bfloat16, dropout_keep_prob=0.8, **KINDS[kind])
    with tf.GradientTape() as tape:
        outputs = encode(encoder, utterances(), True)["outputs"]
        loss = tf.reduce_sum(tf.square(tf.cast(outputs, tf.float32)))
    assert outputs.dtype == tf.bfloat16
    learned = {name: variable for name, variable in named_variables(encoder).items() if variable.trainable}
    for name, gradient in tape.gradient(loss, learned).items():
        assert gradient is not None and gradient.dtype == tf.float32 and np.isfinite(gradient).all(), name


def test_names_of_one_cell_mean_the_same_weights():
    expected = {name: variable.shape for name, variable in named_variables(make(rnn_type="gru")).items()}
    for settings in ({"rnn_type": "cudnn_gru"}, {"use_cudnn_rnn": False}, {"data_format": "BCFT"}):
        found = {name: variable.shape for name, variable in named_variables(make(**settings)).items()}
        assert found == expected
    assert {"kernel", "bias", "rnn/layer_1/backward/recurrent_bias"} < set(expected)


@pytest.mark.parametrize("rnn_type, behind_the_last", [("cudnn_lstm", False), ("lstm", True)])
def test_dropout_behind_the_last_layer(rnn_type: str, behind_the_last: bool):
    encoder = make(rnn_type=rnn_type, dropout_keep_prob=0.5, rnn_cell_dim=32)
    with forward_pass(1, tf.constant(0, tf.int64)):
        outputs = encoder.rnn(tf.random.stateless_normal([1, 20, 12], [0, 0]), tf.constant([20]), True).numpy()
    assert (0.3 < np.mean(outputs == 0.0) < 0.7) == behind_the_last


def test_row_convolution_weights_each_channel_over_time():
    with creating_variables(1):
        layer = RowConvolution(3, 4, None, 0.9, 0.0)
    x = np.random.default_rng(0).normal(size=[1, 6, 3]).astype(np.float32)
    padded = np.pad(x, [[0, 0], [1, 2], [0, 0]])
    taps = layer.kernel.numpy()[:, :, 0]
    expected = np.stack([(padded[0, step:step + 4] * taps).sum(0) for step in range(6)])
    np.testing.assert_allclose(layer(tf.constant(x), tf.ones([1, 6], tf.bool))[0], expected, atol=1e-6)


@pytest.mark.parametrize("wrong, message", [
    ({"rnn_type": "rnn"}, "rnn_type"),
    ({"data_format": "TBFC"}, "data_format"),
    ({"n_hidden": 0}, "encoder_params/n_hidden' is 0 but has to be at least 1"),
    ({"dropout_keep_prob": 0.0}, "dropout_keep_prob"),
    ({"num_audio_features": None}, "num_audio_features' is missing"),
    ({"conv_layers": [5]}, "conv_layers/0' is 5 but has to be a dict"),
    ({"conv_layers": [{**CONVOLUTIONS[0], "kernel_size": [5]}]}, "conv_layers/0/kernel_size"),
    ({"conv_layers": [{**CONVOLUTIONS[0], "kernel_size": [5, 11], "padding": "VALID"}]}, "features to none"),
])
def test_mistakes_are_named(wrong: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        make(**wrong)
