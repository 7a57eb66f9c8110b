"""The loss of vocoders against a computation with librosa."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings
from open_seq2seq.losses import VocoderLoss, WavenetLoss
from open_seq2seq.parts.sample_values import LogisticMixture, MuLaw
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.librosa_import import import_librosa

librosa = import_librosa()
SETTINGS = SpectrogramSettings(num_mels=10, n_fft=128, sample_freq=8000)
FLOOR = 1e-4


def magnitudes(audio: np.ndarray, points: int) -> np.ndarray:
    spectrum = librosa.stft(audio, n_fft=points, hop_length=points // 4, pad_mode="constant").T
    return np.abs(spectrum) / np.sqrt(0.375 * points)


def log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, FLOOR))


def terms_of(sound, audio, log_magnitude, frames, ids):
    decoded = {"sound": tf.constant(sound), "log_magnitude": tf.constant(log_magnitude),
               "outputs_length": tf.constant(frames)}
    loss = VocoderLoss({"settings": SETTINGS, "resolutions": [64, 256], "mel_weight": 2.0})
    terms = loss.compute_loss({"decoder_output": decoded, "target_tensors": [tf.constant(audio), None],
                               "ids": tf.constant(ids)})
    return {term.name: term for term in terms}


@pytest.fixture(scope="module")
def tensors():
    rng = np.random.default_rng(0)
    return (rng.normal(size=[3, 20 * 32]).astype(np.float32) * 0.1, rng.normal(size=[3, 21 * 32]).astype(np.float32),
            rng.normal(size=[3, 21, 65]).astype(np.float32))


def test_terms_are_means_over_frames_and_then_over_examples(tensors):
    sound, audio, log_magnitude = tensors
    sound = sound.copy()
    sound[1, 9 * 32:] = 0.0  # as the encoder returns it
    terms = terms_of(sound, audio, log_magnitude, [21, 10, 21], [5, 3, -1])
    expected = dict.fromkeys(terms, 0.0)
    for row, frames in ((0, 21), (1, 10)):
        size = (frames - 1) * 32
        for points in (64, 256):
            given, target = (magnitudes(one[row, :size], points) for one in (sound, audio))
            expected[f"log_{points}"] += np.abs(log(given) - log(target)).mean()
            expected[f"convergence_{points}"] += np.linalg.norm(given - target) / np.linalg.norm(target)
        given, target = (magnitudes(one[row, :size], 128) for one in (sound, audio))
        basis = SETTINGS.mel_basis / SETTINGS.mel_basis.sum(1, keepdims=True)
        expected["mel"] += np.abs(log(given @ basis.T) - log(target @ basis.T)).mean()
        network = log_magnitude[row, :frames] - 0.5 * np.log(0.375 * 128)
        expected["magnitude"] += np.abs(np.maximum(network, np.log(FLOOR)) - log(target))[2:-2].mean()
    assert {name: term.sum.numpy() for name, term in terms.items()} == pytest.approx(expected, rel=1e-4)
    assert {float(term.units) for term in terms.values()} == {2.0}
    assert {name: term.weight for name, term in terms.items()} == {**dict.fromkeys(terms, 1.0), "mel": 2.0}


def test_a_copy_has_no_loss(tensors):
    _, audio, log_magnitude = tensors
    terms = terms_of(audio[:, :20 * 32], audio, log_magnitude, [21, 21, 21], [0, 1, 2])
    for name, term in terms.items():
        assert name == "magnitude" or float(term.sum) == pytest.approx(0.0, abs=1e-5)


def test_magnitudes_of_a_piece_are_compared_where_they_are_those_of_the_clip():
    clip = np.random.default_rng(1).normal(size=60 * 32).astype(np.float32)
    whole = np.abs(librosa.stft(clip, n_fft=128, hop_length=32, pad_mode="constant")).T
    piece, frames = clip[20 * 32:32 * 32 + 32], 13
    term = terms_of(piece[np.newaxis, :12 * 32], piece[np.newaxis], np.log(whole[np.newaxis, 20:33]), [frames], [0])
    assert float(term["magnitude"].sum) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("frames", [1, 4])
def test_short_clips_count_with_all_frames(frames):
    sound = np.random.default_rng(2).normal(size=[1, max(1, frames - 1) * 32]).astype(np.float32)
    audio = np.concatenate([sound, sound[:, :32]], 1)
    term = terms_of(sound[:, :(frames - 1) * 32], audio, np.zeros([1, frames, 65], np.float32), [frames], [0])
    assert np.isfinite(term["magnitude"].sum) and float(term["magnitude"].sum) > 0


def test_silence_does_not_decide_the_update(tensors):
    sound, audio, log_magnitude = tensors
    audio = audio.copy()
    audio[0] = 0.0
    terms = terms_of(1e-2 * sound, audio, log_magnitude, [21, 21, 21], [5, 3, -1])
    assert all(np.isfinite(term.sum.numpy()) and term.sum.numpy() < 50 for term in terms.values())


@pytest.mark.parametrize("sizes", [[512.5], ["a"], [True], [510], [512, 512]])
def test_bad_resolutions_are_refused(sizes):
    with pytest.raises(ConfigError, match="resolutions"):
        VocoderLoss({"settings": SETTINGS, "resolutions": sizes})


def test_the_last_samples_of_each_clip_count():
    rng = np.random.default_rng(0)
    audio, logits = rng.uniform(-1, 1, [3, 10]).astype(np.float32), rng.normal(size=[3, 6, 8]).astype(np.float32)
    labels = MuLaw(8).of_audio(tf.constant(audio)).numpy()
    (term,) = WavenetLoss({}).compute_loss({
        "decoder_output": {"logits": tf.constant(logits)}, "ids": tf.constant([4, 7, -1]),
        "target_tensors": [tf.constant(audio), tf.constant([10, 7, 10])]})
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = [log_probs[row, place - 4, labels[row, place]] for row, length in ((0, 10), (1, 7))
                for place in range(4, length)]
    np.testing.assert_allclose([term.sum, term.units], [-np.sum(expected), len(expected)], rtol=1e-6)
    assert term.unit == "sample"


def test_of_mixtures_the_last_samples_count_too():
    rng = np.random.default_rng(1)
    audio, parameters = rng.uniform(-1, 1, [2, 7]).astype(np.float32), rng.normal(size=[2, 5, 6]).astype(np.float32)
    mixture = LogisticMixture(2 ** 10, 2)
    (term,) = WavenetLoss({"samples": mixture}).compute_loss({
        "decoder_output": {"logits": tf.constant(parameters)}, "ids": tf.constant([0, 1]),
        "target_tensors": [tf.constant(audio), tf.constant([7, 4])]})
    errors = mixture.errors(tf.constant(parameters), tf.constant(audio[:, 2:])).numpy()
    np.testing.assert_allclose([term.sum, term.units], [errors[0].sum() + errors[1, :2].sum(), 7], rtol=1e-6)
