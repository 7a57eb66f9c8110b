"""The encoder of Listen, Attend and Spell: padding, lengths, pooling, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import ListenAttendSpellEncoder
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError

FEATURES = 6
CONVOLUTION = {"type": "conv1d", "repeat": 2, "kernel_size": [5], "stride": [2], "num_channels": 7, "padding": "SAME"}
RECURRENT = {"type": "lstm", "num_layers": 1, "hidden_dim": 4, "pool": True, "pool_size": 2, "stride": 2}
PARAMS = {"dropout_keep_prob": 1.0, "convnet_layers": [CONVOLUTION], "activation_fn": "relu20",
          "recurrent_layers": [RECURRENT, {"type": "gru", "num_layers": 2, "hidden_dim": 3}],
          "num_audio_features": FEATURES}


def make(**params: Any) -> ListenAttendSpellEncoder:
    with creating_variables(3):
        return ListenAttendSpellEncoder({**PARAMS, **params})


def encode(encoder: ListenAttendSpellEncoder, features: Any, lengths: Any, training: bool = False) -> dict[str, Any]:
    with forward_pass(1, tf.constant(3, tf.int64)):
        return encoder.encode({"source_tensors": [tf.constant(features), tf.constant(lengths, tf.int32)]}, training)


@pytest.mark.parametrize("params", [{}, {"convnet_layers": []}, {"recurrent_layers": []}],
                         ids=["both", "recurrent", "convolutional"])
def test_an_utterance_alone_is_the_same_as_in_a_batch(params: dict[str, Any]):
    encoder, lengths = make(**params), np.random.default_rng(1).integers(8, 33, 16)
    features = np.random.default_rng(0).normal(1.0, 2.0, [16, 33, FEATURES]).astype(np.float32)
    encode(encoder, features, lengths, True)
    together = encode(encoder, features, lengths)
    assert together["outputs"].shape[-1] == encoder.output_size
    largest = np.abs(together["outputs"]).max()
    for row in (3, 12):
        length = lengths[row]
        alone = encode(encoder, features[row:row + 1, :length], [length])
        frames = int(alone["src_length"][0])
        assert frames == int(together["src_length"][row])
        np.testing.assert_allclose(together["outputs"][row, :frames], alone["outputs"][0, :frames], atol=1e-5 * largest)


def test_lengths_shrink_by_strides_and_full_pools():
    result = encode(make(), np.zeros([4, 33, FEATURES], np.float32), [33, 24, 4, 0])
    np.testing.assert_array_equal(result["src_length"], [4, 3, 0, 0])  # ceil(ceil(n / 2) / 2) // 2
    np.testing.assert_array_equal(make().output_lengths(np.array([33, 24, 4, 0])), [4, 3, 0, 0])
    assert make().time_stride == 8


def test_pooling_takes_the_largest():
    pooled = make(convnet_layers=[], recurrent_layers=[RECURRENT])
    plain = make(convnet_layers=[], recurrent_layers=[{**RECURRENT, "pool": False}])
    x = np.random.default_rng(0).normal(size=[2, 7, FEATURES]).astype(np.float32)
    frames = encode(plain, x, [7, 7])["outputs"].numpy()
    np.testing.assert_allclose(encode(pooled, x, [7, 7])["outputs"], np.maximum(frames[:, 0:6:2], frames[:, 1:6:2]),
                               atol=1e-6)


@pytest.mark.parametrize("wrong, message", [
    ({"recurrent_layers": [{"type": "rnn", "num_layers": 1, "hidden_dim": 3}]}, "recurrent_layers/0/type"),
    ({"recurrent_layers": [{"type": "gru", "num_layers": 0, "hidden_dim": 3}]}, "num_layers' is 0"),
    ({"convnet_layers": [{**CONVOLUTION, "stride": [1], "residual": True}]}, "convnet_layers/0' is a conv2d or"),
    ({"recurrent_layers": ["gru"]}, "recurrent_layers/0' is 'gru' but has to be a dict"),
    ({"bn_momentum": 1.0}, "bn_momentum' is 1.0"),
    ({"convnet_layers": [], "recurrent_layers": []}, "neither convnet_layers nor recurrent_layers"),
])
def test_mistakes_are_named(wrong: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        make(**wrong)
