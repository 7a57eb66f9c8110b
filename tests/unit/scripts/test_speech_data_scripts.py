"""The scripts that prepare speech, run as a user runs them."""

from __future__ import annotations

import gc
import io
import itertools
import resource
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.audio.audio_files import read_audio
from open_seq2seq.data.speech2text.alphabet import Characters
from open_seq2seq.data.speech2text.manifests import read_manifests
from tests.unit.scripts.running import ok, run

RATE = 8000
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def rows_of(path):
    return read_manifests([str(path)], None, True)


def test_files_that_old_configs_name(tmp_path):
    ok("create_test_utils", cwd=tmp_path)
    folder = tmp_path / "open_seq2seq" / "test_utils"
    letters = (folder / "toy_speech_data" / "vocab.txt").read_text().split("\n")
    assert len(letters) == 29 and letters[0] == " " and letters[27:] == ["'", ""]
    rows = rows_of(folder / "toy_speech_data" / "toy_data.csv")
    assert len(rows) == 10 and all(set(row.text) <= set(letters) and Path(row.path).exists() for row in rows)
    assert "a" in (folder / "vocab_tts.txt").read_text().split("\n")
    assert "already exists" in run("create_test_utils", cwd=tmp_path).stderr


def test_toy_speech(tmp_path):
    sizes = ("--train_size=6", "--dev_size=2", "--test_size=1", "--sample_freq=8000")
    ok("create_toy_speech", "--output_dir=a", *sizes, cwd=tmp_path)
    ok("create_toy_speech", "--output_dir=b", *sizes, cwd=tmp_path)
    assert [len(rows_of(tmp_path / "a" / f"{name}.csv")) for name in ("train", "dev", "test")] == [6, 2, 1]
    letters = set((tmp_path / "a" / "vocab.txt").read_text().split("\n"))
    for row in rows_of(tmp_path / "a" / "train.csv"):
        assert set(row.text) <= letters
        assert 0.05 * len(row.text) < len(read_audio(row.path, RATE)) / RATE < 0.16 * len(row.text) + 0.4
    contents = [(tmp_path / folder / "wav" / "train-0003.wav").read_bytes() for folder in "ab"]
    assert contents[0] == contents[1]
    assert "Error: --sample_freq" in run("create_toy_speech", "--sample_freq=4000", cwd=tmp_path).stderr


def test_listening_to_a_toy_voice(tmp_path):
    ok("create_toy_voice", "--train_size=0", "--dev_size=0", "--test_size=1", cwd=tmp_path)
    listen = ("--listen", "toy_voice_data/wavs/test-0000.wav", "--texts")
    letters = (tmp_path / "toy_voice_data/test.csv").read_text().split("|")[1].strip().replace(" ", "")
    said = ok("create_toy_voice", *listen, "toy_voice_data/test.csv", cwd=tmp_path).stdout
    assert said.endswith(f"letters heard: {len(letters)} of {len(letters)}\n")
    (tmp_path / "other.csv").write_bytes(b"a|\xff\n")
    result = run("create_toy_voice", *listen, "other.csv", cwd=tmp_path)
    assert result.returncode == 2 and "other.csv:1: the line is not valid UTF-8" in result.stderr


def test_an_alphabet_is_that_of_all_transcripts(tmp_path):
    """The data layer's own check finds nothing outside of it, and nothing in it is not used."""
    (tmp_path / "a.csv").write_text('wav_filename,transcript\na.wav,"Où, là"\nb.wav,\n', encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"audio_filepath": "c.wav", "text": "là?"}\n', encoding="utf-8")
    out = ok("create_alphabet", "a.csv", "b.jsonl", "--lower_case", "--remove_characters=,?", cwd=tmp_path).stdout
    alphabet = Characters(str(tmp_path / "vocab.txt"))
    assert alphabet.labels == [" ", "l", "o", "à", "ù"] and alphabet.unknown("où là") == ""
    lines = [line.split() for line in out.splitlines() if "first in" in line]
    assert [line[1] for line in lines] == ["1", "1", "1", "2", "2"] and "a.csv:2" in out
    (tmp_path / "c.csv").write_text("wav_filename,transcript\na.wav,Aa\n", encoding="utf-8")
    assert "--lower_case" in ok("create_alphabet", "c.csv", cwd=tmp_path).stdout and "--lower_case" not in out


