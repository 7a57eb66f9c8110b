"""Recordings and pictures in the bodies of requests."""

from __future__ import annotations

import io
import struct

import numpy as np
import tensorflow as tf

from open_seq2seq.data.image2label.image_files import decode_rgb
from open_seq2seq.server.limits import Limits, Refused

WIDTHS = {2: "<i2", 4: "<i4"}
"""Bytes of a sample without a file around it → its type."""
_BLOCK = 1 << 16  # samples
_MOST_RATE = 48_000  # Hz
_MOST_PIXELS = 50_000_000
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"


def most_samples(limits: Limits, rate: int) -> int:
    """Returns the number of samples of the longest recording at a rate in Hz; above 48,000 Hz, it has fewer seconds."""
    return int(limits.audio_seconds * min(rate, _MOST_RATE))


def samples_of(content: bytes | bytearray, width: int, channels: int) -> np.ndarray:
    """Returns the samples ``[samples]``, from -1 to 1, of whole little-endian numbers; channels are averaged.

    Args:
      content: the samples, one of each channel after the other; what is left of an incomplete last one is dropped.
      width: bytes of a sample, a key of ``WIDTHS``.
      channels: number of channels.
    """
    whole = np.frombuffer(content, WIDTHS[width], len(content) // (width * channels) * channels)
    return whole.reshape(-1, channels).mean(1, dtype=np.float32) / np.float32(256 ** width / 2)


def recording_of(content: bytes, limits: Limits) -> tuple[np.ndarray, int]:
    """Returns the samples ``[samples]`` of an audio file, whose channels are averaged, and its sampling rate in Hz.

    It is read piece by piece, so that a small file with hours of silence does not need their memory.

    Raises:
      Refused: it is no audio file, empty, too long, or has samples that are not finite.
    """
    import soundfile

    blocks, count = [], 0
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            rate, most = file.samplerate, most_samples(limits, file.samplerate)
            if file.channels > 16:
                raise Refused(400, f"The recording has {file.channels} channels: send one with at most 16.", "file")
            while len(block := file.read(_BLOCK, "float32", always_2d=True)) and count <= most:
                blocks.append(block.mean(1))
                count += len(block)
    except (soundfile.SoundFileError, RuntimeError, ValueError, TypeError) as error:
        raise Refused(400, "The file is no recording that can be read: send WAV, FLAC, OGG, MP3 or another format of "
                      "libsndfile.", "file") from error
    if count > most:
        raise Refused(413, f"The recording is longer than {most / rate:g} seconds: divide it.", "file")
    samples = np.concatenate(blocks) if blocks else np.zeros([0], np.float32)
    if not len(samples):
        raise Refused(400, "The recording has no samples.", "file")
    if not np.isfinite(samples).all():
        raise Refused(400, "The recording has samples that are not finite numbers.", "file")
    return samples, rate


def picture_of(content: bytes) -> np.ndarray:
    """Returns the pixels of a JPEG or PNG file, uint8 ``[height, width, 3]``; see ``decode_rgb``.

    Raises:
      Refused: it is no such file, or has too many pixels.
    """
    try:
        if content.startswith(_PNG):
            width, height = struct.unpack(">II", content[16:24])
        elif content.startswith(_JPEG):
            height, width, _ = tf.io.extract_jpeg_shape(content).numpy().tolist()
        else:
            raise Refused(400, "The file is no picture that can be read: send a JPEG or PNG file.", "file")
        if width * height > _MOST_PIXELS:
            raise Refused(413, f"The picture has {width:,} x {height:,} pixels, but at most {_MOST_PIXELS:,} are "
                          "allowed: make it smaller.", "file")
        return decode_rgb(tf.constant(content)).numpy()
    except (struct.error, tf.errors.InvalidArgumentError) as error:
        raise Refused(400, "The picture is damaged: it cannot be decoded.", "file") from error


_SOUNDS = {"wav": ("WAV", "PCM_16", "audio/wav"), "flac": ("FLAC", "PCM_16", "audio/flac"),
           "mp3": ("MP3", "MPEG_LAYER_III", "audio/mpeg"), "opus": ("OGG", "OPUS", "audio/ogg")}
_RATES = (8000, 12000, 16000, 24000, 48000)  # in Hz, of Opus; MP3 has these and others


def sound_file(samples: np.ndarray, rate: int, kind: str) -> tuple[bytes, str]:
    """Returns the content of a file with sound, and its media type.

    Args:
      samples: ``[samples]`` from -1 to 1.
      rate: sampling rate in Hz.
      kind: wav, flac, mp3, opus or pcm (24,000 Hz, 16 bits, no header).

    Raises:
      Refused: the format is unknown, or libsndfile here does not write it.
    """
    import soundfile
    import soxr

    if kind == "pcm":
        return (soxr.resample(samples, rate, 24_000) * 32767).clip(-32768, 32767).astype("<i2").tobytes(), "audio/pcm"
    if kind not in _SOUNDS or _SOUNDS[kind][0] not in soundfile.available_formats():
        raise Refused(400, f"The format {kind!r:.20} is not written here: use wav, flac, mp3, opus or pcm.",
                      "response_format")
    container, subtype, media = _SOUNDS[kind]
    if kind in ("opus", "mp3") and rate not in _RATES:
        samples, rate = soxr.resample(samples, rate, 24_000), 24_000
    content = io.BytesIO()
    soundfile.write(content, samples, rate, subtype, format=container)
    return content.getvalue(), media
