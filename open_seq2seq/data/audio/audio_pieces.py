"""Converts audio that arrives in chunks, as from a microphone, to the sampling rate of the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_files import OppositeChannels, check_rate, converted, resampled_length


class AudioPieces:
    """Converts one recording chunk by chunk; the concatenated results equal the conversion of the whole recording.

    Args:
      rate: sampling rate of the chunks in Hz.
      sample_freq: sampling rate of the result in Hz.

    Raises:
      AudioError: the rate is out of range.
    """

    def __init__(self, rate: int, sample_freq: int) -> None:
        rate = check_rate(rate)
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
        if not piece.size and piece.ndim in (1, 2):
            return np.zeros(0, np.float32)
        try:
            audio = converted(piece, self._rate, self._rate)
        except OppositeChannels as error:  # a chunk says little about the recording
            audio = error.average
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
