"""The decoder of durations: upsampling, batches and padding, both forms, rounding, speed, loss and mistakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import DurationDecoder
from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.tacotron import gaussian_weights, whole_frames
from open_seq2seq.utils.errors import ConfigError

MELS, SIZE = 3, 4
CONV = {"kernel_size": [3], "stride": [1], "num_channels": 4, "padding": "SAME"}
DECODER = {"decoder_cell_units": 5, "decoder_layers": 2, "duration_units": 4, "duration_layers": 1,
           "postnet_conv_layers": [{**CONV, "num_channels": -1}], "num_audio_features": MELS}
RECURRENT = {"decoder_type": "recurrent", "reduction_factor": 2, "prenet_units": 4}
CONVOLUTIONAL = {"decoder_type": "convolutional", "decoder_kernel_size": 3}
DURATIONS = [[2, 0, 3, 4], [1, 5, 0, 0], [3, 2, 2, 0]]
SYMBOLS, FRAMES = [4, 2, 3], [9, 6, 7]
FORMS = pytest.mark.parametrize("form", [RECURRENT, CONVOLUTIONAL], ids=["recurrent", "convolutional"])


def make(form: Any, **params: Any) -> DurationDecoder:
    with creating_variables(1):
        model = SimpleNamespace(encoder=SimpleNamespace(output_size=SIZE))
        decoder = DurationDecoder({**DECODER, **form, **params}, model)
    for number, variable in enumerate(decoder.trainable_variables):
        variable.assign(variable + np.random.default_rng(number).normal(0.0, 0.3, variable.shape))
    decoder.durations.projection.bias.assign([1.2])  # durations of some frames
    return decoder


def encoded(rows: slice = slice(None), padding: int = 0) -> dict[str, tf.Tensor]:
    values = np.random.default_rng(0).normal(size=[3, 4, SIZE]).astype(np.float32)
    values *= (np.arange(4) < np.array(SYMBOLS)[:, np.newaxis])[..., np.newaxis]
    lengths = SYMBOLS[rows]
    values = np.pad(values[rows, :max(lengths)], [[0, 0], [0, padding], [0, 0]])
    return {"outputs": tf.constant(values), "src_length": tf.constant(lengths)}


def targets(rows: slice = slice(None), padding: int = 0) -> list[tf.Tensor]:
    frames, symbols = FRAMES[rows], max(SYMBOLS[rows])
    values = np.random.default_rng(1).normal(size=[3, max(FRAMES), MELS]).astype(np.float32)[rows, :max(frames)]
    values = np.pad(values, [[0, 0], [0, padding], [0, 0]], constant_values=7.0)
    durations = np.pad(np.array(DURATIONS)[rows, :symbols], [[0, 0], [0, padding]])
    return [tf.constant(values), tf.zeros(values.shape[:2]), tf.constant(frames), tf.constant(durations, tf.int32)]


def decoded(decoder: DurationDecoder, source: Any, target: Any = None, training: bool = False) -> dict[str, Any]:
    return decoder.decode({"encoder_output": source, "target_tensors": target}, training)


def test_weights_are_normal_densities() -> None:
    durations, sigmas = np.array(DURATIONS, np.float32), np.array([[1.0, 9.0, 0.5, 2.0]] * 3, np.float32)
    weights = gaussian_weights(tf.constant(durations), tf.constant(sigmas), tf.constant(10))[0].numpy()
    for row in range(3):
        for frame in range(10):
            densities, start = [], 0.0
            for duration, sigma in zip(durations[row], sigmas[row], strict=True):
                distance = frame + 0.5 - (start + duration / 2)
                densities.append(float(duration > 0) * np.exp(-0.5 * (distance / sigma) ** 2) / sigma)
                start += duration
            np.testing.assert_allclose(weights[row, frame], np.array(densities) / sum(densities), atol=1e-5)


def test_rounding_keeps_the_ends_of_symbols() -> None:
    durations = np.random.default_rng(3).exponential(2.0, [5, 40]).astype(np.float32)
    lengths = np.array([40, 1, 17, 0, 30])
    rounded = whole_frames(tf.constant(durations), tf.constant(lengths)).numpy()
    mask = np.arange(40) < lengths[:, np.newaxis]
    assert np.abs(np.cumsum(rounded, 1) - np.cumsum(durations * mask, 1)).max() <= 0.5001
    assert (rounded >= 0).all() and not rounded[~mask].any()
    np.testing.assert_array_equal(whole_frames(tf.constant([[-1.0, 0.2, 0.1]]), tf.constant([3])), [[1, 0, 0]])


@FORMS
@pytest.mark.parametrize("forced", [True, False])
def test_an_example_does_not_depend_on_its_batch_or_padding(form: Any, forced: bool) -> None:
    decoder = make(form)
    together = decoded(decoder, encoded(padding=3), targets(padding=3) if forced else None)
    for row, symbols in enumerate(SYMBOLS):
        rows = slice(row, row + 1)
        alone = decoded(decoder, encoded(rows), targets(rows) if forced else None)
        length = int(alone["outputs"][4][0])
        assert length == int(together["outputs"][4][row]) == int(tf.reduce_sum(alone["durations"]))
        np.testing.assert_allclose(alone["log_durations"][0], together["log_durations"][row, :symbols], atol=1e-5)
        for one, other in zip(alone["outputs"], together["outputs"], strict=True):
            if one.shape.rank > 1:
                np.testing.assert_allclose(one[0], other[row, :length, :one.shape[2]], atol=1e-5)
                assert not np.any(other[row, length:])
        assert float(alone["outputs"][3][0, -1, 0]) == 1.0 == float(tf.reduce_sum(alone["outputs"][3]))


def test_predictions_given_as_targets_are_predicted_again() -> None:
    decoder = make(RECURRENT)
    spoken = decoded(decoder, encoded())
    frames, _, _, stops, lengths, _ = spoken["outputs"]
    forced = decoded(decoder, encoded(), [frames, stops[..., 0], lengths, tf.cast(spoken["durations"], tf.int32)])
    for one, other in zip(spoken["outputs"], forced["outputs"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_speed_divides_the_length_without_another_trace() -> None:
    decoder = make(CONVOLUTIONAL, speed=0.5)
    decoder.durations.projection.bias.assign([3.0])
    speak = tf.function(lambda: decoded(decoder, encoded())["outputs"][4])
    lengths = speak().numpy()
    assert (lengths > 20).all()
    for speed in (1.0, 2.0):
        with decoder.at_speed(speed):
            assert np.abs(speak().numpy() - lengths / (2 * speed)).max() <= 0.75
    np.testing.assert_array_equal(speak(), lengths)
    together = decoder.decode({"encoder_output": encoded(), "speeds": tf.constant([2.0, 1.0, 0.0])})["outputs"][4]
    with decoder.at_speed(1.0):
        assert together[0] == speak()[0] and together[1] == lengths[1]
    assert speak.experimental_get_tracing_count() == 1
    with pytest.raises(ConfigError, match="decoder_params/speed"), decoder.at_speed(0.0):
        pass


@FORMS
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_training_in_each_dtype(form: Any, dtype: str) -> None:
    decoder = make(form, dtype=dtype, upsampling_sigma=None if dtype == "float32" else 1.5)
    with forward_pass(1, 0), tf.GradientTape() as tape:
        output = decoded(decoder, encoded(), targets(), training=True)
        terms = Text2SpeechLoss({"duration_weight": 0.5}).compute_loss(
            {"decoder_output": output, "target_tensors": targets()})
        loss = tf.add_n([term.weight * term.sum / term.units for term in terms])
    gradients = tape.gradient(loss, decoder.trainable_variables)
    assert all(np.isfinite(gradient).all() and np.any(gradient) for gradient in gradients)
    assert {term.name for term in terms} == {"decoder", "postnet", "duration"}
    mask = np.arange(4) < np.array(SYMBOLS)[:, np.newaxis]
    errors = np.square(output["log_durations"] - np.log1p(DURATIONS))[mask]
    assert float(terms[-1].weight * terms[-1].sum / terms[-1].units) == pytest.approx(0.5 * errors.mean(), rel=1e-4)


def test_missing_durations_are_explained() -> None:
    with pytest.raises(ConfigError, match="data_layer_params/durations"):
        decoded(make(CONVOLUTIONAL), encoded(), targets()[:3])


@pytest.mark.parametrize(("form", "other"), [
    (RECURRENT, {"decoder_kernel_size": 5}), (CONVOLUTIONAL, {"reduction_factor": 1}),
    (CONVOLUTIONAL, {"prenet_units": 256})])
def test_parameters_of_the_other_type_are_refused(form: Any, other: Any) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(other))}' is only for decoder_type"):
        make(form, **other)
