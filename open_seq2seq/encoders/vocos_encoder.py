"""A vocoder that works at the rate of frames: magnitudes and phases of a spectrogram, whose inverse is the sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.decoding.vocoder import LOWEST, excitations, griffin_lim, pitch_of_mel, with_mel_values
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Convolution1D, Window
from open_seq2seq.parts.conv_blocks.primitives import convolve_channels
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.tacotron import Dense
from open_seq2seq.parts.transformer.normalization import LayerNorm
from open_seq2seq.utils.errors import ConfigError


class ConvNextBlock(Module):
    """A residual block: a convolution of each channel over time, layer norm, and two dense layers around a GELU.

    Args:
      channels: number of channels.
      inner: number of channels between the dense layers.
      taps: number of taps of the convolution.
      scale: initial value of the learned factors of what the block adds to each channel.
      initializer: initialiser of the kernels.
      regularizer: regulariser of the kernels.
    """

    def __init__(self, channels: int, inner: int, taps: int, scale: float, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="convnext_block")
        self.depthwise = self.weight([taps, channels, 1], initializer, regularizer=regularizer)
        self.norm = LayerNorm(channels)
        self.expansion = Dense(channels, inner, initializer, regularizer)
        self.contraction = Dense(inner, channels, initializer, regularizer)
        self.scale = self.weight([channels], tf.keras.initializers.Constant(scale))

    def __call__(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, time, channels]`` in the dtype of ``x``; ``mask`` is 0 in padding ``[batch, time, 1]``."""
        y = convolve_channels(x * mask, cast_weight(self.depthwise, x.dtype), 1, "SAME")
        y = tf.nn.gelu(self.expansion(self.norm(y)), approximate=True)
        return x + self.contraction(y) * tf.cast(self.scale, x.dtype)


_LOWEST_BETWEEN = 0.01
"""Lower bound of the magnitude between harmonics, relative to that of the harmonics."""
_TINY = 1e-9
"""Lower bound of divisors that may be zero."""
_CANCELLED = 1e-3
"""Power at which pulses and noise cancel one another, so that gradients of the direction are bounded."""


