"""Reads the headers of audio files, and their samples at the sampling rate of the features."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from open_seq2seq.data.audio.audio_parts import (
    LAST_FRAME,
    Part,
    PartReader,
    flac_to_count,
    header_mismatch,
    log_mismatch,
    parts_of,
)
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.data_files import open_regular, shown
from open_seq2seq.utils.errors import DataError

RATES = (1000, 768_000)
"""Minimum and maximum accepted sampling rate in Hz."""
_OPPOSITE = 0.15
"""Channels are of opposite phase if the RMS of their average is less than this share of their own."""
_FEW_CHANNELS = 8
"""Number of channels that even an array of fewer samples may have, such as a short chunk of a stream."""
_SILENCE = 1.01 / 2 ** 15
"""Peak up to which audio counts as silent: one quantization step of 16-bit audio."""
_FULL_RANGE, _CLIPPED_SHARE = 0.999, 1e-4
"""Audio is clipped if more than this share of its samples and their successors are at least this far from 0."""
_UNKNOWN_SAMPLES = 2 ** 62
"""Number of samples of files whose length is unknown; libsndfile reports more if a FLAC header gives no length."""
# libsndfile estimates where a Vorbis stream begins that was cut from another; the error is less than a block.
_VORBIS_BLOCK = 8192
# Upper bound on the samples per byte of a file. Silent FLAC files come closest: 11 bytes for a frame of 65,535 samples.
_MOST_SAMPLES_A_BYTE = 8192
_SEVERAL_FORMATS = ("several formats", "is joined from parts with different sampling rates or numbers of channels: "
                    "convert each of them, for example with ffmpeg")
_BLOCK = 2 ** 18
"""Number of values, over all channels, to decode at a time: a header may declare more samples than fit in memory."""
AUDIO_SUFFIXES = (".wav", ".wave", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".sph", ".w64",
                  ".caf")
"""Suffixes of files that are audio whatever they contain; of others, ``recordings_of`` looks at the content."""


Segment = tuple[int, int]
"""The first sample of a segment of a recording, and the one after its last, at the recording's sampling rate."""


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


class OppositeChannels(AudioError):
    """A recording whose channels cancel each other out when they are averaged.

    Args:
      average: the average of the channels ``[samples]``, for callers that use it nevertheless.
    """

    def __init__(self, average: np.ndarray) -> None:
        super().__init__("opposite channels", "has channels of opposite phase, which cancel each other out: keep one "
                         "of them, for example with sox in.wav out.wav remix 1")
        self.average = average


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


@dataclass(frozen=True)
class Excerpt:
    """A segment of a file, as a recording of its own.

    Attributes:
      path: the file.
      segment: the segment.
      rate: sampling rate of the file in Hz.
    """

    path: str
    segment: Segment
    rate: int


class Window(NamedTuple):
    """A window of a longer recording that was given as an array: its samples, and their sampling rate in Hz."""

    samples: np.ndarray
    rate: int


