"""scripts/synthesize_dataset.py with a voice that speaks without a network: clips, lists, resumed and shared work."""

from __future__ import annotations

import csv
import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from open_seq2seq.data.speech2text.manifests import read_manifests
from open_seq2seq.data.speech2text.speech2text import Speech2TextDataLayer
from open_seq2seq.data.text2speech.front_end import spoken_at
from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
from open_seq2seq.data.text2speech.toy_voice import PITCHES, RATE, VOWELS, heard, spoken
from open_seq2seq.decoders.endings import ENDINGS
from open_seq2seq.models.text2speech.speech import Speech
from open_seq2seq.models.text2speech.text2speech import Text2Speech
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from scripts import synthesize_dataset

TEXTS = ["ae iou", "", "uo a", "a7", "ei", "o u", "[speed 2] ae", "iea"]
LINES = [1, 3, 5, 6, 8]  # of those that can be spoken
VARIED = ["--variants=2", "--speed_perturbation_ratio=0.1", "--noise_level_min=-50", "--noise_level_max=-40"]


class Voice(Text2Speech):
    """The toy voice as a model; ``decoder`` decides whether it has speeds and several readings."""

    def __init__(self, vocab_file, decoder, **params):
        self._layer = Text2SpeechDataLayer({
            **params,
            "dataset": "LJ", "sample_freq": RATE, "num_audio_features": 20, "output_type": "mel", "n_fft": 512,
            "vocab_file": vocab_file, "feature_normalize": False}, mode="interactive_infer")
        self._decoder = decoder

    data_layer = property(lambda self: self._layer)
    decoder = property(lambda self: self._decoder)
    params = property(lambda self: {"batch_size_per_gpu": 1})
    variables = property(lambda self: ())


class Trained:
    """Stands for a ``TrainedModel`` of ``Voice``; ``asked`` are the texts that it has been given."""

    def __init__(self, model, reading=0, asked=None):
        self.model, self.reading, self.asked = model, reading, [] if asked is None else asked
        self.stops_at = None

    def variant(self, values):
        return Trained(self.model, values["decoder_params"]["inference_seed"], self.asked)

    def infer(self, texts, first=0):
        results = []
        for text in texts:
            self.asked.append(text)
            if len(self.asked) == self.stops_at:
                raise KeyboardInterrupt
            words, speed, speaker = spoken_at(text)
            audio = spoken(words, np.random.default_rng(self.reading), PITCHES[speaker or "low"])
            if speed != 1.0:
                audio = np.interp(np.arange(0, len(audio) - 1, speed), np.arange(len(audio)), audio).astype(np.float32)
            ending = ENDINGS[1 if words == "ei" and self.reading == 1 else 0]
            results.append(Speech(audio, RATE, np.zeros([1, 20]), np.zeros([1, 1]), ending, []))
        return results


@pytest.fixture
def trained(tmp_path, monkeypatch):
    (tmp_path / "vocab.txt").write_text("\n".join([" ", *VOWELS]) + "\n")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    decoder = SimpleNamespace(params={"inference_seed": 0, "decoder_type": "convolutional"}, at_speed=None)
    model = Trained(Voice(str(tmp_path / "vocab.txt"), decoder))
    monkeypatch.setattr(synthesize_dataset, "run_of", lambda words: SimpleNamespace(load=lambda: model))
    monkeypatch.setattr(synthesize_dataset, "_AT_ONCE", 2)
    monkeypatch.chdir(tmp_path)
    return model


def make(folder, *options):
    synthesize_dataset.main(["--logdir=voice", "--texts=texts.txt", f"--output_dir={folder}", *options])
    return Path(folder)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def layer_of(folder, name, mode="train", **params):
    return Speech2TextDataLayer({
        "num_audio_features": 20, "input_type": "logfbank", "backend": "librosa", "sample_freq": RATE, "batch_size": 4,
        "vocab_file": "vocab.txt", "dataset_files": [f"{folder}/{name}"], **params}, mode=mode)


def test_clips_are_spoken_and_listed(trained, capsys):
    folder = make("out", *VARIED)
    said = capsys.readouterr().out
    assert "Left out 3 texts" in said and "without letters (first: line 2)" in said and "line 4, 'a7'" in said
    assert "line 7" in said and "10 clips of 5 texts" in said
    rows = read_manifests([f"{folder}/clips.csv"], None, True)
    assert [row.name for row in rows] == [f"{variant}/{line:06d}.wav" for line in LINES for variant in (1, 2)]
    lengths = []
    for row in rows:
        audio, rate = soundfile.read(row.path, dtype="float32")
        assert rate == RATE and heard(audio) == row.text.replace(" ", "")
        lengths.append(len(audio) / len(spoken(row.text, np.random.default_rng(0))))
    assert 0.89 < min(lengths) < max(lengths) < 1.11 and len(set(lengths)) == 10
    assert [row.text for row in rows[::2]] == [TEXTS[line - 1] for line in LINES]
    assert layer_of(folder, "clips.csv").num_examples == 10
    layer = layer_of(folder, "variants.csv", syn_enable=True, syn_subdirs=["1", "2"])
    assert layer.num_examples == 5


def test_without_options_a_clip_is_what_the_model_says(trained):
    folder = make("out")
    audio, _ = soundfile.read(folder / "1" / "000001.wav", dtype="float32")
    np.testing.assert_allclose(audio, spoken(TEXTS[0], np.random.default_rng(0)), atol=2 ** -15)
    assert set(trained.asked) == {TEXTS[line - 1] for line in LINES}


