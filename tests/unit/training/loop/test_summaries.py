"""Samples in TensorBoard's events, in the log directory and on the console."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from open_seq2seq.models.reporter import Reporter
from open_seq2seq.training.loop.summaries import RunReporter, Summaries
from open_seq2seq.utils.errors import UserError

TONE = (0.5 * np.sin(np.arange(800) / 5)).astype(np.float32)


@pytest.fixture
def summaries(tmp_path) -> Summaries:
    return Summaries(str(tmp_path / "events"), {})


def events(tmp_path: Path) -> EventAccumulator:
    found = EventAccumulator(str(tmp_path / "events"), size_guidance={"tensors": 0})
    found.Reload()
    return found


def only(found: EventAccumulator, tag: str) -> Any:
    (event,) = found.Tensors(tag)
    assert event.step == 7
    return tf.make_ndarray(event.tensor_proto)


def test_everything_comes_back(tmp_path, summaries, capsys):
    reporter = RunReporter(7, summaries, tmp_path / "samples")
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    reporter.text("said", "hello")
    reporter.scalar("sample_WER", 0.25)
    reporter.record({"quiet": 2.0})
    reporter.image("attention", image)
    reporter.sound("voice", TONE, 8000)
    with reporter.file("numbers", ".npy") as path:
        np.save(path, TONE)
    assert capsys.readouterr().out == "***    Said: hello\n***    Sample WER: 0.2500\n"
    found = events(tmp_path)
    assert only(found, "said").item() == b"hello"
    assert (only(found, "sample_WER"), only(found, "quiet")) == (0.25, 2.0)
    np.testing.assert_array_equal(tf.io.decode_png(only(found, "attention")[2]), image)
    samples, rate = tf.audio.decode_wav(only(found, "voice").ravel()[0])
    assert rate == 8000
    np.testing.assert_allclose(samples[:, 0], TONE, atol=1e-4)
    folder = tmp_path / "samples/step-7"
    assert {file.name for file in folder.iterdir()} == {"attention.png", "voice.wav", "numbers.npy", "texts.json"}
    np.testing.assert_array_equal(tf.io.decode_png((folder / "attention.png").read_bytes()), image)
    samples, rate = soundfile.read(folder / "voice.wav")
    assert rate == 8000
    np.testing.assert_allclose(samples, TONE, atol=1e-4)
    np.testing.assert_array_equal(np.load(folder / "numbers.npy"), TONE)


def test_texts_stand_one_below_the_other(capsys):
    Reporter(1).texts({"train_source": "a b", "train_prediction": "b\na"})
    assert capsys.readouterr().out == "***    Train source:     a b\n***    Train prediction: b\n***    a\n"


@pytest.mark.parametrize("kind", [Reporter, RunReporter])
def test_where_there_is_no_place_nothing_is_left(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    reporter = kind(7)
    reporter.image("image", np.zeros([2, 2, 1]))
    reporter.sound("sound", TONE, 8000)
    reporter.figure("figure", None)
    with reporter.file("file", ".txt") as path:
        path.write_text("x")
        assert path.suffix == ".txt"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", ".", "", "a/b", "a_b", "\0", "x" * 400,
                                  "ä" * 400, "$(reboot)", ".lock", "a\nb"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    reporter = RunReporter(7, None, tmp_path / "run/samples")
    for suffix in (".txt", "/../../x"):
        for content in ("one", "two"):
            with reporter.file(name, suffix) as path:
                path.write_text(content)
    found = [path for path in tmp_path.rglob("*") if path.is_file() and path != tmp_path / "run/samples/samples.json"]
    assert {path.parent for path in found} == {tmp_path / "run/samples/step-7"}
    assert sorted(path.read_text() for path in found) == ["one", "one", "two", "two"]  # none replaced another


@pytest.mark.parametrize("link", ["samples", "samples/step-7"])
def test_a_link_out_of_the_log_directory_is_refused(tmp_path, link):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link"):
        RunReporter(7, None, tmp_path / "samples").sound("voice", TONE, 8000)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    (tmp_path / "precious").write_text("old")
    reporter = RunReporter(7, None, tmp_path / "samples")
    with pytest.raises(ZeroDivisionError), reporter.file("numbers", ".txt") as path:
        path.write_text("half")
        _ = 1 / 0
    assert not list((tmp_path / "samples/step-7").iterdir())
    (tmp_path / "samples/step-7/.tmp-other.txt").symlink_to(tmp_path / "precious")
    with reporter.file("other", ".txt") as path:
        path.write_text("new")
    assert (tmp_path / "precious").read_text() == "old"
    assert {file.name for file in (tmp_path / "samples/step-7").iterdir()} == {"other.txt", ".tmp-other.txt"}


def test_the_folders_written_last_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("open_seq2seq.training.loop.summaries.KEPT_STEPS", 3)
    (tmp_path / "samples/mine").mkdir(parents=True)
    for number, step in enumerate((900, 1000, 1100, 200, 300)):  # as after a recovery
        RunReporter(step, None, tmp_path / "samples").sound("voice", TONE, 8000)
        os.utime(tmp_path / f"samples/step-{step}", (number, number))
    assert {path.name for path in (tmp_path / "samples").iterdir()} == {
        "mine", "step-1100", "step-200", "step-300", "samples.json"}


def test_files_of_others_among_samples_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("open_seq2seq.training.loop.summaries.KEPT_STEPS", 2)
    folder = tmp_path / "samples"
    (folder / "step-5").mkdir(parents=True)
    (folder / "step-5/voice.wav").write_text("mine")
    for step in (1, 2, 3, 4, 5):
        RunReporter(step, None, folder).sound("voice", TONE, 8000)
        if step < 3:
            (folder / f"step-{step}/notes.txt").write_text("mine")
    assert (folder / "step-5/voice.wav").read_text() == "mine" and (folder / "step-5/voice-2.wav").is_file()
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.*")} == {
        "samples.json", "step-1/notes.txt", "step-2/notes.txt", "step-4/voice.wav", "step-5/voice.wav",
        "step-5/voice-2.wav"}


@pytest.mark.parametrize("image", [np.zeros([4, 4]), np.zeros([4, 4, 2]), np.zeros([4, 4, 3], np.int64)])
def test_what_is_no_image_is_named(image):
    with pytest.raises(ValueError, match="The image cat must be"):
        RunReporter(1).image("cat", image)


def test_values_out_of_range_are_clipped(tmp_path):
    reporter = RunReporter(7, None, tmp_path)
    reporter.image("image", np.array([-1.0, 0.5, 7.0, np.nan]).reshape(2, 2, 1))
    reporter.sound("sound", np.array([-3.0, 3.0, np.inf, np.nan]), 8000)
    assert tf.io.decode_png((tmp_path / "step-7/image.png").read_bytes()).numpy().ravel().tolist() == [0, 128, 255, 0]
    np.testing.assert_allclose(soundfile.read(tmp_path / "step-7/sound.wav")[0], [-1, 1, 1, 0], atol=1e-4)
    with pytest.raises(ValueError, match="The sound stereo must be"):
        reporter.sound("stereo", np.zeros([3, 2]), 8000)