def test_an_alphabet_has_each_letter_in_one_form(tmp_path):
    lines = ["wav_filename,transcript", "a.wav,caf\u00e9 l'a", "b.wav,cafe\u0301 l\u2019a"]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    out = ok("create_alphabet", "a.csv", cwd=tmp_path).stdout
    alphabet = Characters(str(tmp_path / "vocab.txt"))
    assert alphabet.labels == [" ", "'", "a", "c", "f", "l", "\u00e9"]
    assert "(U+2019) is read as \"'\" (U+0027): 1 time" in out
    assert alphabet.encode("cafe\u0301 l\u2019a") == alphabet.encode("caf\u00e9 l'a")


@pytest.mark.parametrize(("rows", "words"), [('"one\nline"', "line break"), ("", "All transcripts in")])
def test_an_alphabet_that_cannot_be(tmp_path, rows, words):
    (tmp_path / "a.csv").write_text(f"wav_filename,transcript\na.wav,{rows}\n", encoding="utf-8")
    result = run("create_alphabet", "a.csv", cwd=tmp_path)
    assert result.returncode == 2 and words in result.stderr and not (tmp_path / "vocab.txt").exists()


@pytest.fixture
def flac() -> bytes:
    out = io.BytesIO()
    soundfile.write(out, np.sin(np.arange(1600) * 0.2), 16000, format="FLAC")
    return out.getvalue()


def archive_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def librispeech(flac: bytes) -> dict[str, bytes]:
    return {"LibriSpeech/README.TXT": b"about", "LibriSpeech/dev-clean/84/1/84-1-0001.flac": flac,
            "LibriSpeech/dev-clean/84/1/84-1-0000.flac": flac,
            "LibriSpeech/dev-clean/84/1/84-1.trans.txt": b"84-1-0000 IT'S ONE\n84-1-0001 TWO\n"}


@pytest.mark.parametrize("file_format", ["flac", "wav"])
def test_librivox(tmp_path, flac, file_format):
    archive_of(tmp_path / "dev-clean.tar.gz", librispeech(flac))
    ok("import_librivox", "dev-clean.tar.gz", f"--format={file_format}", "--output_dir=out", cwd=tmp_path)
    rows = rows_of(tmp_path / "out" / "librivox-dev-clean.csv")
    assert [(row.name, row.text) for row in rows] == [
        (f"dev-clean/84/1/84-1-0000.{file_format}", "it's one"), (f"dev-clean/84/1/84-1-0001.{file_format}", "two")]
    assert len(read_audio(rows[0].path, 16000)) == 1600
    assert len((tmp_path / "out" / "vocab.txt").read_text().split("\n")) == 29


def test_librivox_from_a_folder(tmp_path, flac):
    for name, content in librispeech(flac).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    ok("import_librivox", "LibriSpeech", "--output_dir=out", cwd=tmp_path)
    assert len(rows_of(tmp_path / "out" / "librivox-dev-clean.csv")) == 2


def test_a_subset_in_two_archives(tmp_path, flac):
    other = {"LibriSpeech/dev-clean/85/1/85-1-0000.flac": flac,
             "LibriSpeech/dev-clean/85/1/85-1.trans.txt": b"85-1-0000 THREE\n"}
    archive_of(tmp_path / "a.tar.gz", librispeech(flac))
    archive_of(tmp_path / "b.tar.gz", other)
    ok("import_librivox", "a.tar.gz", "b.tar.gz", "--output_dir=out", cwd=tmp_path)
    assert [row.text for row in rows_of(tmp_path / "out" / "librivox-dev-clean.csv")] == ["it's one", "two", "three"]


