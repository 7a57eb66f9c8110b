"""WaveNet: receptive field, padding, sampling with kept inputs against the whole network, mistakes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import WavenetEncoder
from open_seq2seq.encoders.wavenet_encoder import chosen
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.wavenet import mu_law_audio, mu_law_ids
from open_seq2seq.utils.errors import ConfigError

HOP, LEVELS, FEATURES = 4, 16, 6
PARAMS = {"layer_type": "conv1d", "kernel_size": 3, "strides": 1, "padding": "VALID", "blocks": 2,
          "layers_per_block": 2, "filters": 8, "quantization_channels": LEVELS, "num_audio_features": FEATURES,
          "hop": HOP}


def make_encoder(**changes):
    """Returns an encoder whose statistics and offsets are random, too."""
    with creating_variables(seed=3):
        encoder = WavenetEncoder({**PARAMS, **changes})
    rng = np.random.default_rng(1)
    for name, variable in named_variables(encoder).items():
        if variable.shape.rank == 1:
            variable.assign(rng.uniform(0.5, 1.5, variable.shape) if "variance" in name or "gamma" in name
                            else rng.normal(0.0, 0.3, variable.shape))
    return encoder


def logits_of(encoder, audio, lengths, spectrogram, training=False):
    with forward_pass(0, 0):
        return encoder.encode({"source_tensors": [tf.constant(audio, tf.float32), tf.constant(lengths),
                                                  tf.constant(spectrogram, tf.float32)]}, training)["logits"].numpy()


def clip(frames, seed=0, rows=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, [rows, frames * HOP]), rng.normal(size=[rows, frames, FEATURES])


def test_the_mu_law_is_inverted_within_a_level():
    audio = np.linspace(-1.0, 1.0, 1001, dtype=np.float32)
    ids = mu_law_ids(tf.constant(audio), 256).numpy()
    assert (ids.min(), ids.max(), ids[500]) == (0, 255, 128) and (np.diff(ids) >= 0).all()
    levels = mu_law_audio(tf.range(256), 256).numpy()
    np.testing.assert_array_equal(mu_law_ids(tf.constant(levels), 256), np.arange(256))
    assert np.abs(levels[ids] - audio).max() <= np.diff(levels).max() / 2 + 1e-6


def test_a_prediction_depends_on_the_receptive_field_and_the_first_convolution():
    encoder = make_encoder()
    audio, spectrogram = clip(12)
    before = logits_of(encoder, audio, [48], spectrogram)
    reached = []
    for sample in range(48):
        changed = audio.copy()
        changed[0, sample] = -np.sign(audio[0, sample])
        reached.append(np.abs(logits_of(encoder, changed, [48], spectrogram) - before).max(-1)[0] > 0)
    field = encoder.receptive_field + PARAMS["kernel_size"] - 1
    last = np.flatnonzero([row[-1] for row in reached])  # the last prediction is that of sample 47 from the ones before
    assert (last.min(), last.max()) == (47 - field, 46)


@pytest.mark.parametrize("training", [False, True])
def test_padding_changes_nothing(training):
    encoder = make_encoder()
    audio, spectrogram = clip(9, rows=2)
    alone = logits_of(encoder, audio[:, :28], [28, 28], spectrogram[:, :7], training)
    padded = logits_of(encoder, audio, [28, 28], spectrogram, training)
    np.testing.assert_allclose(padded[:, :alone.shape[1]], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_samples_are_drawn_from_what_the_whole_network_predicts(temperature):
    encoder, frames, context = make_encoder(), 7, 8
    assert context * HOP >= encoder.receptive_field + PARAMS["kernel_size"]
    _, spectrogram = clip(frames, rows=2)
    silence = np.full(FEATURES, -2.0, np.float32)
    draw = tf.function(lambda values: encoder.sample(values, tf.constant(silence), temperature, 5))
    sound = draw(tf.constant(spectrogram, tf.float32)).numpy()
    assert sound.shape == (2, frames * HOP)
    audio = np.concatenate([np.zeros([2, context * HOP]), sound], 1)
    whole = np.concatenate([np.tile(silence, [2, context, 1]), spectrogram], 1)
    logits = logits_of(encoder, audio, [audio.shape[1]] * 2, whole)[:, -frames * HOP:]
    for position in range(frames * HOP):
        np.testing.assert_array_equal(chosen(tf.constant(logits[:, position]), temperature, [5, position]),
                                      mu_law_ids(tf.constant(sound[:, position]), LEVELS))


def test_a_clip_alone_gets_the_sound_that_it_gets_in_a_batch():
    encoder = make_encoder()
    _, spectrogram = clip(5, rows=3)
    silence = tf.zeros([FEATURES])
    together = encoder.sample(tf.constant(spectrogram, tf.float32), silence)
    alone = encoder.sample(tf.constant(spectrogram[1:2, :3], tf.float32), silence)
    np.testing.assert_allclose(alone[0], together[1, :3 * HOP], rtol=1e-5)


def test_without_conditioning_the_spectrogram_is_not_read():
    encoder = make_encoder(local_conditioning=False)
    audio, spectrogram = clip(6)
    np.testing.assert_array_equal(logits_of(encoder, audio, [24], spectrogram),
                                  logits_of(encoder, audio, [24], spectrogram + 1.0))


@pytest.mark.parametrize(("changes", "message"), [
    ({"filters": 7}, "'encoder_params/filters' is 7, but must be a multiple of 2"),
    ({"num_audio_features": 5}, "'encoder_params/num_audio_features' is 5, but must be an even number"),
    ({"strides": 2}, "'encoder_params/strides'"), ({"padding": "SAME"}, "'encoder_params/padding'"),
    ({"layer_type": "conv2d"}, "'encoder_params/layer_type'"), ({"kernel_size": 1}, "'encoder_params/kernel_size'")])
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        WavenetEncoder({**PARAMS, **changes})
