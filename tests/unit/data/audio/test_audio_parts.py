from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.audio.audio_files import AudioError, read_audio, read_info

RATE = 16000
TAG = b"TAG" + b"x" * 125
APE = b"APETAGEX" + b"".join(number.to_bytes(4, "little") for number in (2000, 48, 1, 1 << 31)) + bytes(8 + 48)
ID3 = b"ID3\4\0\0\0\0\0\x14" + b"x" * 20


def speech(seconds: float, seed: int = 0) -> np.ndarray:
    """Noise whose loudness changes, so that an MP3's bit rate does, too."""
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, round(seconds * RATE))
    return noise * np.linspace(0, 1, len(noise)) ** 4


def content_of(path: Path, audio: np.ndarray, rate: int = RATE) -> bytes:
    soundfile.write(path, audio, rate)
    return path.read_bytes()


def without_xing(mp3: bytes) -> bytes:
    """Returns an MP3 from its second frame on; the first one is a Xing header."""
    assert b"Xing" in mp3[:64]
    return mp3[mp3.index(mp3[:2], 64):]


@pytest.fixture
def lengths(tmp_path) -> Callable[[str, bytes], tuple[int, int]]:
    """Writes a file; returns its length according to ``read_info`` and ``read_audio``."""
    def read(name: str, content: bytes) -> tuple[int, int]:
        path = tmp_path / name
        path.write_bytes(content)
        return read_info(str(path)).samples, len(read_audio(str(path), RATE))
    return read


