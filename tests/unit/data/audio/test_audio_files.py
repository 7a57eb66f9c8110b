from __future__ import annotations

import os
import re

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.audio import audio_files
from open_seq2seq.data.audio.audio_files import (
    AudioError,
    AudioInfo,
    converted,
    given_audio,
    is_silent,
    read_audio,
    read_info,
    resampled_length,
)
from open_seq2seq.data.speech2text import recordings
from open_seq2seq.data.speech2text.recordings import AudioIndex
from open_seq2seq.utils.errors import DataError
from tests.file_times import keeping_mtime


def tone(rate: int, seconds: float = 0.5, hertz: float = 500) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize(("suffix", "subtype"), [(".wav", "PCM_16"), (".wav", "FLOAT"), (".wav", "PCM_24"),
                                                 (".flac", "PCM_16"), (".ogg", None), (".aiff", "PCM_16")])
def test_formats(tmp_path, suffix, subtype):
    path = str(tmp_path / f"a{suffix}")
    soundfile.write(path, tone(16000), 16000, subtype=subtype)
    audio = read_audio(path, 16000)
    assert (audio.shape, audio.dtype) == ((8000,), np.float32)
    assert np.abs(audio - tone(16000)).max() < (0.05 if suffix == ".ogg" else 1e-4)


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
def test_any_rate_is_resampled(tmp_path, rate):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, tone(rate), rate)
    audio = read_audio(path, 16000)
    assert len(audio) == resampled_length(read_info(path).samples, rate, 16000)
    inner = slice(800, len(audio) - 800)
    assert np.abs(audio - tone(16000, 1)[:len(audio)])[inner].max() < 1e-3


def test_channels_are_averaged(tmp_path):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, np.stack([tone(16000), 0.5 * tone(16000)], axis=1), 16000)
    assert read_info(path).channels == 2
    assert np.abs(read_audio(path, 16000) - 0.75 * tone(16000)).max() < 1e-4


