"""Encodes sound as the content of a file."""

from __future__ import annotations

import io

import numpy as np


def encoded(samples: np.ndarray, rate: int, file_format: str = "WAV") -> bytes:
    """Returns the content of a 16-bit sound file.

    The file is encoded in memory, because libsndfile does not report why a write to a file fails.

    Args:
      samples: sound, floats in [-1, 1] or int16 ``[samples]`` or ``[samples, channels]``.
      rate: sampling rate in Hz.
      file_format: ``WAV`` or ``FLAC``.
    """
    import soundfile

    content = io.BytesIO()
    soundfile.write(content, samples, rate, "PCM_16", format=file_format)
    return content.getvalue()