@pytest.mark.parametrize("begins_silent", [True, False])
@pytest.mark.parametrize("behind", [b"", TAG, APE])
def test_an_mp3_without_xing_header_is_read_to_its_end(tmp_path, lengths, begins_silent, behind):
    """libsndfile estimates the length from the bit rate of the first frame."""
    audio = speech(6) if begins_silent else speech(6)[::-1]
    stream = without_xing(content_of(tmp_path / "whole.mp3", audio))
    (tmp_path / "a.mp3").write_bytes(stream)
    estimate = soundfile.info(tmp_path / "a.mp3").frames
    assert estimate > 1.5 * len(audio) if begins_silent else estimate < 0.8 * len(audio)
    samples, read = lengths("a.mp3", ID3 + stream + behind)
    assert samples == read and len(audio) <= samples < len(audio) + 4 * 576
    found = read_audio(str(tmp_path / "a.mp3"), RATE)[-RATE // 2 - 576:][:RATE // 2]
    assert abs(np.std(found) / np.std(audio[-RATE // 2:]) - 1) < 0.5  # the end is there, not zeros


@pytest.mark.parametrize(("share", "estimate", "samples"), [(2, 57_082, 45_504), (4, 64_232, 67_968)])
def test_an_mp3_cut_from_another_begins_within_a_frame(tmp_path, lengths, share, estimate, samples):
    mp3 = content_of(tmp_path / "whole.mp3", speech(6))
    assert lengths("a.mp3", mp3[len(mp3) // share + 7:]) == (samples, samples)
    assert soundfile.info(tmp_path / "a.mp3").frames == estimate


def test_an_mp3_shorter_than_its_xing_header_is_truncated(tmp_path, lengths):
    mp3 = content_of(tmp_path / "whole.mp3", speech(3))
    with pytest.raises(AudioError, match=r"is truncated: it has [\d,]+ of 48,000 samples"):
        lengths("a.mp3", mp3[:len(mp3) // 2])


@pytest.mark.parametrize(("suffix", "between"), [("ogg", b""), ("mp3", b""), ("mp3", TAG), ("mp3", ID3), ("mp3", APE),
                                                 ("mp3", TAG + ID3)])
@pytest.mark.parametrize("count", [2, 3])
def test_joined_files_are_read_to_the_end_of_the_last(tmp_path, lengths, suffix, count, between):
    parts = [content_of(tmp_path / f"part.{suffix}", speech(1 + number, number)) for number in range(count)]
    seconds = sum(range(1, count + 1))
    assert lengths(f"a.{suffix}", between.join(parts) + between[:128]) == (seconds * RATE, seconds * RATE)
    last = read_audio(str(tmp_path / f"part.{suffix}"), RATE)
    assert np.array_equal(read_audio(str(tmp_path / f"a.{suffix}"), RATE)[-len(last):], last)


def test_a_file_joined_with_itself(tmp_path, lengths):
    """Both streams of the Ogg file have the same serial number."""
    ogg = content_of(tmp_path / "part.ogg", speech(1))
    assert lengths("a.ogg", ogg + ogg) == (2 * RATE, 2 * RATE)


@pytest.mark.parametrize(("suffix", "has_xing"), [("mp3", True), ("mp3", False), ("ogg", True)])
@pytest.mark.parametrize("change", ["rate", "channels"])
def test_joined_files_of_different_formats(tmp_path, lengths, suffix, has_xing, change):
    first = content_of(tmp_path / f"1.{suffix}", speech(1))
    other = np.stack([speech(1)] * 2, axis=1) if change == "channels" else speech(1)
    second = content_of(tmp_path / f"2.{suffix}", other, 8000 if change == "rate" else RATE)
    if not has_xing:
        first, second = without_xing(first), without_xing(second)
    with pytest.raises(AudioError, match="joined from parts with different sampling rates or numbers of channels"):
        lengths(f"a.{suffix}", first + second)


def test_what_follows_an_mp3_and_is_no_other(tmp_path, lengths):
    """Some Xing headers leave their own frame out, and some files end with zeros."""
    mp3 = content_of(tmp_path / "a.mp3", speech(1))
    place = mp3.index(b"Xing") + 12
    length = int.from_bytes(mp3[place:place + 4], "big")
    shorter = mp3[:place] + (length - 144).to_bytes(4, "big") + mp3[place + 4:]
    assert lengths("b.mp3", shorter) == lengths("c.mp3", mp3 + bytes(5000)) == (RATE, RATE)


@pytest.mark.parametrize(("missing", "words"), [(8191, ""), (8192, "is truncated: it has 56,192 of 64,384 samples")])
def test_where_a_cut_ogg_begins_is_estimated(tmp_path, monkeypatch, lengths, missing, words):
    """A Vorbis stream that ffmpeg cut out of another had 384 samples fewer than libsndfile expected."""
    ogg = content_of(tmp_path / "part.ogg", speech((64_384 - missing) / RATE))
    monkeypatch.setattr(soundfile.SoundFile, "frames", property(lambda self: 64_384))
    if words:
        with pytest.raises(AudioError, match=words):
            lengths("a.ogg", ogg)
    else:
        assert lengths("a.ogg", ogg) == (64_384, 64_384)
        assert not read_audio(str(tmp_path / "a.ogg"), RATE)[-missing:].any()


@pytest.mark.parametrize("riff", [0, 36, 0xFFFFFFFF])
@pytest.mark.parametrize("bits", ["PCM_16", "PCM_U8", "FLOAT"])
def test_a_wav_of_size_0_is_read_to_its_end(tmp_path, lengths, riff, bits):
    audio = speech(1)
    soundfile.write(tmp_path / "a.wav", audio, RATE, subtype=bits)
    whole = (tmp_path / "a.wav").read_bytes()
    expected = read_audio(str(tmp_path / "a.wav"), RATE)
    place = whole.index(b"data")
    content = b"RIFF" + riff.to_bytes(4, "little") + whole[8:place + 4] + bytes(4) + whole[place + 8:]
    if bits == "FLOAT":  # libsndfile writes a chunk before and after the samples
        content = content[:place + 8 + 4 * len(audio)]
    assert lengths("b.wav", content) == (RATE, RATE)
    assert np.array_equal(read_audio(str(tmp_path / "b.wav"), RATE), expected)


@pytest.mark.parametrize("behind", [b"", b"LIST\x04\0\0\0INFO"])
def test_a_wav_without_samples(tmp_path, lengths, behind):
    with pytest.raises(AudioError, match="contains no samples"):
        lengths("a.wav", content_of(tmp_path / "empty.wav", np.zeros(0)) + behind)


def test_an_rf64_of_size_0_is_read_to_its_end(tmp_path, lengths):
    soundfile.write(tmp_path / "a.wav", speech(1), RATE, format="RF64")
    whole = (tmp_path / "a.wav").read_bytes()
    assert lengths("b.wav", whole[:20] + bytes(24) + whole[44:]) == (RATE, RATE)


def test_a_length_that_sox_does_not_know(tmp_path, lengths):
    """SoX writes lengths near 0x7F000000 into the header of an AIFF that it writes to a pipe."""
    soundfile.write(tmp_path / "a.aiff", speech(1), RATE, subtype="PCM_16")
    whole = bytearray((tmp_path / "a.aiff").read_bytes())
    place = whole.index(b"SSND") + 4
    whole[place:place + 4] = (0x7F000008).to_bytes(4, "big")
    assert lengths("b.aiff", bytes(whole)) == (RATE, RATE)


def test_joined_flac_files_are_refused(tmp_path, lengths):
    flac = content_of(tmp_path / "part.flac", speech(1))
    with pytest.raises(AudioError, match="cannot be read completely: flac decoder lost sync"):
        lengths("a.flac", flac + flac)
