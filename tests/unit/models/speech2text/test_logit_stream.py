"""Logits of features in pieces: those of the whole utterance, whatever the encoder and the cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.encoders import Encoder
from open_seq2seq.models import Speech2Text
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.models.speech2text.logit_stream import LogitStream, streaming_field
from open_seq2seq.parts.conv_blocks.convolution import ReceptiveField, Window
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders.test_tdnn_encoder import STACKS

FEATURES = 12
FORWARD = {"encoder": "DeepSpeech2Encoder", "encoder_params": {
    "conv_layers": [{"kernel_size": [11, 5], "stride": [2, 2], "num_channels": 4, "padding": "SAME"}],
    "num_rnn_layers": 2, "rnn_cell_dim": 8, "rnn_type": "gru", "rnn_unidirectional": True, "row_conv": True,
    "n_hidden": 16, "use_cudnn_rnn": False, "activation_fn": "relu", "dropout_keep_prob": 1.0}}


def convolutions(stack: str, **others: Any) -> dict[str, Any]:
    return {"encoder": "TDNNEncoder", "encoder_params": {
        "convnet_layers": STACKS[stack], "activation_fn": "relu", "dropout_keep_prob": 1.0, **others}}


@pytest.fixture(scope="module")
def vocab(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("toy")
    write_toy_speech(str(folder), {"dev": 1}, rate=8000)
    return str(Path(folder) / "vocab.txt")


@pytest.fixture
def make(vocab):
    def make(pad_to: int = 16, data: dict[str, Any] | None = None, **params: Any) -> Speech2Text:
        spec = describe_model("Speech2Text", {
            "batch_size_per_gpu": 1, "data_layer": "Speech2TextDataLayer", "decoder": "FullyConnectedCTCDecoder",
            "data_layer_params": {"vocab_file": vocab, "backend": "librosa", "input_type": "logfbank",
                                  "num_audio_features": FEATURES, "sample_freq": 8000, "pad_to": pad_to,
                                  **(data or {})},
            **params}, "interactive_infer")
        return build_model(spec, 5)  # type: ignore[return-value]
    return make


def utterance(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(frames, FEATURES)).astype(np.float32)


def offline(model: Speech2Text, features: np.ndarray) -> np.ndarray:
    """Logits of the utterance as a batch of its own, by the model's parts themselves."""
    pad_to = max(1, model.data_layer.params["pad_to"])
    padded = np.pad(features, [(0, -len(features) % pad_to), (0, 0)])[np.newaxis]

    def run(values: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        decoded = model.decoder.decode({"encoder_output": model.encoder.encode({"source_tensors": [values, lengths]})})
        return decoded["logits"], decoded["src_length"]

    logits, lengths = tf.function(run)(padded, np.array([len(features)], np.int32))
    return logits[0, :int(lengths[0])].numpy()


def streamed(stream: LogitStream, features: np.ndarray, longest: int, seed: int = 0) -> np.ndarray:
    """All complete logits, joined as a decoder joins them; features that are not needed any more are not given."""
    rng, settled, complete, end = np.random.default_rng(seed), [], np.zeros([0, 0]), 0
    while end < len(features):
        first = stream.first_needed
        end = min(len(features), end + int(rng.integers(1, longest + 1)))
        found = stream.advance(features[first:end], first, ended=end == len(features))
        assert not found.revised
        complete = np.concatenate([complete, found.complete]) if len(complete) else found.complete
        settled, complete = [*settled, complete[:len(found.settled)]], complete[len(found.settled):]
        np.testing.assert_array_equal(settled[-1], found.settled)
    assert not len(found.tentative)
    return np.concatenate([piece for piece in [*settled, complete] if len(piece)])


@pytest.mark.long
@pytest.mark.parametrize(("stack", "others"), [
    *((stack, {}) for stack in STACKS), ("wave2letter", {"use_conv_mask": False}),
    ("jasper", {"use_conv_mask": False, "normalization": None}), ("dense", {"normalization": "layer_norm"})])
def test_they_are_those_of_the_whole(make, stack: str, others: dict[str, Any]):
    model = make(**convolutions(stack, **others))
    for frames, longest, held in ((55, 3, 1000), (160, 20, 10), (48, 48, 5)):
        features = utterance(frames)
        found = streamed(LogitStream(model, held, 0.1), features, longest)
        np.testing.assert_allclose(found, offline(model, features), rtol=1e-5, atol=1e-5)


@pytest.mark.long
def test_a_forward_recurrence_is_exact_within_the_history(make):
    model = make(**FORWARD)
    features = utterance(80)
    found = streamed(LogitStream(model, 1000, 0.1), features, 20)
    np.testing.assert_allclose(found, offline(model, features), rtol=1e-5, atol=1e-5)
    short = streamed(LogitStream(model, 40, 0.1), features, 20)
    assert short.shape == found.shape and np.abs(short[:20] - found[:20]).max() < 1e-5


@pytest.mark.long
def test_tentative_logits_are_those_of_an_utterance_that_ends_here(make):
    model = make(**convolutions("wave2letter"))
    stream, features = LogitStream(model, 1000, 0.1), utterance(100)
    first = stream.advance(features[:60], 0, False)
    second = stream.advance(features, 0, False)
    for parts, end in (([first.complete, first.tentative], 60), ([first.complete, second.complete, second.tentative],
                                                                100)):
        np.testing.assert_allclose(np.concatenate(parts), offline(model, features[:end]), rtol=1e-5, atol=1e-5)
    assert len(first.tentative) and stream.field.behind >= 10


@pytest.mark.long
def test_changed_features_are_computed_anew(make):
    model = make(**convolutions("jasper"))
    stream, features = LogitStream(model, 1000, 0.1), utterance(120)
    stream.advance(1.5 * features[:80], 0, False)
    assert not stream.advance(1.51 * features[:90], 0, False).revised
    found = stream.advance(features[:100], 0, False)
    assert found.revised
    np.testing.assert_allclose(np.concatenate([found.complete, found.tentative]), offline(model, features[:100]),
                               rtol=1e-5, atol=1e-5)
    assert not stream.advance(1.001 * features[:110], 0, False).revised
    last = stream.advance(features, 0, True)
    assert last.revised and not len(last.tentative)
    np.testing.assert_allclose(last.complete, offline(model, features), rtol=1e-5, atol=1e-5)


def test_what_is_settled_is_not_computed_again(make):
    model = make(**convolutions("wave2letter"))
    stream, features = LogitStream(model, 40, 0.1), utterance(200)
    first = stream.advance(features[:160], 0, False)
    assert len(first.settled) == (160 - 40) // 2
    second = stream.advance(3 * features[stream.first_needed:], stream.first_needed, False)
    assert second.revised and stream.first_needed > 0
    assert len(first.settled) + len(second.complete) + len(second.tentative) == 100


def test_an_utterance_too_short_for_an_output_has_none(make):
    stream = LogitStream(make(**convolutions("valid")), 100, 0.1)
    assert stream.field.least == 13
    assert not len(stream.advance(utterance(8), 0, True).complete)
    stream.reset()
    assert len(stream.advance(utterance(13), 0, True).complete) == 1


def test_graphs_are_traced_once(make):
    stream = LogitStream(make(**convolutions("wave2letter")), 100, 0.1)
    stream.warm_up()
    for frames in (5, 50, 77):
        stream.reset()
        stream.advance(utterance(frames), 0, True)
    assert stream._run.experimental_get_tracing_count() == 1


BIDIRECTIONAL = {**FORWARD, "encoder_params": {**FORWARD["encoder_params"], "rnn_unidirectional": False}}
ATTENTION = {"encoder": "TDNNEncoder", "encoder_params": convolutions("jasper")["encoder_params"],
             "data": {"autoregressive": True}, "decoder": "ListenAttendSpellDecoder", "decoder_params": {
                 "tgt_emb_size": 8, "attention_params": {"attention_type": "bahdanau", "attention_dim": 8},
                 "rnn_type": "lstm", "hidden_dim": 8, "num_layers": 1, "dropout_keep_prob": 1.0}}


@pytest.mark.parametrize(("params", "message"), [
    (BIDIRECTIONAL, "DeepSpeech2Encoder, as configured, needs the whole utterance"),
    (convolutions("jasper", normalization="instance_norm"), "TDNNEncoder, as configured, needs the whole utterance"),
    (ATTENTION, "ListenAttendSpellDecoder attends to the whole utterance"),
])
def test_models_that_look_at_the_whole_utterance_are_refused(make, params: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message) as caught:
        LogitStream(make(**params), 100, 0.1)
    assert len(caught.value.problems) == 1


def test_other_tasks_are_refused():
    with pytest.raises(ConfigError, match="does not recognise speech"):
        streaming_field(object())


class Untold(Encoder):
    """Sums of three frames, every second one; without the mixin of speech encoders, and telling nothing of time."""

    output_size = FEATURES

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        features, lengths = input_dict["source_tensors"]
        features *= tf.sequence_mask(lengths, tf.shape(features)[1], tf.float32)[:, :, tf.newaxis]
        sums = features + tf.pad(features, [[0, 0], [1, 0], [0, 0]])[:, :-1] + tf.pad(
            features, [[0, 0], [0, 1], [0, 0]])[:, 1:]
        return {"outputs": sums[:, ::2], "outputs_length": -(-lengths // 2)}


class Told(Untold):
    """The same, which tells windows and receptive field by attributes of its own."""

    time_windows = (Window(3, 2),)

    def receptive_field(self) -> ReceptiveField:
        return ReceptiveField(1, 1, 2, 1)


def test_an_encoder_without_the_mixin_is_streamed_where_it_tells_its_receptive_field(make):
    model, features = make(encoder=Told), utterance(45)
    np.testing.assert_allclose(streamed(LogitStream(model, 10, 0.1), features, 7), offline(model, features), atol=1e-5)
    assert model.step_seconds == 2 * model.data_layer.settings.frame_seconds
    with pytest.raises(ConfigError, match="Untold does not declare its receptive field.* the class from SpeechEncoder"):
        LogitStream(make(encoder=Untold), 10, 0.1)
