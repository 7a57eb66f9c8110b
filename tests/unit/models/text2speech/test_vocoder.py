"""Which vocoders fit a model, and what they read."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings
from open_seq2seq.models.text2speech import Text2SpeechVocoder
from open_seq2seq.models.text2speech.vocoder import check_vocoder
from open_seq2seq.utils.errors import UserError

SETTINGS = SpectrogramSettings(num_mels=12, n_fft=128, sample_freq=8000, data_min=1e-2, mag_power=1)


def vocoder(**changes):
    """Returns a vocoder whose sound is the spectrogram that it reads."""
    model = object.__new__(Text2SpeechVocoder)
    settings = dataclasses.replace(SETTINGS, **changes)
    encoder = SimpleNamespace(encode=lambda given, _: {"sound": given["source_tensors"][0][:, :, 0]})
    model.__dict__.update(data_layer=SimpleNamespace(settings=settings), encoder=encoder)
    return model


@pytest.mark.parametrize("changes", [
    {"num_mels": 13}, {"n_fft": 256}, {"sample_freq": 16000}, {"mag_power": 2}, {"mel_type": "slaney"},
    {"fmax": 3000.0}, {"data_min": 1e-3}])
def test_other_features_are_refused_by_name(changes):
    with pytest.raises(UserError, match=rf"run/v has been trained with other features .*\({[*changes][0]} ") as error:
        check_vocoder(vocoder(**changes), SETTINGS, "run/v")
    assert "\n" not in str(error.value)


def test_a_normalisation_of_its_own_fits():
    model = vocoder(mean=-1.0, std_dev=0.5)
    given = dataclasses.replace(SETTINGS, mean=0.2, std_dev=2.0)
    check_vocoder(model, given, "run/v")
    columns = np.random.default_rng(0).normal(size=[1, 4, 12]).astype(np.float32) * 0.1
    result = model.sound_of(tf.constant(columns), tf.constant([4]), given)
    expected = (columns[:, :, 0] * 2.0 + 0.2 + 1.0) / 0.5
    np.testing.assert_allclose(result, expected * 0.99 / max(np.abs(expected).max(), 0.99), rtol=1e-5)


def test_of_both_kinds_of_features_the_mel_columns_are_read():
    both = dataclasses.replace(SETTINGS, output_type="both", data_min={"mel": 1e-2, "magnitude": 1e-5}, num_bins=65)
    check_vocoder(vocoder(), both, "run/v")
    with pytest.raises(UserError, match="'data_layer_params/output_type' is magnitude"):
        check_vocoder(vocoder(), dataclasses.replace(SETTINGS, output_type="magnitude"), "run/v")


def test_evaluation_does_not_compute_the_sound_again():
    model = vocoder()
    model.encoder.encode = None
    spectrogram = np.zeros([1, 3, 12], np.float32)
    sound, samples, copy = model.evaluation_outputs(
        {"source_tensors": [tf.constant(spectrogram), tf.constant([3])]}, [], {"sound": tf.fill([1, 64], 0.5)})
    assert (sound.numpy() == 0.5).all() and samples.numpy() == [64] and copy.shape == [1, 64]


def test_another_model_is_no_vocoder():
    with pytest.raises(UserError, match="'vocoder' is run/v, a SimpleNamespace: give .* of a Text2SpeechVocoder"):
        check_vocoder(SimpleNamespace(), SETTINGS, "run/v")