def test_the_shortest_of_librivox(tmp_path):
    lengths = {"84-1-0000": 1700, "84-1-0001": 900, "84-1-0002": 1600, "84-1-0003": 1600}
    files = {"LibriSpeech/dev-clean/84/1/84-1.trans.txt": "".join(f"{name} IT\n" for name in lengths).encode()}
    for name, samples in lengths.items():
        out = io.BytesIO()
        soundfile.write(out, np.sin(np.arange(samples) * 0.2), 16000, format="FLAC")
        files[f"LibriSpeech/dev-clean/84/1/{name}.flac"] = out.getvalue()
    archive_of(tmp_path / "a.tar.gz", files)
    for count, expected in ((2, ["84-1-0001", "84-1-0002"]), (9, list(lengths))):
        result = ok("import_librivox", "a.tar.gz", "--output_dir=out", f"--shortest={count}", cwd=tmp_path)
        assert f"{len(expected)} utterances" in result.stdout
        assert [Path(row.name).stem for row in rows_of(tmp_path / "out" / "librivox-dev-clean.csv")] == expected
    assert "at least 1" in run("import_librivox", "a.tar.gz", "--shortest=0", cwd=tmp_path).stderr


@pytest.mark.parametrize(("change", "words"), [
    (lambda files: files.pop("LibriSpeech/dev-clean/84/1/84-1-0001.flac"), "84-1-0001"),
    (lambda files: [files.pop(name) for name in list(files) if name.endswith(".flac")], "contains no recordings"),
    (lambda files: files.update({"LibriSpeech/test-clean/5/1/5-1.trans.txt": b"5-1-0000 ONE\n"}),
     "test-clean has 0 recordings"),
    (lambda files: files.update({"LibriSpeech/dev-clean/84/1/84-1-0001.flac": b"fLaC"}),
     "84-1-0001.flac cannot be read"),
    (lambda files: files.update({"LibriSpeech/dev-clean/84/1/84-1.trans.txt": b"84-1-0000 \xff"}), "not valid UTF-8"),
])
def test_librivox_that_is_not_whole(tmp_path, flac, change, words):
    files = librispeech(flac)
    change(files)
    archive_of(tmp_path / "a.tar.gz", files)
    result = run("import_librivox", "a.tar.gz", "--format=wav", cwd=tmp_path)
    assert result.returncode == 2 and words in result.stderr