class VocosEncoder(Encoder):
    """Magnitudes and phases of the short-time Fourier transform from a mel spectrogram, and their inverse transform.

    This is the generator of Vocos (Siuzdak 2023, https://arxiv.org/abs/2306.00814): a convolution, blocks of ConvNeXt
    and a dense layer, all at the rate of the frames, so a second of sound costs no more than some hundred positions of
    the network.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "hidden_size": Param(int, doc="Number of channels.", minimum=1, maximum=10**5),
            "inner_size": Param(int, doc="Number of channels between the dense layers of a block.", minimum=1,
                                maximum=10**5),
            "blocks": Param(int, doc="Number of blocks.", minimum=0, maximum=1000),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "kernel_size": Param(int, 7, "Number of taps of the convolutions.", "frames", minimum=1,
                                 maximum=1001),
            "phase_iterations": Param(int, 20, "For spectrograms of recordings, in evaluation and inference: number of "
                                      "iterations of Griffin and Lim's method that begin with the phases of the "
                                      "network.", minimum=0, maximum=10**4, on_change=FREE),
            "mel_iterations": Param(int, 5, "For spectrograms of recordings, in evaluation and inference: number of "
                                    "iterations in which the network's magnitudes are fitted to the mel spectrogram.",
                                    minimum=0, maximum=1000, on_change=FREE),
            "source": Param([None, "pulses"], "pulses", "What phases are relative to: pulses at the pitch of the "
                            "spectrogram, mixed with noise; None: to nothing, as in Vocos.", on_change=REFUSE),
            "settings": Param(object, None, "Settings of the spectrograms; set from the data layer.", derived=True),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, size, taps = self.params, self.params["hidden_size"], self.params["kernel_size"]
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        self._settings = params["settings"]
        if self._settings is None:
            raise ConfigError([f"'{self.params_path}/settings' is missing: VocosEncoder needs the model "
                               "Text2SpeechVocoder, which sets it."])
        inputs, outputs = (0, 2) if params["source"] is None else (2, 3)
        self.input_layer = Convolution1D(self._settings.num_columns + inputs, size, Window(taps), initializer,
                                         regularizer, use_bias=True)
        self.input_norm = LayerNorm(size)
        self.blocks = [ConvNextBlock(size, params["inner_size"], taps, 1 / params["blocks"], initializer, regularizer)
                       for _ in range(params["blocks"])]
        self.output_norm = LayerNorm(size)
        self.output_layer = Dense(size, outputs * (self._settings.n_fft // 2 + 1), initializer, regularizer)

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Computes the sound of spectrograms.

        Args:
          input_dict: a dict whose last two ``source_tensors`` are spectrograms ``[batch, frames, features]`` and their
            numbers of frames ``[batch]``. ``are_predicted`` says that the spectrograms are those of another model,
            which are too smooth for ``mel_iterations`` and ``phase_iterations`` to improve the sound.

        Returns:
          A dict with ``log_magnitude`` and, as complex numbers of magnitude 1, ``direction`` ``[batch, frames,
          n_fft / 2 + 1]``, ``sound`` ``[batch, (frames - 1) * hop]`` and ``outputs_length`` ``[batch]`` in frames.
        """
        spectrogram, lengths = input_dict["source_tensors"][-2:]
        log_magnitude, direction = self._spectrum(tf.cast(spectrogram, tf.float32), lengths)
        magnitudes, iterations = tf.exp(log_magnitude), 0
        if not (self.training or input_dict.get("are_predicted")):
            magnitudes, iterations = self._fitted(log_magnitude, spectrogram), self.params["phase_iterations"]
        sound = griffin_lim(magnitudes, lengths, iterations, phases=direction)
        return {"log_magnitude": log_magnitude, "direction": direction, "sound": sound, "outputs_length": lengths}

    def _fitted(self, log_magnitude: tf.Tensor, spectrogram: tf.Tensor) -> tf.Tensor:
        """Returns magnitudes that fit the mel spectrogram, see ``decoding.vocoder.with_mel_values``."""
        settings = self._settings
        values = with_mel_values(tf.exp(settings.mag_power * log_magnitude), settings.mel_values(spectrogram),
                                 settings.mel_basis, settings.smallest("mel"), self.params["mel_iterations"])
        return values ** (1 / settings.mag_power)

    def _spectrum(self, spectrogram: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the logarithms of the magnitudes, and the directions, in FP32 and complex64."""
        settings = self._settings
        if self.params["source"] is None:
            log_magnitude, phase = tf.split(self._network(spectrogram, lengths), 2, -1)
            direction = tf.complex(tf.cos(phase), tf.sin(phase))
        else:
            pitch, strength = pitch_of_mel(settings.mel_values(spectrogram), settings.mel_basis, settings.sample_freq)
            pulses, noise = excitations(pitch, lengths, settings.n_fft, settings.sample_freq)
            features = tf.concat([spectrogram, tf.stack([tf.math.log(pitch / LOWEST), strength], 2)], 2)
            envelope, voicing, phase = tf.split(self._network(features, lengths), 3, -1)
            log_magnitude, direction = _excited(envelope, voicing, phase, pulses, noise)
        return tf.minimum(log_magnitude, float(np.log(settings.n_fft))), direction

    def _network(self, features: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        dtype = self.dtype_of("convolution")
        mask = tf.sequence_mask(lengths, tf.shape(features)[1], dtype)[:, :, tf.newaxis]
        x = self.input_norm(self.input_layer(tf.cast(features, dtype) * mask))
        for block in self.blocks:
            x = block(x, mask)
        return tf.cast(self.output_layer(self.output_norm(x)), tf.float32)


def _excited(envelope: tf.Tensor, voicing: tf.Tensor, phase: tf.Tensor, pulses: tf.Tensor,
             noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns log magnitudes and directions of an excitation that the network has shaped, ``[batch, frames, bins]``.

    Args:
      envelope: log magnitudes of the harmonics or, without voice, of the sound.
      voicing: logits of the share of the pulses.
      phase: phases relative to those of the pulses.
      pulses: spectra of the pulses.
      noise: spectra of noise.
    """
    share = tf.sigmoid(voicing)
    (real, imaginary), cosine, sine = _direction(pulses), tf.cos(phase), tf.sin(phase)
    real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
    noise_real, noise_imaginary = _direction(noise)
    real, imaginary = real * share + noise_real * (1.0 - share), imaginary * share + noise_imaginary * (1.0 - share)
    comb = tf.math.log(tf.maximum(tf.abs(pulses), _LOWEST_BETWEEN))
    return envelope + share * comb, tf.complex(*_unit(real, imaginary))


@tf.custom_gradient
def _unit(real: tf.Tensor, imaginary: tf.Tensor) -> Any:
    """Returns complex numbers divided by their magnitudes; near 0, the gradient is that of a smooth division.

    The gradient of the exact division grows without bounds there, and with it that of a whole batch.
    """
    power = real * real + imaginary * imaginary
    scale = tf.math.rsqrt(power + _TINY)

    def grad(d_real: tf.Tensor, d_imaginary: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        smooth = tf.math.rsqrt(power + _CANCELLED)
        along = (d_real * real + d_imaginary * imaginary) * smooth * smooth * smooth
        return d_real * smooth - real * along, d_imaginary * smooth - imaginary * along

    return (real * scale, imaginary * scale), grad


def _direction(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the real and the imaginary part of complex numbers, divided by their magnitudes."""
    scale = tf.math.reciprocal(tf.maximum(tf.abs(values), _TINY))
    return tf.math.real(values) * scale, tf.math.imag(values) * scale