@pytest.mark.parametrize("stops_at", [1, 4, 7, 9])
def test_a_stopped_run_goes_on_to_the_same_files(trained, stops_at):
    whole = files(make("whole", *VARIED))
    asked, trained.asked, trained.stops_at = list(trained.asked), [], stops_at
    with pytest.raises(KeyboardInterrupt):
        make("out", *VARIED)
    assert not Path("out/clips.csv").exists()
    (Path("out") / "1" / f"{disk.TEMPORARY}{'0' * 16}.new.wav").write_bytes(b"half")  # of a killed process
    part = trained.asked
    trained.asked, trained.stops_at = [], None
    assert files(make("out", *VARIED)) == whole
    assert asked[-len(trained.asked):] == trained.asked and len(part) + len(trained.asked) <= len(asked) + 4
    trained.asked = []
    assert files(make("out", *VARIED)) == whole and trained.asked == []


def test_parts_are_shared(trained, monkeypatch, capsys):
    whole = files(make("whole", *VARIED))
    make("out", *VARIED, "--shard=2/2")
    assert "left to other processes" in capsys.readouterr().out and not Path("out/clips.csv").exists()
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert files(make("out", *VARIED)) == whole


def test_a_part_of_another_process_is_left_to_it(trained, capsys):
    with disk.placing(Path(make("out", "--shard=3/3")) / "parts" / "000000.jsonl", disk.always, alone=True):
        make("out")
        assert "1 of 3 parts are left" in capsys.readouterr().out
    make("out")
    assert Path("out/clips.csv").exists()


def test_several_readings_and_clips_without_end(trained, capsys):
    trained.model._decoder = SimpleNamespace(params={
        "inference_seed": 0, "enable_prenet": True, "prenet_dropout_prob": 0.5})
    folder = make("out", "--variants=2")
    said = capsys.readouterr().out
    assert "1 text at which the model did not stop" in said and "8 clips of 4 texts" in said
    assert not (folder / "1" / "000005.wav").exists() and not (folder / "2" / "000005.wav").exists()
    assert (folder / "1" / "000001.wav").read_bytes() != (folder / "2" / "000001.wav").read_bytes()
    slow = make("slow", "--speed_perturbation_ratio=0.2")  # by resampling
    lengths = {soundfile.info(slow / "1" / f"{line:06d}.wav").frames for line in LINES}
    assert len(lengths) == 5 and not any(text.startswith("[speed") for text in trained.asked)


def test_each_clip_has_one_of_the_speakers(trained):
    trained.model = Voice("vocab.txt", trained.model.decoder, speakers=["low", "high"])
    make("out", "--speakers", "all", "--variants=4")
    named = {text: [spoken_at(one).speaker for one in trained.asked if one.endswith(f"] {text}")]
             for text in (TEXTS[line - 1] for line in LINES)}
    assert all(len(names) == 4 for names in named.values())
    assert {name for names in named.values() for name in names} == {"low", "high"}
    with pytest.raises(UserError, match="All variants would be equal"):
        make("other", "--speakers", "low", "--variants=2")


def test_texts_of_a_list(trained):
    with open("list.csv", "w", newline="") as file:
        csv.writer(file).writerows([("wav_filename", "wav_filesize", "transcript"), ("none.wav", 1, "ae"),
                                    ("none.wav", 1, "iou")])
    make("out", "--texts=list.csv")
    assert trained.asked == ["ae", "iou"]


@pytest.mark.parametrize(("options", "words"), [
    (["--variants=0"], "--variants is 0, but has to be from 1 to 16"),
    (["--variants=2"], "All variants would be equal: give --speed_perturbation_ratio"),
    (["--noise_level_min=-50"], "Only one of"), (["--shard=9/8"], "--shard is '9/8'"),
    (["--speed_perturbation_ratio=2"], "must be at least 0 and below 0.9"), (["--texts=none.txt"], "none.txt"),
    (["--texts=empty.txt"], r"None of the 2 lines of empty.txt can be spoken: line 1 without letters"),
    (["--texts=odd.txt"], r"None of .* line 1 with symbols that are not in the vocabulary of the model \(.*vocab.txt"),
    (["--output_dir=vocab.txt"], "is a file, not a folder"), (["--output_dir=."], "contains other files"),
    (["--style_recordings", "a.wav"], "has not: leave it out"), (["--speakers", "eve"], "eve"),
])
def test_mistakes_are_named(trained, options, words):
    Path("empty.txt").write_text("\n--\n")
    Path("odd.txt").write_text("xyz\n")
    with pytest.raises(UserError, match=words) as mistake:
        make("out", *options)
    assert str(mistake.value).count("\n") == 0 and not os.path.exists("out")


def test_another_plan_needs_another_folder(trained):
    make("out")
    Path("texts.txt").write_text("a\n")
    with pytest.raises(UserError, match="from which these differ: the texts, --seed. Choose another"):
        make("out", "--seed=1")
    Path("out/synthesis.json").write_text("{")
    with pytest.raises(UserError, match="synthesis.json is damaged"):
        make("out")


def test_a_model_that_does_not_speak(trained):
    trained.model = object()
    with pytest.raises(UserError, match="voice has a model of the type object, which does not speak texts"):
        make("out")


def test_a_full_disk(trained, monkeypatch):
    whole = files(make("whole"))

    def full(path, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space.*1/000001.wav"):
        patch.setattr(synthesize_dataset.disk, "writing", lambda path, *a, _real=disk.writing, **k: (
            full(path) if str(path).endswith(".wav") else _real(path, *a, **k)))
        make("out")
    assert files("out").keys() == {"synthesis.json"}
    assert files(make("out")) == whole and json.loads(Path("out/synthesis.json").read_text())
