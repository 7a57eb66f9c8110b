"""Converts audio that arrives in chunks, as from a microphone, to the sampling rate of the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_files import RATES, AudioError, converted, resampled_length


class AudioPieces:
    """Converts one recording chunk by chunk; the concatenated results equal the conversion of the whole recording.

    Args:
      rate: sampling rate of the chunks in Hz.
      sample_freq: sampling rate of the result in Hz.

    Raises:
      AudioError: the rate is out of range.
    """

    def __init__(self, rate: int, sample_freq: int) -> None:
        if not RATES[0] <= rate <= RATES[1]:
            raise AudioError("impossible rate", f"The sampling rate of the audio must be from {RATES[0]:,} to "
                             f"{RATES[1]:,} Hz, got {rate}")
        self._rate, self._sample_freq = rate, sample_freq
        self._taken = self._given = 0
        self._resampler: Any = None
        if rate != sample_freq:
            import soxr

            self._resampler = soxr.ResampleStream(rate, sample_freq, 1, dtype="float32", quality="HQ")

    def convert(self, piece: np.ndarray) -> np.ndarray:
        """Converts a chunk, and returns the next part of the result, float32 ``[samples]``.

        Args:
          piece: ``[samples]`` or ``[samples, channels]``, integers or floats from -1 to 1; may be empty.

        Raises:
          AudioError: the chunk has neither of these shapes, is not numeric, or contains NaN or infinite values.
        """
        piece = np.asarray(piece)
        if piece.ndim not in (1, 2):
            raise AudioError("shape", "The shape of an audio chunk must be [samples] or [samples, channels], got "
                             f"{list(piece.shape)}")
        if not piece.size:
            return np.zeros(0, np.float32)
        audio = converted(piece, self._rate, self._rate)
        self._taken += len(audio)
        return audio if self._resampler is None else self._counted(self._resampler.resample_chunk(audio))

    def rest(self) -> np.ndarray:
        """Ends the recording, and returns the rest of the result ``[samples]``."""
        if self._resampler is None or not self._taken:
            return np.zeros(0, np.float32)
        rest = self._counted(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        missing = resampled_length(self._taken, self._rate, self._sample_freq) - self._given
        return np.pad(rest, (0, missing)) if missing >= 0 else rest[:missing]

    def _counted(self, audio: np.ndarray) -> np.ndarray:
        self._given += len(audio)
        return audio
