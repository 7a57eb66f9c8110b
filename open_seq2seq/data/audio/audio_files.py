"""Reads the headers of audio files, and their samples at the sampling rate of the features."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_headers import Mismatch, flac_mismatch, header_mismatch, log_mismatch
from open_seq2seq.utils.data_files import open_regular, shown
from open_seq2seq.utils.errors import DataError

RATES = (1000, 768_000)
"""Minimum and maximum accepted sampling rate in Hz."""
_SILENCE = 1.01 / 2 ** 15
"""Peak up to which audio counts as silent: one quantization step of 16-bit audio."""
# If libsndfile reports at least this many samples, the length is unknown: it reports 2 ** 63 - 1 if a FLAC header gives
# no length.
_UNKNOWN_SAMPLES = 2 ** 62
# Upper bound on the samples per byte of a file. Silent FLAC files come closest: 11 bytes for a frame of 65,535 samples.
_MOST_SAMPLES_A_BYTE = 8192
_BLOCK = 2 ** 22
"""Number of values, over all channels, to decode at a time: a header may declare more samples than fit in memory."""
AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au", ".sph", ".w64", ".caf")
"""Suffixes by which audio files in a folder are found; files that are named directly may have any suffix."""


class AudioError(DataError):
    """A recording that cannot be used.

    Args:
      kind: the problem in a few words; messages count bad files by kind.
      detail: the problem as the predicate of a sentence about the file, such as ``is an empty file``. For audio that
        arrives in chunks, it can be a whole sentence.
    """

    def __init__(self, kind: str, detail: str) -> None:
        self.kind, self.detail = kind, detail
        super().__init__(detail)


@dataclass(frozen=True)
class AudioInfo:
    """The header of an audio file.

    Attributes:
      samples: number of samples per channel.
      rate: sampling rate in Hz.
      channels: number of channels.
    """

    samples: int
    rate: int
    channels: int


def resampled_length(samples: Any, rate: Any, sample_freq: int) -> Any:
    """Returns the number of samples after resampling; ``samples`` and ``rate`` are integers or arrays of integers."""
    return -(-samples * sample_freq // rate)


def read_info(path: str) -> AudioInfo:
    """Reads a file's header; counts the samples if the header does not declare their number.

    Raises:
      AudioError: the file is missing, empty or not audio, has fewer or more samples than its header declares, or has an
        impossible rate or length.
    """
    found = _header(path)
    if found.samples < _UNKNOWN_SAMPLES:
        return found
    samples = sum(len(block) for block in _blocks(path, found))
    if not samples:
        raise AudioError("empty", "contains no samples")
    return AudioInfo(samples, found.rate, found.channels)


def read_audio(path: str, sample_freq: int) -> np.ndarray:
    """Reads a recording, averages its channels, and resamples it to ``sample_freq``.

    Returns:
      ``[samples]`` float32, scaled so that the full range of integer formats is from -1 to 1.

    Raises:
      AudioError: the file cannot be read completely, or contains NaN or infinite samples.
    """
    info = _header(path)
    audio = np.concatenate([np.zeros([0, info.channels], np.float32), *_blocks(path, info)])
    if len(audio) < info.samples < _UNKNOWN_SAMPLES:
        raise AudioError("truncated", f"is truncated: it has {len(audio):,} of {info.samples:,} samples")
    return converted(audio, info.rate, sample_freq)


def given_audio(given: Any, sample_freq: int) -> np.ndarray:
    """Returns a recording that a user passed, as ``[samples]`` float32.

    Args:
      given: the path of a file, an array ``[samples]`` or ``[samples, channels]`` at ``sample_freq``, or a pair (array,
        rate in Hz).
      sample_freq: sampling rate of the result in Hz.

    Raises:
      DataError: the recording cannot be used.
    """
    try:
        if isinstance(given, (str, os.PathLike)):
            return read_audio(os.fspath(given), sample_freq)
        samples, rate = given if isinstance(given, tuple) else (given, sample_freq)
        return converted(np.asarray(samples), rate, sample_freq)
    except AudioError as error:
        name = shown(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else "The audio"
        raise DataError(f"{name} {error.detail}.") from error


def _header(path: str) -> AudioInfo:
    """Reads a file's header; if it declares no length, ``samples`` is at least ``_UNKNOWN_SAMPLES``."""
    import soundfile

    size, mismatch = _look(path)
    if not size:
        raise AudioError("empty", "is an empty file")
    try:
        found = soundfile.info(os.fsencode(path))
    except (soundfile.SoundFileError, OSError, ValueError, TypeError) as error:
        raise AudioError("unreadable", f"cannot be read as audio: {_reason(error)}") from error
    if found.frames <= 0:
        raise AudioError("empty", "contains no samples")
    if not RATES[0] <= found.samplerate <= RATES[1]:
        raise AudioError("impossible rate", f"declares an impossible sampling rate of {found.samplerate} Hz")
    if size * _MOST_SAMPLES_A_BYTE < found.frames < _UNKNOWN_SAMPLES:
        raise AudioError("impossible length", f"declares {found.frames:,} samples, but has only {size:,} bytes")
    if mismatch := mismatch or log_mismatch(found.extra_info):
        raise AudioError(*mismatch)
    return AudioInfo(int(found.frames), int(found.samplerate), int(found.channels))


