"""Streaming recognition: the offline transcript in the end, whatever the pieces; bad audio refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_seq2seq.data.audio.audio_files import read_audio
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.inference.speech2text.frame_asr import FrameASR
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models import Speech2Text
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.utils.errors import ConfigError, DataError, UserError

RATE = 8000


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    write_toy_speech(str(folder), {"dev": 3}, rate=RATE)
    return folder


@pytest.fixture(scope="module")
def make(toy):
    def make(mode: str = "interactive_infer", data: dict[str, Any] | None = None,
             decoder: dict[str, Any] | None = None) -> Speech2Text:
        layers = [{"type": "conv1d", "repeat": 1, "kernel_size": 11, "stride": 2, "num_channels": 24,
                   "padding": "SAME"},
                  {"type": "conv1d", "repeat": 2, "kernel_size": 7, "stride": 1, "num_channels": 24,
                   "padding": "SAME"}]
        spec = describe_model("Speech2Text", {
            "batch_size_per_gpu": 1, "encoder": "TDNNEncoder", "data_layer": "Speech2TextDataLayer",
            "encoder_params": {"convnet_layers": layers, "activation_fn": "relu", "dropout_keep_prob": 1.0},
            "decoder": "FullyConnectedCTCDecoder", "decoder_params": decoder or {},
            "data_layer_params": {
                "vocab_file": str(toy / "vocab.txt"), "backend": "librosa", "input_type": "logfbank",
                "num_audio_features": 20, "sample_freq": RATE, "dither": 1e-5, "norm_per_feature": True,
                **(data or {})}}, mode)
        model = build_model(spec, 3)
        # Where features are zero, as those of silence are, rounding would choose the symbol.
        model.decoder.bias.assign(0.05 * np.random.default_rng(1).normal(size=model.decoder.bias.shape))
        return model  # type: ignore[return-value]
    return make


@pytest.fixture(scope="module")
def asr(make) -> FrameASR:
    return FrameASR(make())


@pytest.fixture(scope="module")
def speech(toy) -> np.ndarray:
    return np.concatenate([read_audio(str(path), RATE) for path in sorted((toy / "wav").glob("*.wav"))])


def offline(asr: FrameASR, audio: Any) -> str:
    return TrainedModel(asr.model).infer([audio])[0].text


def feed(asr: FrameASR, audio: np.ndarray, longest: int, seed: int = 0) -> str:
    rng, begin = np.random.default_rng(seed), 0
    asr.reset()
    while begin < len(audio):
        length = int(rng.integers(0, longest + 1))
        asr.transcribe(audio[begin:begin + length])
        begin += length
    return asr.finish()


@pytest.mark.parametrize("longest", [100, 3000, 100_000])
def test_the_end_is_the_offline_transcript(asr: FrameASR, speech: np.ndarray, longest: int):
    text = feed(asr, speech[:9000 if longest < 1000 else None], longest)
    assert text == offline(asr, speech[:9000 if longest < 1000 else None]) and len(text) > 5


@pytest.mark.parametrize("data", [{"backend": "psf", "input_type": "spectrogram"},
                                  {"backend": "librosa", "input_type": "mfcc", "norm_per_feature": False},
                                  {"backend": "tf", "gain": 0.5}])
def test_other_features_do_so_too(make, speech: np.ndarray, data: dict[str, Any]):
    asr = FrameASR(make(data=data))
    assert feed(asr, speech, 3000) == offline(asr, speech)


def test_prefix_beam_search_does_so_too(make, speech: np.ndarray):
    asr = FrameASR(make(decoder={"use_language_model": True, "beam_width": 8}))
    assert feed(asr, speech, 3000) == offline(asr, speech)


def test_the_transcript_grows_and_its_stable_part_leads(asr: FrameASR, speech: np.ndarray):
    asr.reset()
    sizes, behind = [], 0
    for begin in range(0, len(speech), 1600):
        found = asr.transcribe(speech[begin:begin + 1600])
        sizes.append(len(found.text))
        behind += len(found.stable) < len(found.text)
    assert sizes[-1] > sizes[len(sizes) // 2] > sizes[0] and behind > 0
    assert asr.look_ahead_seconds == pytest.approx((asr._logits.field.behind * 80 + 80) / RATE)


def test_audio_of_another_rate_kind_or_number_of_channels_is_converted(asr: FrameASR, speech: np.ndarray):
    stereo = (np.stack([speech, speech], 1) * 32767).astype(np.int16)
    asr.reset(44100)
    for begin in range(0, len(stereo), 7000):
        asr.transcribe(stereo[begin:begin + 7000])
    text = asr.finish()
    asr.reset(RATE)
    assert text == offline(asr, (stereo, 44100))


def test_a_stream_without_end_needs_a_bounded_memory(make, speech: np.ndarray):
    asr = FrameASR(make(), history_seconds=1.0)
    asr.reset()
    for _ in range(12):
        text = asr.transcribe(speech).text
        assert asr._features.end - asr._features.first < 300
        assert len(asr._features._audio) < 300 * 80 + len(speech)
    settled = asr._settled.text()
    assert len(settled) > 100 and asr.finish().startswith(settled) and text.startswith(settled)


def test_normalisation_that_changes_is_made_up_for(asr: FrameASR, speech: np.ndarray):
    quiet_then_loud = np.concatenate([0.01 * speech, speech])
    assert feed(asr, quiet_then_loud, 1600) == offline(asr, quiet_then_loud)


def test_the_end_may_be_asked_for_twice_and_nothing_follows_it(asr: FrameASR, speech: np.ndarray):
    text = feed(asr, speech, 3000)
    assert asr.finish() == text
    with pytest.raises(DataError, match="finished: call reset"):
        asr.transcribe(speech)
    asr.reset()
    assert asr.transcribe(speech[:0]) == ("", "") and asr.finish() == ""


@pytest.mark.parametrize(("piece", "message"), [
    (np.array([0.1, np.nan, np.inf], np.float32), "2 NaN"),
    (np.zeros([1, 2, 3]), r"it has the shape \[1, 2, 3\], but must be \[samples\] or"),
    (np.zeros([2, 160]), r"it has the shape \[2, 160\], but must be \[samples\] or .*: transpose it\."),
])
def test_what_is_no_audio_is_refused_and_may_be_left_out(asr: FrameASR, speech: np.ndarray, piece: Any, message: str):
    asr.reset()
    asr.transcribe(speech)
    with pytest.raises(DataError, match=message):
        asr.transcribe(piece)
    assert asr.finish() == offline(asr, speech)


def test_silence_and_very_short_audio_are_no_mistakes(asr: FrameASR):
    for audio in (np.zeros(5000, np.float32), np.zeros(1, np.float32), np.full(3, 0.5, np.float32)):
        assert feed(asr, audio, 1000) == offline(asr, audio)


def test_impossible_arguments_are_refused(make, asr: FrameASR):
    for wrong in ({"history_seconds": 0.0}, {"history_seconds": math.inf}, {"tolerance": -1.0}):
        with pytest.raises(UserError, match="must be greater than 0"):
            FrameASR(asr.model, **wrong)
    for rate in (10, 0, 8000.5, "8000", float("nan")):
        with pytest.raises(DataError, match="The audio must have a sampling rate from 1,000"):
            asr.reset(rate)
    assert asr.rate == RATE


def test_other_tasks_are_refused():
    with pytest.raises(ConfigError, match="does not recognise speech"):
        FrameASR(object())  # type: ignore[arg-type]
