"""The convolutional encoder: padding, lengths, residual connections, block drop, mistakes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders.padding import assert_alike, trained

FEATURES = 8


def layer(kind: str = "conv1d", kernel: Any = 5, channels: int = 12, repeat: int = 1, **others: Any) -> dict[str, Any]:
    return {"type": kind, "repeat": repeat, "kernel_size": [kernel], "stride": [1], "num_channels": channels,
            "padding": "SAME", **others}


RESIDUAL = {"residual": True}
DENSE = {"residual": True, "residual_dense": True}
STACKS = {
    "wave2letter": [layer(kernel=11, stride=[2]), layer(kernel=4, repeat=2), layer(dilation=[2]), layer(kernel=1)],
    "jasper": [layer(stride=[3]), layer(repeat=2, **RESIDUAL), layer(channels=16, repeat=2, **RESIDUAL)],
    "dense": [layer(), layer(repeat=2, **DENSE), layer(channels=16, **DENSE), layer(repeat=2, **DENSE)],
    "quartznet": [layer("sep_conv1d", 7, stride=[2]), layer("sep_conv1d", repeat=2, **RESIDUAL),
                  layer("sep_conv1d", dilation=[2]), layer(kernel=1)],
    "valid": [layer(padding="VALID", stride=[2]), layer(padding="VALID", kernel=3, dilation=[2]), layer("tcn", 3)],
    "conv2d": [{**layer("conv2d", channels=3), "kernel_size": [5, 3], "stride": [2, 2]},
               {**layer("conv2d", channels=4, repeat=2), "kernel_size": [3, 3], "stride": [1, 1]}, layer()],
    "residual conv2d": [{**layer("conv2d", channels=3), "kernel_size": [5, 3], "stride": [2, 2]},
                        {**layer("conv2d", channels=4, repeat=2, **RESIDUAL), "kernel_size": [3, 3], "stride": [1, 1]},
                        {**layer("conv2d", channels=4, **RESIDUAL), "kernel_size": [3, 1], "stride": [1, 1],
                         "dilation": [2, 1]}],
    "dense conv2d": [{**layer("conv2d", channels=3, repeat=2, **DENSE), "kernel_size": [3, 3], "stride": [1, 1]},
                     {**layer("conv2d", channels=4, **DENSE), "kernel_size": [3, 1], "stride": [1, 1]}, layer()],
}


def make(stack: Any, seed: int = 0, **params: Any) -> TDNNEncoder:
    layers = STACKS[stack] if isinstance(stack, str) else stack
    with creating_variables(seed):
        return TDNNEncoder({"dropout_keep_prob": 1.0, "convnet_layers": layers, "activation_fn": tf.nn.relu,
                            "num_audio_features": FEATURES, **params})


def utterances(count: int = 16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 60, count)
    return rng.normal(1.0, 2.0, (count, 61, FEATURES)).astype(np.float32), lengths.astype(np.int32)


def train_once(encoder: TDNNEncoder, features: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    with forward_pass(1, tf.constant(3, tf.int64)):
        return encoder.encode({"source_tensors": [tf.constant(features), tf.constant(lengths)]}, True)


def test_features_as_channels_equal_convolutions_over_time():
    """As in jasper_commands: windows one frequency wide over images one pixel wide."""
    flat = make("jasper")
    wide = make([{**entry, "type": "conv2d", "kernel_size": [*entry["kernel_size"], 1], "stride": [*entry["stride"], 1]}
                 for entry in STACKS["jasper"]], features_as_channels=True)
    copies = named_variables(wide)
    for name, variable in named_variables(flat).items():
        copies[name].assign(tf.reshape(variable, copies[name].shape))
    features, lengths = utterances(4)
    expected = flat.encode({"source_tensors": [tf.constant(features), tf.constant(lengths)]})["outputs"]
    found = wide.encode({"source_tensors": [tf.constant(features[:, :, None]), tf.constant(lengths)]})["outputs"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert wide.output_size == flat.output_size


@pytest.mark.parametrize("normalization", ["batch_norm", "layer_norm", "instance_norm", None])
@pytest.mark.parametrize("stack", STACKS)
def test_an_utterance_alone_is_the_same_as_in_a_batch(stack: str, normalization: str | None):
    encoder = make(stack, normalization=normalization)
    features, lengths = utterances()
    train_once(encoder, features, lengths)  # moving statistics that are not 0 and 1
    together = encoder.encode({"source_tensors": [tf.constant(features), tf.constant(lengths)]})
    assert together["outputs"].shape[-1] == encoder.output_size
    largest = np.abs(together["outputs"]).max()
    for number in (3, 12):
        length = lengths[number]
        alone = encoder.encode({"source_tensors": [tf.constant(features[number:number + 1, :length]),
                                                   tf.constant([length])]})
        assert int(alone["src_length"][0]) == int(together["src_length"][number]) == alone["outputs"].shape[1]
        np.testing.assert_allclose(alone["outputs"][0], together["outputs"][number, :alone["outputs"].shape[1]],
                                   atol=1e-5 * largest)


@pytest.mark.parametrize("stack", STACKS)
def test_padding_changes_nothing_in_training(stack: str):
    """Not even where it holds NaN."""
    features, lengths = utterances(4)
    lengths[:] = [30, 45, 30, 21]
    outcomes = []
    for longest, filler in ((45, 0.0), (61, np.nan)):
        encoder = make(stack)
        padded = np.full([4, longest, FEATURES], filler, np.float32)
        for row, length in enumerate(lengths):
            padded[row, :length] = features[row, :length]
        outcomes.append(trained(encoder, functools.partial(train_once, encoder, padded, lengths), tf.sin))
    assert_alike(*outcomes)


@pytest.mark.parametrize("stack", STACKS)
def test_lengths_are_those_of_the_layers_one_after_the_other(stack: str):
    encoder = make(stack)
    expected = np.arange(20, 62)
    for entry in STACKS[stack]:
        kernel, stride = entry["kernel_size"][0], entry["stride"][0]
        for _ in range(entry["repeat"]):
            reach = (kernel - 1) * entry.get("dilation", [1])[0]
            expected = ((expected - reach - 1) // stride + 1 if entry["padding"] == "VALID" and entry["type"] != "tcn"
                        else -(-expected // stride))
    result = encoder.encode({"source_tensors": [tf.zeros([42, 61, FEATURES]), tf.range(20, 62)]})
    np.testing.assert_array_equal(result["src_length"], expected)
    assert result["outputs"].shape[1] == expected[-1] == encoder.output_lengths(61)
    np.testing.assert_array_equal(encoder.output_lengths(np.arange(20, 62)), expected)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_everything_learns_in_mixed_precision_too(dtype: tf.DType):
    features, lengths = utterances(4)
    encoder = make("dense", dtype=dtype, dropout_keep_prob=0.8, drop_block_prob=0.3)
    with tf.GradientTape() as tape:
        outputs = train_once(encoder, features, lengths)["outputs"]
        loss = tf.reduce_sum(tf.square(tf.cast(outputs, tf.float32)))
    assert outputs.dtype == dtype
    learned = {name: variable for name, variable in named_variables(encoder).items() if variable.trainable}
    for name, gradient in tape.gradient(loss, learned).items():
        assert gradient is not None and gradient.dtype == tf.float32, name
        assert np.isfinite(gradient).all() and np.any(gradient), name


def test_dense_blocks_add_the_inputs_of_all_earlier_ones():
    """By the same weights, with the sum written out."""
    encoder = make("dense", normalization=None, activation_fn=None)
    x = np.random.default_rng(1).normal(size=(1, 9, FEATURES)).astype(np.float32)
    got = encoder.encode({"source_tensors": [tf.constant(x), tf.constant([9])]})["outputs"]
    inputs = []
    current = tf.constant(x)
    for number, block in enumerate(encoder.blocks):
        if number:
            inputs.append(current)
        for conv in block.layers:
            current = tf.nn.conv1d(current, conv.convolution.kernel, 1, "SAME")
        for conv, earlier in zip(block.residuals, inputs if number else [], strict=True):
            current += earlier @ conv.convolution.kernel[0]
    np.testing.assert_allclose(got, current, atol=1e-4)
    assert [len(block.residuals) for block in encoder.blocks] == [0, 1, 2, 3]


def test_a_dropped_block_is_its_residual_alone():
    encoder = make("jasper", drop_block_index=1, normalization=None, activation_fn="tf.nn.tanh")
    x = tf.constant(utterances(2)[0])
    lengths = tf.constant([61, 61])
    got = encoder.encode({"source_tensors": [x, lengths]})["outputs"]
    first, second, third = encoder.blocks
    x, lengths = first(x, lengths)
    x = tf.tanh(x @ second.residuals[0].convolution.kernel[0])
    expected, _ = third(x, lengths, [x])
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_training_drops_blocks_by_the_seed_of_the_step():
    encoder = make("jasper", drop_block_prob=0.5, normalization=None)
    features, lengths = utterances(2)

    def outputs(step: int) -> bytes:
        with forward_pass(1, tf.constant(step, tf.int64)):
            result = encoder.encode({"source_tensors": [tf.constant(features), tf.constant(lengths)]}, True)
        return result["outputs"].numpy().tobytes()

    drawn = [outputs(step) for step in range(40)]
    assert len(set(drawn)) == 4  # two blocks, each with or without
    assert drawn[:3] == [outputs(step) for step in range(3)]


def test_dropout_keeps_the_mean():
    encoder = make([layer(channels=64)], dropout_keep_prob=0.5, normalization=None)
    features, lengths = utterances()
    dropped = train_once(encoder, features, lengths)["outputs"]
    whole = encoder.encode({"source_tensors": [tf.constant(features), tf.constant(lengths)]})["outputs"]
    np.testing.assert_allclose(np.mean(dropped), np.mean(whole), rtol=0.05)
    kept = dropped.numpy() != 0
    np.testing.assert_allclose(dropped.numpy()[kept], 2 * whole.numpy()[kept], rtol=1e-4)


def test_without_masks_padding_matters():
    features, lengths = utterances(2)
    one, other = (make("wave2letter", use_conv_mask=masked) for masked in (True, False))
    source = [tf.constant(features), tf.constant(lengths)]
    assert not np.allclose(one.encode({"source_tensors": source})["outputs"],
                           other.encode({"source_tensors": source})["outputs"])


@pytest.mark.parametrize(("changes", "message"), [
    ({"convnet_layers": []}, "convnet_layers' is empty"),
    ({"convnet_layers": [layer(kernal_size=3)]}, "convnet_layers/0/kernal_size.*Did you mean 'kernel_size'"),
    ({"convnet_layers": [layer(), layer(stride=[2, 2])]}, "convnet_layers/1/stride' must be one positive integer"),
    ({"convnet_layers": [layer(repeat=0)]}, "repeat' is 0"),
    ({"convnet_layers": [layer(stride=[2], dilation=[2])]}, "one of them must be 1"),
    ({"convnet_layers": [layer(stride=[2], residual=True)]}, "needs a stride of 1"),
    ({"convnet_layers": [layer(residual_dense=True)]}, "residual_dense' needs residual"),
    ({"convnet_layers": [layer(dropout_keep_prob=0.0)]}, "dropout_keep_prob' is 0.0"),
    ({"convnet_layers": [layer(), {**layer("conv2d"), "kernel_size": [3, 3], "stride": [1, 1]}]}, "no frequency axis"),
    ({"convnet_layers": [{**layer("conv2d", **DENSE), "kernel_size": [3, 3], "stride": [1, 1]}, layer(**DENSE)]},
     "residual_dense both for conv2d and for other kinds"),
    ({"drop_block_prob": 0.1}, "needs blocks with a residual"),
    ({"drop_block_index": 3}, "drop_block_index' must be -1 or .* got 3"),
    ({"activation_fn": "rellu"}, "Did you mean 'relu'"),
    ({"num_audio_features": None}, "num_audio_features' is missing"),
])
def test_mistakes_are_named(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        make(changes.pop("convnet_layers", "wave2letter"), **changes)