def _look(path: str) -> tuple[int, Mismatch | None]:
    """Returns a file's size in bytes, and the mismatch between its header and its size, if any."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return size, header_mismatch(file, size)
    except FileNotFoundError as error:
        raise AudioError("missing", "does not exist") from error
    except OSError as error:
        raise AudioError("unreadable", f"cannot be read: {error.strerror or error}") from error


def _blocks(path: str, info: AudioInfo) -> Iterator[np.ndarray]:
    """Yields the samples of a file in chunks ``[samples, channels]``, float32."""
    import soundfile

    left, is_endless = info.samples, info.samples >= _UNKNOWN_SAMPLES
    try:
        # A file of unknown length is read through a Python file object, which is slower, but shows whether it was read
        # to its end.
        with open_regular(path) as raw, soundfile.SoundFile(raw if is_endless else os.fsencode(path)) as file:
            while left > 0:
                block = np.full([min(left, max(1, _BLOCK // file.channels)), file.channels], np.nan, np.float32)
                try:
                    count = len(file.read(out=block))
                except soundfile.LibsndfileError:
                    # For an unknown length, libsndfile fails at the end of the file, after decoding all samples.
                    if not is_endless or raw.read(1):
                        raise
                    count = int(np.count_nonzero(~np.isnan(block[:, 0])))
                yield block[:count]
                left = left - count if count == len(block) else 0
            if not is_endless and (mismatch := flac_mismatch(raw, info.samples)):
                raise AudioError(*mismatch)
    except (soundfile.SoundFileError, OSError, ValueError, RuntimeError) as error:
        raise AudioError("truncated", f"cannot be read completely: {_reason(error)}") from error


def converted(audio: np.ndarray, rate: int, sample_freq: int) -> np.ndarray:
    """Averages the channels of audio ``[samples]`` or ``[samples, channels]``, and resamples it to ``sample_freq``.

    Returns:
      ``[samples]`` float32.

    Raises:
      AudioError: there are no samples, they are not numeric, or some are NaN or infinite.
    """
    if not len(audio):
        raise AudioError("empty", "contains no samples")
    if audio.dtype.kind not in "iuf":
        raise AudioError("no numbers", f"has samples of dtype {audio.dtype}, which is neither integer nor float")
    if audio.dtype.kind != "f":
        half = 2.0 ** (8 * audio.dtype.itemsize - 1)  # unsigned samples represent silence by ``half``
        audio = (audio.astype(np.float64) - (half if audio.dtype.kind == "u" else 0.0)) / half
    audio = np.asarray(audio, np.float32)
    if not np.all(np.isfinite(audio)):
        count = int(np.sum(~np.isfinite(audio)))
        raise AudioError("not finite", f"has {count:,} NaN or infinite sample{'s' if count > 1 else ''}")
    if audio.ndim == 2:
        audio = audio[:, 0] if audio.shape[1] == 1 else audio.mean(axis=1)
    if rate != sample_freq:
        audio = resampled(audio, rate, sample_freq, resampled_length(len(audio), rate, sample_freq))
    return np.ascontiguousarray(audio)


def resampled(audio: np.ndarray, rate: float, new_rate: float, length: int) -> np.ndarray:
    """Resamples audio with a linear-phase polyphase filter (soxr's quality ``HQ``).

    Args:
      audio: float32 ``[samples]``.
      rate: sampling rate of the audio; only its ratio to ``new_rate`` matters.
      new_rate: sampling rate of the result.
      length: number of samples of the result, which is truncated or padded with zeros to compensate for rounding.
    """
    import soxr

    result = soxr.resample(audio, rate, new_rate, quality="HQ")[:length]
    return np.pad(result, (0, length - len(result)))


def is_silent(audio: np.ndarray) -> bool:
    """Returns whether audio ``[samples]`` is silent: its peak is at most one quantization step of 16-bit audio."""
    return float(np.max(np.abs(audio), initial=0.0)) <= _SILENCE


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    return text.rpartition(": ")[2].rstrip(".") or text
