"""Each kind of operation computes in its own type: what a partial choice of mixed means to the parts of models."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import ListenAttendSpellDecoder
from open_seq2seq.encoders import DeepSpeech2Encoder, ListenAttendSpellEncoder, TDNNEncoder
from open_seq2seq.optimizers import resolve_dtype
from open_seq2seq.parts.component import creating_variables, named_modules
from open_seq2seq.parts.observation import observing
from open_seq2seq.parts.precision import KINDS
from tests.unit.decoders.test_las_decoder import PARAMS as SPELLER
from tests.unit.decoders.test_las_decoder import encoded, targets
from tests.unit.encoders.test_deep_speech2_encoder import PARAMS as DEEP_SPEECH
from tests.unit.encoders.test_las_encoder import PARAMS as LISTENER

pytestmark = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")),
                                reason="on GPUs mixed computes all kinds in float16")

LAYER = {"type": "conv1d", "repeat": 1, "kernel_size": [3], "stride": [1], "num_channels": 5, "padding": "SAME",
         "dilation": [1], "residual": True}
TDNN = {"convnet_layers": [LAYER], "dropout_keep_prob": 1.0, "activation_fn": "relu", "num_audio_features": 10}
# Part of the path of a module → the kind that its outputs are of.
CASES = {
    "Deep Speech 2": (DeepSpeech2Encoder, DEEP_SPEECH, {"convolution_": "convolution", "rnn/": "recurrence"}),
    "row convolution": (DeepSpeech2Encoder, {**DEEP_SPEECH, "row_conv": True, "num_rnn_layers": 0},
                        {"convolution_0": "convolution"}),
    "Jasper": (TDNNEncoder, TDNN, {"block_": "convolution"}),
    "listener": (ListenAttendSpellEncoder, LISTENER, {"block_": "convolution", "recurrence_": "recurrence"}),
}
CHOICES = [(), *((kind,) for kind in KINDS), KINDS[:2]]


def make(cls, params, choice, **parts):
    model = SimpleNamespace(precision=resolve_dtype("mixed", choice), **parts)
    with creating_variables(1):
        return cls({**params, "dtype": model.precision.compute}, model, "part", "train"), model.precision


@pytest.mark.parametrize("choice", CHOICES, ids=lambda kinds: "+".join(kinds) or "none")
@pytest.mark.parametrize("case", CASES)
def test_stages_of_encoders_compute_in_their_kinds_type(case, choice):
    cls, params, kinds = CASES[case]
    encoder, precision = make(cls, params, choice)
    features = tf.random.stateless_normal([2, 24, params["num_audio_features"]], [1, 2])
    with observing(named_modules(encoder)) as seen:
        result = encoder.encode({"source_tensors": [features, tf.constant([24, 17])]}, False)
    checked = set()
    for path, tensors in seen.tensors.items():
        for part, kind in kinds.items():
            if part in path and not re.search("norm|forward|backward", path):  # states inside are FP32
                checked.add(part)
                assert {tensor.dtype for tensor in tensors} == {precision.type_of(kind)}, path
    assert checked == set(kinds)
    assert result["outputs"].dtype == encoder.compute_dtype == precision.type_of("product")


@pytest.mark.parametrize("choice", CHOICES, ids=lambda kinds: "+".join(kinds) or "none")
def test_the_speller_is_recurrent(choice):
    decoder, precision = make(ListenAttendSpellDecoder, SPELLER, choice, encoder=SimpleNamespace(output_size=5))
    with observing(named_modules(decoder)) as seen:
        decoder.decode({"encoder_output": encoded(), "target_tensors": targets()}, False)
    outputs = [tensor for tensor in seen.tensors["speller/output"] if tensor.shape[-1] == decoder.speller.output_size]
    assert {tensor.dtype for tensor in outputs} == {precision.type_of("recurrence")}


def test_all_kinds_are_bfloat16_throughout_and_none_is_float32():
    features = tf.random.stateless_normal([2, 24, 10], [1, 2])
    source = {"source_tensors": [features, tf.constant([24, 17])]}
    for choice, dtype in ((KINDS, tf.bfloat16), ((), tf.float32)):
        chosen, _ = make(DeepSpeech2Encoder, DEEP_SPEECH, choice)
        with creating_variables(1):
            plain = DeepSpeech2Encoder({**DEEP_SPEECH, "dtype": dtype}, None, "part", "train")
        ours, theirs = (encoder.encode(source, False)["outputs"] for encoder in (chosen, plain))
        assert ours.dtype == theirs.dtype == dtype
        np.testing.assert_array_equal(tf.cast(ours, tf.float32), tf.cast(theirs, tf.float32))