def test_arrays_are_converted():
    whole = (tone(16000) * 32767).astype(np.int16)
    assert np.abs(converted(whole, 16000, 16000) - tone(16000)).max() < 1e-4
    assert len(converted(np.stack([whole, whole], axis=1), 8000, 16000)) == 16000


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.int32, np.uint32])
def test_whole_numbers_become_audio(dtype):
    """Zero is in the middle of what numbers without a sign can be."""
    limits = np.iinfo(dtype)
    middle = (int(limits.max) + 1) // 2 if limits.min == 0 else 0
    numbers = np.asarray([limits.min, middle, limits.max, middle + int(limits.max) // 4], dtype)
    assert np.abs(converted(numbers, 8000, 8000) - [-1, 0, 1, 0.25 if limits.min else 0.5]).max() < 0.02


@pytest.mark.parametrize(("shape", "remedy"), [((2, 8000), ": transpose it"), ((1, 8000), ": transpose it"),
                                               ((1, 1, 8000), ""), ((), "")])
def test_arrays_of_other_layouts_are_refused(shape, remedy):
    for given in (np.zeros(shape), (np.zeros(shape), 8000)):
        words = "must be an array, or a pair" if isinstance(given, tuple) and not shape else (
            f"has the shape {list(shape)}, but must be [samples] or [samples, channels]{remedy}.")
        with pytest.raises(DataError, match=re.escape(f"The audio {words}")):
            given_audio(given, 16000)
    assert len(given_audio(np.ones((8, 2)), 16000)) == len(given_audio(np.ones((2, 8)).T, 16000)) == 8


@pytest.mark.parametrize("rate", [0, -16000, 16, 16000.5, None, "16000", True, np.nan, np.zeros(2), {}, 10**9])
def test_rates_that_are_refused(rate):
    with pytest.raises(DataError, match="The audio must have a sampling rate from 1,000 to 768,000 Hz, got "):
        given_audio((np.ones(100), rate), 16000)
    assert len(given_audio((np.ones(100), np.float64(8000)), 16000)) == 200


@pytest.mark.parametrize("given", [(16000, np.ones(100)), (np.ones(100), 16000, 1), [np.ones(9), 16000],
                                   ("a.wav", 16000)])
def test_what_is_no_pair_of_samples_and_rate(given):
    """SciPy gives the rate first."""
    with pytest.raises(DataError, match=r"The audio must be an array"):
        given_audio(given, 16000)


@pytest.mark.parametrize(("gain", "is_opposite"), [(-1, True), (-0.9, True), (-0.5, False), (0, False), (1, False)])
def test_channels_of_opposite_phase(tmp_path, capsys, gain, is_opposite):
    path = str(tmp_path / "a.wav")
    soundfile.write(path, np.stack([tone(8000), gain * tone(8000)], axis=1), 8000, subtype="FLOAT")
    if is_opposite:
        with pytest.raises(AudioError, match="channels of opposite phase, which cancel each other out: keep one"):
            read_audio(path, 16000)
    else:
        read_audio(path, 16000)
    expected = read_audio_of_one_channel(tmp_path, (1 + gain) / 2)
    for given, name in ((path, path), ((soundfile.read(path)[0], 8000), "The audio")):
        assert np.abs(given_audio(given, 16000) - expected).max() < 1e-6
        said = f"WARNING: {name} has channels of opposite phase" in capsys.readouterr().out
        assert said == is_opposite


def read_audio_of_one_channel(folder, gain: float) -> np.ndarray:
    soundfile.write(folder / "one.wav", gain * tone(8000), 8000, subtype="FLOAT")
    return read_audio(str(folder / "one.wav"), 16000)


@pytest.mark.parametrize("values", [np.zeros(3, bool), np.zeros(3, complex), np.asarray(["a"])])
def test_what_is_no_audio(values):
    with pytest.raises(AudioError, match="neither integer nor float"):
        converted(values, 8000, 8000)


def broken(tmp_path, kind: str) -> str:
    path = tmp_path / f"{kind}.wav"
    soundfile.write(path, tone(16000), 16000)
    whole = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "empty file":
        path.write_bytes(b"")
    elif kind == "no samples":
        soundfile.write(path, np.zeros(0), 16000)
    elif kind == "no audio":
        path.write_bytes(b"RIFF of something else" * 9)
    elif kind == "header alone":
        path.write_bytes(whole[:30])
    elif kind == "truncated":
        path.write_bytes(whole[:len(whole) // 2])
    elif kind == "strange rate":
        path.write_bytes(whole[:24] + (1).to_bytes(4, "little") + whole[28:])
    elif kind == "nan":
        audio = tone(16000)
        audio[5:8] = np.nan
        soundfile.write(path, audio, 16000, subtype="FLOAT")
    elif kind == "flac":
        path = tmp_path / "a.flac"
        soundfile.write(path, np.random.default_rng(0).uniform(-1, 1, 20000), 16000)
        path.write_bytes(path.read_bytes()[:9000])
    return str(path)


@pytest.mark.parametrize(("kind", "counted", "words"), [
    ("missing", "missing", "does not exist"), ("empty file", "empty", "empty file"),
    ("no samples", "empty", "contains no samples"), ("no audio", "unreadable", "cannot be read as audio"),
    ("header alone", "unreadable", "cannot be read as audio"), ("truncated", "truncated", "8,0.. bytes"),
    ("strange rate", "impossible rate", "rate of 1 Hz"), ("nan", "not finite", "3 NaN"),
    ("flac", "truncated", "is truncated|cannot be read completely"),
])
def test_files_that_cannot_be_used(tmp_path, kind, counted, words):
    with pytest.raises(AudioError, match=words) as error:
        read_audio(broken(tmp_path, kind), 16000)
    assert error.value.kind == counted


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x7FFFFFDC, 0x80000000, 0xFFFFF000])
def test_a_length_that_the_header_does_not_know(tmp_path, length):
    """As programs (the third: SoX, the fifth: arecord) write it that do not know the end when they begin."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16000), 16000, subtype="PCM_16")
    whole = bytearray(path.read_bytes())
    place = whole.index(b"data") + 4
    whole[place:place + 4] = length.to_bytes(4, "little")
    path.write_bytes(whole)
    assert len(read_audio(str(path), 16000)) == 8000


def flac_that_says(path, samples: int) -> str:
    """Changes the number of samples in a FLAC's header, 36 bits; 0 is what encoders write into a pipe."""
    whole = bytearray(path.read_bytes())
    fields = int.from_bytes(whole[18:26], "big")
    whole[18:26] = (fields >> 36 << 36 | samples).to_bytes(8, "big")
    path.write_bytes(whole)
    return str(path)


@pytest.mark.parametrize("block", [2 ** 22, 8000, 3000, 16000])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_flac_that_does_not_say_how_long_it_is(tmp_path, monkeypatch, block, channels):
    monkeypatch.setattr(audio_files, "_BLOCK", block)
    path = tmp_path / "a.flac"
    soundfile.write(path, np.stack([tone(16000)] * channels, axis=1), 16000)
    expected = read_audio(str(path), 16000)
    assert len(expected) == 8000
    streamed = flac_that_says(path, 0)
    assert read_info(streamed) == AudioInfo(8000, 16000, channels)
    assert np.array_equal(read_audio(streamed, 16000), expected)
    assert AudioIndex([streamed], str(tmp_path), 1).samples.tolist() == [8000]


def test_damage_in_a_flac_is_not_its_end(tmp_path):
    path = tmp_path / "a.flac"
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 160_000), 16000)
    streamed = flac_that_says(path, 0)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes(4000) + content[middle + 4000:])
    for read in (read_info, lambda path: read_audio(path, 16000)):
        with pytest.raises(AudioError, match="cannot be read completely"):
            read(streamed)


