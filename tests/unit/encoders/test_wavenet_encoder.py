"""WaveNet: receptive field, padding, sampling with kept inputs against the whole network, mistakes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import WavenetEncoder
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
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


def encode(encoder, audio, lengths, spectrogram, training=False):
    with forward_pass(0, 0):
        return encoder.encode({"source_tensors": [tf.constant(audio, tf.float32), tf.constant(lengths),
                                                  tf.constant(spectrogram, tf.float32)]}, training)


def logits_of(encoder, audio, lengths, spectrogram, training=False):
    return encode(encoder, audio, lengths, spectrogram, training)["logits"].numpy()


def clip(frames, seed=0, rows=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, [rows, frames * HOP]), rng.normal(size=[rows, frames, FEATURES])


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
def test_a_clip_shorter_than_the_reach_of_a_layer_gives_no_predictions(training):
    encoder = make_encoder()
    audio, spectrogram = clip(1)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(encode(encoder, audio, [4], spectrogram, training)["logits"])
    assert total == 0.0
    gradient = tape.gradient(total, encoder.layers[-1].filter.convolution.kernel)
    np.testing.assert_array_equal(gradient, np.zeros([3, 4, 8]))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("strides", [None, [4], [2, 2]])
def test_padding_changes_nothing(training, strides):
    encoder = make_encoder(upsampling_strides=strides)
    audio, spectrogram = clip(9, rows=2)
    alone = logits_of(encoder, audio[:, :28], [28, 28], spectrogram[:, :7], training)
    padded = logits_of(encoder, audio, [28, 28], spectrogram, training)
    np.testing.assert_allclose(padded[:, :alone.shape[1]], alone, rtol=1e-5, atol=1e-5)


VARIANTS = ({}, {"mixture_components": 3, "upsampling_strides": [2, 2], "quantization_channels": 2 ** 16},
            *(pytest.param(changes, marks=pytest.mark.long) for changes in (
                {"mixture_components": 2, "quantization_channels": 2 ** 16}, {"upsampling_strides": [4]})))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("changes", VARIANTS)
def test_samples_are_drawn_from_what_the_whole_network_predicts(temperature, changes):
    encoder, frames, context = make_encoder(**changes), 7, 8
    assert context * HOP >= encoder.receptive_field + PARAMS["kernel_size"]
    _, spectrogram = clip(frames, rows=2)
    silence = np.full(FEATURES, -2.0, np.float32)
    draw = tf.function(lambda values: encoder.sample(values, tf.constant(silence), temperature, 5))
    sound = draw(tf.constant(spectrogram, tf.float32)).numpy()
    assert sound.shape == (2, frames * HOP) and np.unique(sound).size > 2
    audio = np.concatenate([np.zeros([2, context * HOP]), sound], 1)
    whole = np.concatenate([np.tile(silence, [2, context, 1]), spectrogram], 1)
    logits = logits_of(encoder, audio, [audio.shape[1]] * 2, whole)[:, -frames * HOP:]
    drawn = [encoder.samples.drawn(tf.constant(logits[:, position]), temperature, [5, position])
             for position in range(frames * HOP)]
    np.testing.assert_allclose(encoder.samples.audio(tf.stack(drawn, 1)), sound, atol=1e-4)


@pytest.mark.parametrize("changes", VARIANTS)
def test_naive_sampling_gives_the_same_samples(changes):
    encoder = make_encoder(**changes)
    spectrogram, silence = tf.constant(clip(4, rows=2)[1], tf.float32), tf.fill([FEATURES], -2.0)
    fast, naive = (tf.function(lambda is_naive=value: encoder.sample(spectrogram, silence, 0.9, 3, naive=is_naive))()
                   for value in (False, True))
    np.testing.assert_allclose(naive, fast, atol=1e-4)


def test_upsampling_is_a_transposed_convolution():
    encoder = make_encoder(upsampling_strides=[2, 2])
    spectrogram = np.random.default_rng(4).normal(size=[1, 5, FEATURES]).astype(np.float32)
    result = encoder.upsampling(tf.constant(spectrogram), tf.constant([5])).numpy()
    x = np.concatenate([spectrogram[0], spectrogram[0, -1:].repeat(2, 0)])
    for number, layer in enumerate(encoder.upsampling.layers):
        x = np.where(x > 0, x, 0.4 * x) if number else x
        taps = layer.kernel.numpy().reshape(2, FEATURES, 2, FEATURES)  # now, next; in; phase; out
        bias = layer.bias.numpy().reshape(2, FEATURES)
        spread = np.zeros([2 * len(x), FEATURES])
        for place in range(len(x) - 1):  # every input adds to the outputs at its place, and to those before it
            spread[2 * place:2 * place + 2] += np.einsum("i,ipo->po", x[place], taps[0]) + bias
            spread[2 * place:2 * place + 2] += np.einsum("i,ipo->po", x[place + 1], taps[1])
        x = spread[:2 * (len(x) - 1)]
    np.testing.assert_allclose(result[0], x[:5 * HOP], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_clip_alone_gets_the_sound_that_it_gets_in_a_batch(changes):
    encoder = make_encoder(**changes)
    _, spectrogram = clip(5, rows=3)
    silence = tf.zeros([FEATURES])
    together = encoder.sample(tf.constant(spectrogram, tf.float32), silence, lengths=tf.constant([5, 3, 4]))
    alone = encoder.sample(tf.constant(spectrogram[1:2, :3], tf.float32), silence)
    np.testing.assert_allclose(alone[0], together[1, :3 * HOP], atol=1e-4)


def test_without_conditioning_the_spectrogram_is_not_read():
    encoder = make_encoder(local_conditioning=False)
    audio, spectrogram = clip(6)
    np.testing.assert_array_equal(logits_of(encoder, audio, [24], spectrogram),
                                  logits_of(encoder, audio, [24], spectrogram + 1.0))


@pytest.mark.parametrize(("changes", "message"), [
    ({"filters": 7}, "'encoder_params/filters' is 7, but must be a multiple of 2"),
    ({"num_audio_features": 5}, "'encoder_params/num_audio_features' is 5, but must be an even number"),
    ({"upsampling_strides": [3]}, "'encoder_params/upsampling_strides' is \\[3\\], but must be .* whose product is 4"),
    ({"upsampling_strides": [2, "2"]}, "'encoder_params/upsampling_strides'"),
    ({"upsampling_strides": []}, "'encoder_params/upsampling_strides'"),
    ({"mixture_components": 0}, "'encoder_params/mixture_components'"),
    ({"strides": 2}, "'encoder_params/strides'"), ({"padding": "SAME"}, "'encoder_params/padding'"),
    ({"layer_type": "conv2d"}, "'encoder_params/layer_type'"), ({"kernel_size": 1}, "'encoder_params/kernel_size'")])
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        WavenetEncoder({**PARAMS, **changes})
