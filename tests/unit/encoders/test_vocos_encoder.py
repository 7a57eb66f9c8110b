"""The vocoder at the rate of frames: batches, padding, mistakes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings
from open_seq2seq.encoders import VocosEncoder
from open_seq2seq.encoders.vocos_encoder import _excited, _unit
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError

SETTINGS = SpectrogramSettings(num_mels=20, n_fft=256, sample_freq=8000, data_min=1e-2, mag_power=1)
HOP = SETTINGS.hop


def make_encoder(**changes):
    """Returns an encoder whose offsets are random, too."""
    with creating_variables(seed=3):
        encoder = VocosEncoder({"hidden_size": 16, "inner_size": 24, "blocks": 2, "settings": SETTINGS, **changes})
    rng = np.random.default_rng(1)
    for variable in named_variables(encoder).values():
        if variable.shape.rank == 1:
            variable.assign(rng.normal(0.5, 0.2, variable.shape))
    return encoder


def encoded(encoder, spectrogram, lengths, training=False):
    with forward_pass(0, 0):
        result = encoder.encode({"source_tensors": [tf.constant(spectrogram, tf.float32), tf.constant(lengths)]},
                                training)
    return {name: result[name].numpy() for name in ("sound", "log_magnitude", "direction")}


@pytest.mark.parametrize("source", ["pulses", None])
@pytest.mark.parametrize("iterations", [0, 2])
def test_a_batch_is_its_examples_alone_and_padding_changes_nothing(source, iterations):
    encoder = make_encoder(source=source, phase_iterations=iterations)
    spectrogram, lengths = np.random.default_rng(0).normal(size=[4, 15, 20]), [15, 9, 1, 0]
    batch = encoded(encoder, spectrogram, lengths)
    assert batch["sound"].shape == (4, 14 * HOP) and np.isfinite(batch["sound"]).all()
    scale = np.abs(batch["sound"]).max()
    for row, length in enumerate(lengths[:3]):
        alone = encoded(encoder, spectrogram[row:row + 1, :length], [length])
        size = max(length - 1, 0) * HOP
        np.testing.assert_allclose(batch["sound"][row, :size], alone["sound"][0], atol=1e-4 * scale)
        assert not batch["sound"][row, size:].any()
        np.testing.assert_allclose(batch["log_magnitude"][row, :length], alone["log_magnitude"][0], atol=1e-4)


def test_an_output_depends_on_the_frames_that_the_convolutions_reach():
    encoder = make_encoder(source=None)
    spectrogram = np.random.default_rng(0).normal(size=[1, 40, 20])
    before = encoded(encoder, spectrogram, [40])["log_magnitude"]
    spectrogram[0, 20] += 1.0
    changed = np.abs(encoded(encoder, spectrogram, [40])["log_magnitude"] - before).max((0, 2)) > 1e-6
    np.testing.assert_array_equal(np.flatnonzero(changed), np.arange(20 - 9, 20 + 10))


def test_the_sound_has_the_magnitudes_and_directions_of_the_network():
    encoder = make_encoder()
    result = encoded(encoder, np.random.default_rng(0).normal(size=[1, 12, 20]), [12], training=True)
    np.testing.assert_allclose(np.abs(result["direction"])[0, 1:-1], 1.0, atol=1e-3)
    assert result["log_magnitude"].max() <= np.log(SETTINGS.n_fft)


def test_gradients_are_finite_also_in_silence():
    encoder = make_encoder()
    silence = np.tile(SETTINGS.padding, [2, 6, 1])
    with forward_pass(0, 0), tf.GradientTape() as tape:
        sound = encoder.encode({"source_tensors": [tf.constant(silence), tf.constant([6, 3])]}, True)["sound"]
        loss = tf.reduce_sum(tf.square(sound - 0.1))
    for gradient in tape.gradient(loss, [*named_variables(encoder).values()]):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_gradients_are_bounded_where_pulses_and_noise_cancel():
    """The gradient of a direction is at most about 1 / 0.03, whatever remains of the two, and exact far from that."""
    rest = tf.constant([0.0, 1e-9, 1e-6, 1e-3, 0.1, 1.0])
    pulses = tf.complex(tf.ones([1, 1, 6]), tf.zeros([1, 1, 6]))
    noise = tf.complex(-tf.cos(rest), tf.sin(rest))[tf.newaxis, tf.newaxis]
    zeros = tf.zeros([1, 1, 6])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(zeros)
        _, direction = _excited(zeros, zeros, zeros, pulses, noise)
        parts = [tf.math.real(direction), tf.math.imag(direction)]
        phase = tf.add_n(parts)
    np.testing.assert_allclose(np.abs(direction)[0, 0, 4:], 1.0, atol=1e-3)
    assert np.abs(tape.gradient(phase, zeros)).max() < 100


def test_the_direction_of_what_remains_has_the_gradient_of_a_division():
    real, imaginary = tf.constant([0.6, -2.0]), tf.constant([0.8, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([real, imaginary])
        unit, (exact, _) = _unit(real, imaginary)[0], (real / tf.sqrt(real ** 2 + imaginary ** 2), imaginary)
    np.testing.assert_allclose(unit, exact, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(unit, real), tape.gradient(exact, real), rtol=1e-2)


def test_a_model_of_another_task_is_refused():
    with pytest.raises(ConfigError, match="VocosEncoder needs the model Text2SpeechVocoder"):
        make_encoder(settings=None)