def test_a_flac_of_nothing(tmp_path):
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(16000), 16000)
    path.write_bytes(path.read_bytes().partition(b"\xff\xf8")[0])  # up to the first frame
    streamed = flac_that_says(path, 0)
    for read in (read_info, lambda path: read_audio(path, 16000)):
        with pytest.raises(AudioError, match="contains no samples"):
            read(streamed)


@pytest.mark.parametrize(("samples", "words"), [(10_000, "8,000 of 10,000"), (2 ** 24, "8,000 of 16"),
                                                (2 ** 36 - 1, "68,719,476,735 sam")])
def test_a_flac_that_says_more_than_it_has(tmp_path, samples, words):
    """Nothing is made room for that is not there."""
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(16000), 16000)
    with pytest.raises(AudioError, match=words):
        read_audio(flac_that_says(path, samples), 16000)


def changed(path, *patches: tuple[bytes, int, int]) -> str:
    """Overwrites the four bytes behind a mark, little-endian."""
    whole = bytearray(path.read_bytes())
    for mark, skip, number in patches:
        place = whole.index(mark) + len(mark) + skip
        whole[place:place + 4] = number.to_bytes(4, "little")
    path.write_bytes(whole)
    return str(path)


@pytest.mark.parametrize("said", [2, 1000, 8001, 14000])
def test_a_wav_that_holds_more_than_it_says(tmp_path, said):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 8000), 16000)
    for read in (read_info, lambda path: read_audio(path, 16000)):
        with pytest.raises(AudioError, match=r"unexpected bytes after the samples") as error:
            read(changed(path, (b"data", 0, said)))
        assert error.value.kind == "more than its header says"


@pytest.mark.parametrize("behind", [b"TAG" + b"x" * 125, bytes(5000), b"LIST\xd0\x07\0\0" + b"n" * 2000,
                                    b"id3 \xd1\x07\0\0" + b"n" * 2001])