def overlapping(samples: int, rate: int, seconds: int) -> list[Segment]:
    """Returns windows of a recording, which begin at whole seconds and overlap by a quarter; one if it is shorter.

    Args:
      samples: number of samples of the recording.
      rate: its sampling rate in Hz.
      seconds: duration of a window.
    """
    stride = max(1, seconds - seconds // 4)
    number = max(0, -(-(samples - seconds * rate) // (stride * rate)))
    return [(start * stride * rate, min(samples, (start * stride + seconds) * rate)) for start in range(number + 1)]


def windows_of_given(given: Any, sample_freq: int, seconds: int) -> list[tuple[Any, float]]:
    """Returns the windows of a recording that a user passed as recordings, and where each starts, in seconds.

    A recording that cannot be used is returned whole, so that reading it reports the problem.

    Args:
      given: see ``given_audio``.
      sample_freq: sampling rate in Hz of an array without one.
      seconds: duration of a window.
    """
    is_path = isinstance(given, (str, os.PathLike))
    try:
        if is_path:
            info = read_info(os.fspath(given))
            samples, rate = info.samples, info.rate
        else:
            array, rate = given if isinstance(given, tuple) else (given, sample_freq)
            samples, rate = len(array := _array(array)), check_rate(rate)
    except (AudioError, TypeError, ValueError):
        return [(given, 0.0)]
    found = overlapping(samples, rate, seconds)
    return [(given, 0.0)] if len(found) == 1 else [
        (Excerpt(os.fspath(given), one, rate) if is_path else Window(array[slice(*one)], rate), one[0] / rate)
        for one in found]


def resampled_length(samples: Any, rate: Any, sample_freq: int) -> Any:
    """Returns the number of samples after resampling; ``samples`` and ``rate`` are integers or arrays of integers."""
    return -(-samples * sample_freq // rate)


def read_info(path: str) -> AudioInfo:
    """Reads a file's header; counts the samples if the header does not declare their number.

    Raises:
      AudioError: the file is missing, empty or not audio, has fewer or more samples than its header declares, or has an
        impossible rate or length.
    """
    info = _header(path)
    if info.samples < _UNKNOWN_SAMPLES:
        return info
    samples = sum(len(block) for block in _blocks(path))
    if not samples:
        raise AudioError("empty", "contains no samples")
    return AudioInfo(samples, info.rate, info.channels)


def read_audio(path: str, sample_freq: int, segment: Segment | None = None) -> np.ndarray:
    """Reads a recording, averages its channels, and resamples it to ``sample_freq``.

    Args:
      path: the recording.
      sample_freq: sampling rate of the result in Hz.
      segment: the samples to read; None for all of them.

    Returns:
      ``[samples]`` float32, scaled so that the full range of integer formats is from -1 to 1.

    Raises:
      AudioError: the file cannot be read completely, contains NaN or infinite samples, or has channels that cancel each
        other out.
    """
    info = _header(path)
    if segment is not None and (decoded := _sought(path, segment)) is not None:
        return converted(decoded, info.rate, sample_freq)
    pieces, count = [np.zeros([0, info.channels], np.float32)], 0
    for block in _blocks(path):
        # A copy, because a block that is mostly outside the segment would stay in memory.
        pieces.append(block if segment is None else block[max(0, segment[0] - count):max(0, segment[1] - count)].copy())
        count += len(block)
    if count < info.samples < _UNKNOWN_SAMPLES:
        raise AudioError("truncated", f"is truncated: it has {count:,} of {info.samples:,} samples")
    if count > info.samples:
        raise AudioError("more than its header says", f"has {count:,} samples, but its header declares "
                         f"{info.samples:,}")
    return converted(np.concatenate(pieces), info.rate, sample_freq)


def read_for_inference(path: str, sample_freq: int, segment: Segment | None = None) -> np.ndarray:
    """Calls ``read_audio``, but only prints a warning if channels cancel each other out; see there."""
    try:
        return read_audio(path, sample_freq, segment)
    except OppositeChannels as error:
        deco_print(f"WARNING: {shown(path)} {error.detail}.")
        return error.average


def given_audio(given: Any, sample_freq: int, warns: bool = True) -> np.ndarray:
    """Returns a recording that a user passed, as ``[samples]`` float32.

    Args:
      given: the path of a file, an ``Excerpt``, an array ``[samples]`` or ``[samples, channels]`` at ``sample_freq``,
        or a pair (array, rate in Hz).
      sample_freq: sampling rate of the result in Hz.
      warns: whether to print a warning if channels cancel each other out.

    Raises:
      DataError: the recording cannot be used.
    """
    file = given.path if isinstance(given, Excerpt) else given
    name = shown(os.fspath(file)) if isinstance(file, (str, os.PathLike)) else "The audio"
    try:
        if isinstance(given, Excerpt):
            return read_audio(given.path, sample_freq, given.segment)
        if isinstance(given, (str, os.PathLike)):
            return read_audio(os.fspath(given), sample_freq)
        if isinstance(given, tuple) and (len(given) != 2 or np.ndim(given[0]) == 0):
            raise AudioError("no pair", "must be an array, or a pair (array, sampling rate in Hz)")
        samples, rate = given if isinstance(given, tuple) else (given, sample_freq)
        return converted(_array(samples), check_rate(rate), sample_freq)
    except OppositeChannels as error:
        if warns:
            deco_print(f"WARNING: {name} {error.detail}.")
        return error.average
    except AudioError as error:
        raise DataError(f"{name} {error.detail}.") from error


def given_length(given: Any, sample_freq: int) -> int:
    """Returns the number of samples of what ``given_audio`` returns; see there."""
    if isinstance(given, Excerpt):
        return resampled_length(given.segment[1] - given.segment[0], given.rate, sample_freq)
    return len(given_audio(given, sample_freq, warns=False))


def _array(samples: Any) -> np.ndarray:
    try:
        return np.asarray(samples)
    except (ValueError, TypeError) as error:
        raise AudioError("shape", "must be an array of the shape [samples] or [samples, channels]") from error


def recordings_of(folder: str, files: Iterable[str]) -> list[str]:
    """Returns the audio files among the files of a folder, and prints how many others there are.

    Audio files have a suffix of ``AUDIO_SUFFIXES``, or a content that libsndfile can read.
    """
    files = list(files)
    recordings = [path for path in files if path.lower().endswith(AUDIO_SUFFIXES) or _is_audio(path)]
    others = sorted(set(files) - set(recordings))
    if others:
        kinds = Counter(os.path.splitext(path)[1].lower() or "without suffix" for path in others)
        count = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(5))
        count += ", …" if len(kinds) > 5 else ""
        deco_print(f"Left out {format_count(len(others), 'file')} of {shown(folder)} that libsndfile cannot read "
                   f"({shown(count)}), the first is {shown(others[0])}: convert recordings, for example with ffmpeg.")
    return recordings


def _is_audio(path: str) -> bool:
    import soundfile

    try:
        with open_regular(path) as file:
            return soundfile.info(file).frames > 0
    except (soundfile.SoundFileError, OSError, ValueError, TypeError):
        return False


def _header(path: str) -> AudioInfo:
    """Reads a file's header; if the samples have to be counted, ``samples`` is at least ``_UNKNOWN_SAMPLES``."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if not size and not file.read(1):  # files of /proc have a size of 0, and reading them may fail
                raise AudioError("empty", "is an empty file")
            mismatch = header_mismatch(file, size)
            infos = [_part_info(path, file, part) for part in parts_of(file, size, _is_named_mp3(path))]
    except FileNotFoundError as error:
        raise AudioError("missing", "does not exist") from error
    except OSError as error:
        raise AudioError("unreadable", f"cannot be read: {error.strerror or error}") from error
    if len({(info.rate, info.channels) for info in infos}) > 1:
        raise AudioError(*_SEVERAL_FORMATS)
    whole = AudioInfo(sum(info.samples for info in infos), infos[0].rate, infos[0].channels)
    if size * _MOST_SAMPLES_A_BYTE < whole.samples < _UNKNOWN_SAMPLES:
        raise AudioError("impossible length", f"declares {whole.samples:,} samples, but has only {size:,} bytes")
    if mismatch:
        raise AudioError(*mismatch)
    return whole


def _part_info(path: str, file: BinaryIO, part: Part) -> AudioInfo:
    import soundfile

    try:
        header = soundfile.info(os.fsencode(path) if part.is_plain and not part.start else PartReader(file, part))
    except (soundfile.SoundFileError, OSError, ValueError, TypeError) as error:
        raise AudioError("unreadable", f"cannot be read as audio: {_reason(error)}") from error
    if header.frames <= 0:
        raise AudioError("empty", "contains no samples")
    if not RATES[0] <= header.samplerate <= RATES[1]:
        raise AudioError("impossible rate", f"declares an impossible sampling rate of {header.samplerate} Hz")
    if mismatch := log_mismatch(header.extra_info):
        raise AudioError(*mismatch)
    return AudioInfo(_UNKNOWN_SAMPLES if part.is_counted else int(header.frames), int(header.samplerate),
                     int(header.channels))


def _sought(path: str, segment: Segment) -> np.ndarray | None:
    """Returns a segment ``[samples, channels]`` without decoding the samples before it; None if that is impossible.

    libsndfile 1.2 may give wrong samples near the end of an Ogg file.
    """
    import soundfile

    try:
        with open_regular(path) as raw, soundfile.SoundFile(os.fsencode(path)) as file:
            parts = parts_of(raw, os.fstat(raw.fileno()).st_size, _is_named_mp3(path))
            if file.format == "OGG" or not file.seekable() or len(parts) > 1 or not parts[0].is_plain:
                return None
            file.seek(segment[0])
            audio = file.read(segment[1] - segment[0], np.float32, always_2d=True)
    except (soundfile.SoundFileError, OSError, ValueError, RuntimeError) as error:
        raise AudioError("truncated", f"cannot be read completely: {_reason(error)}") from error
    if len(audio) < segment[1] - segment[0]:
        raise AudioError("truncated", f"is truncated: it has {segment[0] + len(audio):,} of {segment[1]:,} samples")
    return audio


def _blocks(path: str) -> Iterator[np.ndarray]:
    """Yields the samples of a file in chunks ``[samples, channels]``, float32."""
    import soundfile

    try:
        with open_regular(path) as raw:
            size = os.fstat(raw.fileno()).st_size
            flac = flac_to_count(raw, size)
            for part in [flac] if flac is not None else parts_of(raw, size, _is_named_mp3(path)):
                reader = PartReader(raw, part)
                with soundfile.SoundFile(os.fsencode(path) if part.is_plain and not part.start else reader) as file:
                    yield from _blocks_of(file, reader if part.is_counted else None)
    except (soundfile.SoundFileError, OSError, ValueError, RuntimeError) as error:
        raise AudioError("truncated", f"cannot be read completely: {_reason(error)}") from error


def _blocks_of(file: Any, counted: PartReader | None) -> Iterator[np.ndarray]:
    """Yields the samples of an open sound file; ``counted`` is its reader if the samples have to be counted."""
    import soundfile

    left = _UNKNOWN_SAMPLES if counted is not None else file.frames
    while left > 0:
        block = np.full([min(left, max(1, _BLOCK // file.channels)), file.channels], np.nan, np.float32)
        try:
            count = len(file.read(out=block))
        except soundfile.LibsndfileError:
            # For an unknown length, libsndfile fails at the end of the file, after decoding all samples.
            if counted is None or counted.bytes_left:
                raise
            count, left = int(np.count_nonzero(~np.isnan(block[:, 0]))), 0
        if not count:
            break
        yield block[:count]
        left -= count
    if counted is not None and counted.bytes_left > LAST_FRAME:  # libsndfile stops where an MP3 changes its format
        raise AudioError(*_SEVERAL_FORMATS)
    if counted is None and file.format == "OGG" and left < _VORBIS_BLOCK:
        yield np.zeros([left, file.channels], np.float32)


def converted(audio: np.ndarray, rate: int, sample_freq: int) -> np.ndarray:
    """Averages the channels of audio ``[samples]`` or ``[samples, channels]``, and resamples it to ``sample_freq``.

    Returns:
      ``[samples]`` float32.

    Raises:
      AudioError: the shape is another one, there are no samples, they are not numeric, some are NaN or infinite, or
        the channels cancel each other out (``OppositeChannels``, which contains the result).
    """
    if audio.ndim not in (1, 2) or (audio.ndim == 2 and audio.shape[1] > max(_FEW_CHANNELS, len(audio))):
        raise AudioError("shape", f"has the shape {list(audio.shape)}, but must be [samples] or [samples, channels]"
                         + (": transpose it" if audio.ndim == 2 else ""))
    if not audio.size:
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
    is_opposite = False
    if audio.ndim == 2:
        average = audio[:, 0] if audio.shape[1] == 1 else audio.mean(axis=1)
        is_opposite = _rms(average) < _OPPOSITE * _rms(audio)
        audio = average
    if rate != sample_freq:
        audio = resampled(audio, rate, sample_freq, resampled_length(len(audio), rate, sample_freq))
    if is_opposite:
        raise OppositeChannels(np.ascontiguousarray(audio))
    return np.ascontiguousarray(audio)


def _rms(audio: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(audio))))


def check_rate(rate: Any) -> int:
    """Returns a sampling rate that a user passed, in Hz.

    Raises:
      AudioError: it is not a whole number, or out of range.
    """
    is_number = isinstance(rate, (int, float, np.number)) and not isinstance(rate, bool)
    if not is_number or not RATES[0] <= rate <= RATES[1] or rate != int(rate):
        raise AudioError("impossible rate", f"must have a sampling rate from {RATES[0]:,} to {RATES[1]:,} Hz, got "
                         f"{rate!r:.40}")
    return int(rate)


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


def is_clipped(audio: np.ndarray) -> bool:
    """Returns whether audio ``[samples]`` was too loud for its format: pairs of samples are at the end of its range.

    A recording that was scaled to full range touches the end with single samples.
    """
    loud = np.abs(audio) >= _FULL_RANGE
    return int(np.sum(loud[1:] & loud[:-1])) > _CLIPPED_SHARE * len(audio)


def _is_named_mp3(path: str) -> bool:
    return path.lower().endswith(".mp3")


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    if "File does not exist" in text:  # libsndfile's words for a file that exists, but is no MP3
        return "Format not recognised"
    return text.rpartition(": ")[2].rstrip(".") or text