def test_archives_that_are_none(tmp_path, flac):
    whole = archive_of(tmp_path / "a.tar.gz", librispeech(flac)).read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[:len(whole) // 2])
    for name, words in (("b.tar.gz", "is truncated"), ("none.tar", "does not exist")):
        result = run("import_librivox", name, cwd=tmp_path)
        assert result.returncode == 2 and words in result.stderr


@pytest.fixture
def digits(tmp_path) -> Path:
    """Two speakers, ten digits, nine takes; each take is a constant that tells which it is."""
    folder = tmp_path / "in" / "recordings"
    folder.mkdir(parents=True)
    for place, (speaker, digit, take) in enumerate(itertools.product(("anna", "bert"), range(10), range(9))):
        soundfile.write(folder / f"{digit}_{speaker}_{take}.wav", np.full(100 + place, (place + 1) / 1000), RATE)
    return tmp_path


SIZES = ("--train_strings=30", "--dev_strings=4", "--test_strings=6", "--validation_takes=2")


def takes_in(audio: np.ndarray) -> list[int]:
    """The recordings that a string is made of."""
    values = np.rint(audio * 1000).astype(int)
    return [value - 1 for value, _ in itertools.groupby(values) if value]


def test_digits(digits):
    ok("prepare_digits", "--data_dir=in", "--output_dir=out", *SIZES, "--noise_db=6", cwd=digits)
    commands = (digits / "out/commands-test.txt").read_text().splitlines()
    assert sorted({int(row.split(",")[0]) for row in commands}) == list(range(10))
    assert all(row.split(",")[1].rpartition("/")[2].startswith(row[0]) for row in commands)
    lists = {path.stem: rows_of(path) for path in (digits / "out").glob("*.csv")}
    assert {name: len(rows) for name, rows in lists.items()} == {
        "train": 40, "dev": 40, "test": 100, "strings-train": 30, "strings-dev": 4, "strings-test": 6,
        "strings-dev-noise": 4, "strings-test-noise": 6}
    numbers = {"train": {5, 6}, "dev": {7, 8}, "test": set(range(5))}
    for name, expected in numbers.items():
        assert {int(Path(row.path).stem.rpartition("_")[2]) for row in lists[name]} == expected
        for row in lists[f"strings-{name}"]:
            parts = takes_in(read_audio(row.path, RATE))
            assert {part % 9 for part in parts} <= expected
            assert len({part // 90 for part in parts}) == 1  # of one speaker
            assert row.text == " ".join(WORDS[part // 9 % 10] for part in parts)
            assert 2 <= len(parts) <= 7
    clean, noisy = (read_audio(lists[name][0].path, RATE) for name in ("strings-test", "strings-test-noise"))
    ratio = 10 * np.log10(np.sum(clean ** 2) / np.sum((noisy - clean) ** 2))
    assert ratio == pytest.approx(6, abs=1)


def test_a_speaker_left_out(digits):
    ok("prepare_digits", "--data_dir=in", "--output_dir=out", *SIZES, "--leave_out_speaker=bert", cwd=digits)
    speakers = {path.stem: {Path(row.path).stem.split("_")[1] for row in rows_of(path)}
                for path in (digits / "out").glob("*.csv") if not path.stem.startswith("strings")}
    assert speakers == {"train": {"anna"}, "dev": {"anna"}, "test": {"anna"}, "speaker-test": {"bert"}}


@pytest.mark.parametrize(("argument", "words"), [
    ("--leave_out_speaker=carl", "anna, bert"), ("--validation_takes=4", "below 4"), ("--min_digits=9", "the minimum"),
    ("--data_dir=none", "does not exist"), ("--max_pause=-1", "at least 0"), ("--noise_db=nan", "not a finite number"),
])
def test_digits_that_cannot_be(digits, argument, words):
    result = run("prepare_digits", "--data_dir=in", "--validation_takes=2", argument, cwd=digits)
    assert result.returncode == 2 and words in result.stderr


def test_digits_of_which_some_are_missing_or_damaged(digits):
    (digits / "in/recordings/3_anna_6.wav").write_bytes(b"")
    assert "3_anna_6.wav is an empty file" in run("prepare_digits", "--data_dir=in", *SIZES, cwd=digits).stderr
    for path in (digits / "in/recordings").glob("*_[0-4].wav"):
        path.unlink()
    assert "no takes for test" in run("prepare_digits", "--data_dir=in", *SIZES, cwd=digits).stderr


def test_toy_speech_on_a_full_disk_is_one_error(tmp_path, monkeypatch):
    """Also over an earlier output, whose files stay as they are."""
    from open_seq2seq.data.speech2text.toy_speech import write_toy_speech

    unreported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unreported.append)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for before in ({}, {"train": 1}):
        write_toy_speech(str(tmp_path), before, rate=8000)
        kept = {path: path.read_bytes() for path in tmp_path.rglob("*.wav")}
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        try:
            with pytest.raises(OSError, match="train-0000.wav"):
                write_toy_speech(str(tmp_path), {"train": 1}, rate=8000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        gc.collect()
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.wav")} == kept
        assert unreported == [] and not list(tmp_path.rglob(".tmp-*"))