@pytest.mark.parametrize("seconds", [0.5, 0.50009])  # an even and an odd number of bytes
def test_what_may_follow_the_samples_of_a_wav(tmp_path, behind, seconds):
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16000, seconds), 16000, subtype="PCM_U8")
    whole = path.read_bytes()
    for filling in (b"", b"\0"):
        path.write_bytes(whole[:44 + int(16000 * seconds)] + filling + behind)
        if seconds > 0.5 or not filling:
            assert len(read_audio(str(path), 16000)) == int(16000 * seconds)


def test_a_wav_whose_whole_length_alone_is_wrong(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16000), 16000)
    for length in (0, 36, 10 ** 6, 0xFFFFFFFF):
        assert len(read_audio(changed(path, (b"RIFF", 0, length)), 16000)) == 8000


@pytest.mark.parametrize("kind", ["AIFF", "AU", "W64", "RF64", "WAV", "WAVEX", "CAF"])
def test_files_cut_short_are_seen_by_their_headers(tmp_path, kind):
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16000), 16000, format=kind, subtype="PCM_16")
    assert len(read_audio(str(path), 16000)) == 8000
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(AudioError, match="is truncated|malformed"):
        read_info(str(path))


def test_a_wav_cut_short_behind_long_texts(tmp_path):
    """libsndfile's log of 2,047 characters ends before it mentions the missing samples."""
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16000), 16000)
    whole, texts = path.read_bytes(), (b"ICMT" + (60).to_bytes(4, "little") + b"c" * 60) * 60
    before = b"LIST" + (4 + len(texts)).to_bytes(4, "little") + b"INFO" + texts
    path.write_bytes((whole[:36] + before + whole[36:])[:9000])
    assert "should be" not in soundfile.info(path).extra_info.partition("WAVE")[2]
    with pytest.raises(AudioError, match="is truncated"):
        read_info(str(path))


@pytest.mark.parametrize("tag", [b"", b"TAG" + bytes(125)])
@pytest.mark.parametrize("seconds", [0.6, 5, 60])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_flac_that_holds_more_than_it_says(tmp_path, seconds, channels, tag):
    path = tmp_path / "a.flac"
    audio = np.random.default_rng(0).uniform(-0.5, 0.5, (int(16000 * seconds), channels))
    soundfile.write(path, audio, 16000)
    path.write_bytes(path.read_bytes() + tag)
    assert len(read_audio(str(path), 16000)) == len(audio)
    with pytest.raises(AudioError, match=f"has {len(audio):,} samples, but its header declares 5,000"):
        read_audio(flac_that_says(path, 5000), 16000)


@pytest.mark.parametrize("make", [lambda p: p.mkdir(), os.mkfifo, lambda p: p.symlink_to("/dev/zero"),
                                  lambda p: p.symlink_to(p), lambda p: p.symlink_to("/proc/self/mem")])
def test_what_is_no_file_is_not_waited_for(tmp_path, make):
    make(tmp_path / "a.wav")
    for read in (read_info, lambda path: read_audio(path, 16000)):
        with pytest.raises(AudioError, match="cannot be read: |empty file"):
            read(str(tmp_path / "a.wav"))


@pytest.mark.parametrize("name", ["a\0.wav", "a\ud800.wav", "n" * 300 + ".wav", ""])
def test_names_that_no_file_has(name):
    with pytest.raises(AudioError, match="does not exist|File name too long"):
        read_info(name)


def test_a_name_that_is_not_utf8(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(16000), 16000)
    os.rename(tmp_path / "a.wav", os.fsencode(tmp_path) + b"/caf\xe9.wav")
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.wav")
    assert len(read_audio(path, 16000)) == 8000 == AudioIndex([path], None, 1).samples[0]


def test_silence_takes_few_bytes(tmp_path):
    """A header is believed that promises much of little."""
    soundfile.write(tmp_path / "a.flac", np.zeros(1_000_000), 16000, compression_level=1.0)
    assert read_info(str(tmp_path / "a.flac")).samples == 1_000_000


