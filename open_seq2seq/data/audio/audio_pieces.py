"""Conversion of audio that arrives in pieces, as from a microphone, to the rate of the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_files import RATES, AudioError, converted, resampled_length


class AudioPieces:
    """Converts pieces of one recording; the results together equal the converted recording.

    Args:
      rate: samples a second of the pieces.
      sample_freq: samples a second of the result.

    Raises:
      AudioError: an impossible rate.
    """

    def __init__(self, rate: int, sample_freq: int) -> None:
        if not RATES[0] <= rate <= RATES[1]:
            raise AudioError("impossible rate", f"The audio is said to have {rate} samples a second, but it has to be "
                             f"from {RATES[0]:,} to {RATES[1]:,}")
        self._rate, self._sample_freq = rate, sample_freq
        self._taken = self._given = 0
        self._resampler: Any = None
        if rate != sample_freq:
            import soxr

            self._resampler = soxr.ResampleStream(rate, sample_freq, 1, dtype="float32", quality="HQ")

    def convert(self, piece: np.ndarray) -> np.ndarray:
        """Converts a piece; returns the next part of the result, float32 ``[samples]``.

        Args:
          piece: ``[samples]`` or ``[samples, channels]``, of integers or of floats from -1 to 1; it may be empty.

        Raises:
          AudioError: values that are no numbers, or another shape.
        """
        piece = np.asarray(piece)
        if piece.ndim not in (1, 2):
            raise AudioError("shape", f"A piece of audio has the shape {list(piece.shape)} but has to be [samples] or "
                             "[samples, channels]")
        if not piece.size:
            return np.zeros(0, np.float32)
        audio = converted(piece, self._rate, self._rate)
        self._taken += len(audio)
        return audio if self._resampler is None else self._counted(self._resampler.resample_chunk(audio))

    def rest(self) -> np.ndarray:
        """Returns the rest of the result ``[samples]`` at the end of the recording."""
        if self._resampler is None or not self._taken:
            return np.zeros(0, np.float32)
        rest = self._counted(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        missing = resampled_length(self._taken, self._rate, self._sample_freq) - self._given
        return np.pad(rest, (0, missing)) if missing >= 0 else rest[:missing]

    def _counted(self, audio: np.ndarray) -> np.ndarray:
        self._given += len(audio)
        return audio
