"""Losses of vocoders: distances of spectra at several resolutions, and WaveNet's cross-entropy of samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param, shown
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.sample_values import MuLaw

_HOPS = 4  # hops in a frame
_EDGE = 2  # frames at the beginning and at the end of a piece that reach beyond it
_TINY = 1e-9


class VocoderLoss(Loss):
    """Distances of spectra of the sound from those of the recording, at several resolutions (Yamamoto et al. 2020).

    For each resolution, there is a term for the absolute difference of the logarithms of the magnitudes, and one for
    the spectral convergence: the norm of the difference of the magnitudes, divided by that of the recording. Further
    terms are the absolute differences of the logarithms of mel filters and, before the inverse transform, of the
    network's log magnitudes. All are means over the frames of an example, and then over examples. The network's
    magnitudes are compared without the first and the last two frames: these reach beyond a piece of a clip, so their
    spectra are not those of the piece.

    ``decoder_output`` is that of ``VocosEncoder``, and the ``target_tensors`` are audio ``[batch, samples]`` and its
    lengths.
    """

    unit = "example"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "resolutions": Param(list, [512, 1024, 2048], "Lengths of the frames, multiples of 4; frames are a quarter "
                                 "of them apart.", "samples", minimum=16, maximum=2**16),
            "log_weight": Param(float, 1.0, "Weight of the differences of log magnitudes.", minimum=0.0),
            "convergence_weight": Param(float, 1.0, "Weight of the spectral convergence.", minimum=0.0),
            "mel_weight": Param(float, 1.0, "Weight of the differences of mel filters.", minimum=0.0),
            "magnitude_weight": Param(float, 1.0, "Weight of the differences of the network's log magnitudes.",
                                      minimum=0.0),
            "floor": Param(float, 1e-4, "Lower bound of magnitudes before the logarithm, where white noise with a "
                           "variance of 1 has 1.", above=0.0),
            "settings": Param(object, None, "Settings of the spectrograms; set from the data layer.", derived=True),
        }

    def _value_problems(self, params: Mapping[str, Any]) -> list[str]:
        sizes = params["resolutions"]
        fits = all(isinstance(size, int) and not isinstance(size, bool) and size % _HOPS == 0 for size in sizes)
        return [*super()._value_problems(params), *([] if fits and len({*sizes}) == len(sizes) else [
            f"'{self.params_path}/resolutions' is {shown(sizes)}, but must be different multiples of {_HOPS}."])]

    def _compute_loss(self, input_dict: dict[str, Any]) -> list[LossTerm]:
        decoded, params = input_dict["decoder_output"], self.params
        sound, points = decoded["sound"], params["settings"].n_fft
        samples = tf.maximum(tf.cast(decoded["outputs_length"], tf.int32) - 1, 0) * (points // _HOPS)
        inside = tf.sequence_mask(samples, tf.shape(sound)[1], tf.float32)
        audio = input_dict["target_tensors"][0][:, :tf.shape(sound)[1]] * inside
        weights, terms = example_weights(input_dict), []

        def add(name: str, values: tf.Tensor, weight: float) -> None:
            terms.append(LossTerm(tf.reduce_sum(values * weights), tf.reduce_sum(weights), weight, self.unit, name))

        for size in params["resolutions"]:
            target, given = magnitudes(audio, size), magnitudes(sound, size)
            frames = 1 + samples // (size // _HOPS)
            add(f"log_{size}", _mean(tf.abs(self._log(given) - self._log(target)), frames), params["log_weight"])
            smallest = tf.square(params["floor"]) * tf.cast(frames * (size // 2 + 1), tf.float32)
            add(f"convergence_{size}", _convergence(given, target, frames, smallest), params["convergence_weight"])
        target, given, frames = magnitudes(audio, points), magnitudes(sound, points), 1 + samples // (points // _HOPS)
        basis = params["settings"].mel_basis
        basis = tf.constant((basis / np.maximum(basis.sum(1, keepdims=True), _TINY)).T, tf.float32)
        errors = self._log(tf.matmul(given, basis)) - self._log(tf.matmul(target, basis))
        add("mel", _mean(tf.abs(errors), frames), params["mel_weight"])
        predicted = decoded["log_magnitude"] - 0.5 * np.log(_power(points))
        lower = tf.maximum(predicted, float(np.log(params["floor"])))
        add("magnitude", _mean(tf.abs(lower - self._log(target)), frames, _EDGE), params["magnitude_weight"])
        return terms

    def _log(self, values: tf.Tensor) -> tf.Tensor:
        return tf.math.log(tf.maximum(values, self.params["floor"]))


def magnitudes(audio: tf.Tensor, points: int) -> tf.Tensor:
    """Returns magnitudes ``[batch, 1 + samples // (points / 4), points / 2 + 1]`` of frames of ``points`` samples.

    Frames have the periodic Hann window and are centred on multiples of a quarter of their length; white noise with a
    variance of 1 has a mean power of 1.
    """
    padded = tf.pad(audio, [[0, 0], [points // 2, points // 2]])
    spectrum = tf.signal.stft(padded, points, points // _HOPS, points)
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    return tf.sqrt(power / _power(points) + 1e-16)


def _power(points: int) -> float:
    return float(np.square(np.hanning(points + 1)[:-1]).sum())


def _mean(values: tf.Tensor, frames: tf.Tensor, edge: int = 0) -> tf.Tensor:
    """Returns the means ``[batch]`` of ``[batch, time, bins]`` over the first ``frames`` ``[batch]``.

    Of an example with more than ``2 * edge`` frames, the first and the last ``edge`` ones do not count.
    """
    left_out = tf.where(frames > 2 * edge, edge, 0)
    positions = tf.range(tf.shape(values)[1])
    inside = (positions >= left_out[:, tf.newaxis]) & (positions < (frames - left_out)[:, tf.newaxis])
    mask = tf.cast(inside, tf.float32)
    return tf.reduce_sum(tf.reduce_mean(values, 2) * mask, 1) / tf.cast(frames - 2 * left_out, tf.float32)


def _convergence(given: tf.Tensor, target: tf.Tensor, frames: tf.Tensor, smallest: tf.Tensor) -> tf.Tensor:
    """Returns the spectral convergence ``[batch]``; the power of the recording counts as ``smallest`` at least."""
    mask = tf.sequence_mask(frames, tf.shape(target)[1], tf.float32)[:, :, tf.newaxis]
    error = tf.reduce_sum(tf.square((given - target) * mask), [1, 2])
    return tf.sqrt(error / tf.maximum(tf.reduce_sum(tf.square(target * mask), [1, 2]), smallest) + 1e-12)


class WavenetLoss(Loss):
    """Mean cross-entropy of the quantised samples that have a full receptive field before them.

    ``decoder_output`` has ``logits`` ``[batch, samples', channels]`` for the last ``samples'`` samples: those of the
    levels, or the parameters of mixtures. The ``target_tensors`` are audio ``[batch, samples]`` and its lengths
    ``[batch]``.
    """

    unit = "sample"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "samples": Param(object, None, "What the encoder predicts; set from the encoder. None: the levels of the "
                             "mu-law.", derived=True),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        audio, lengths = input_dict["target_tensors"][:2]
        first = tf.shape(audio)[1] - tf.shape(logits)[1]
        samples = self.params["samples"] or MuLaw(logits.shape[-1])
        mask = tf.sequence_mask(lengths, tf.shape(audio)[1], tf.float32)[:, first:]
        mask *= example_weights(input_dict)[:, tf.newaxis]
        errors = samples.errors(logits, audio[:, first:])
        return LossTerm(tf.reduce_sum(errors * mask), tf.reduce_sum(mask), unit="sample")