def test_silence():
    assert is_silent(np.zeros(10))
    assert is_silent(np.full(10, 2.0 ** -15, np.float32))
    assert not is_silent(np.full(10, 2.0 ** -13, np.float32))


def test_index_is_remembered_and_notices_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "_REMEMBERED_FROM", 2)
    paths = [str(tmp_path / f"{number}.wav") for number in range(3)]
    for number, path in enumerate(paths):
        soundfile.write(path, np.zeros(100 * (number + 1)), 8000)
    folder = str(tmp_path / "cache")
    assert AudioIndex(paths, folder, 2).samples.tolist() == [100, 200, 300]
    read = []
    monkeypatch.setattr(recordings, "read_info", lambda path: read.append(path) or read_info(path))
    assert AudioIndex(paths, folder, 2).samples.tolist() == [100, 200, 300]
    assert read == []
    soundfile.write(paths[1], np.zeros((70, 2)), 16000)
    (tmp_path / "2.wav").unlink()
    index = AudioIndex(paths, folder, 2)
    assert sorted(read) == paths[1:]
    assert index.channels[1] == 2
    assert list(index.errors) == [2]


def test_index_of_a_small_set_leaves_nothing_behind(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(100), 8000)
    AudioIndex([str(tmp_path / "a.wav")], str(tmp_path / "cache"), 1)
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def remembered(tmp_path, monkeypatch):
    """(recordings, the file of their lengths, a function that reads them again: samples and how many were opened)."""
    monkeypatch.setattr(recordings, "_REMEMBERED_FROM", 2)
    paths = [str(tmp_path / f"{number}.wav") for number in range(3)]
    for number, path in enumerate(paths):
        soundfile.write(path, np.zeros(100 * (number + 1)), 8000)
    read: list[str] = []
    monkeypatch.setattr(recordings, "read_info", lambda path: read.append(path) or read_info(path))

    def again() -> tuple[list[int], int]:
        read.clear()
        index = AudioIndex(paths, str(tmp_path / "cache"), 1)
        assert not index.errors and set(index.rates) == {8000} and set(index.channels) == {1}
        return index.samples.tolist(), len(read)

    again()
    return paths, next((tmp_path / "cache").iterdir()), again


def test_no_flipped_bit_of_the_lengths_is_believed(remembered, capsys):
    _, file, again = remembered
    whole = file.read_bytes()
    for place in range(0, len(whole), 3):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1:])
        assert again() == ([100, 200, 300], 3) and file.read_bytes() == whole
        assert "is damaged: reading the headers of 3 recordings again" in capsys.readouterr().out
    for content in (b"", whole[:-1], whole[:50], whole + b"x", whole[:-4]):  # the last: as files were before
        file.write_bytes(content)
        assert again() == ([100, 200, 300], 3)
    assert again() == ([100, 200, 300], 0)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_what_stands_in_the_place_of_the_lengths(remembered, make):
    _, file, again = remembered
    file.unlink()
    make(file)
    assert again() == ([100, 200, 300], 3)


def test_a_recording_of_equal_size_and_time_is_another(remembered):
    paths, _, again = remembered
    with keeping_mtime(paths[0]):
        soundfile.write(paths[0], np.zeros(100), 8000)
    assert again() == ([100, 200, 300], 1) and again()[1] == 0


@pytest.mark.parametrize(("kind", "subtype"), [("wav", "FLOAT"), ("flac", None), ("ogg", None), ("mp3", None)])
@pytest.mark.parametrize("rate", [8000, 11025, 44100])
def test_audio_is_as_long_as_its_header_says(tmp_path, kind, subtype, rate):
    """By this a recording that changed since its header was read is noticed."""
    path = str(tmp_path / f"a.{kind}")
    soundfile.write(path, tone(rate, 1.234), rate, subtype=subtype)
    assert len(read_audio(path, 16000)) == resampled_length(read_info(path).samples, rate, 16000)
