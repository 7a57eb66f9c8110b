"""The toy models of the package answer as they have learnt; each has at most a megabyte."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import soundfile

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.data.image2label.toy_images import write_toy_folders
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.data.text2speech.toy_voice import heard
from open_seq2seq.utils.shipped import TOY_MODELS
from scripts.make_toy_models import MODELS

SEED = 77  # of examples that no model has seen


def test_each_is_small_and_made_by_the_script():
    assert {path.stem for path in TOY_MODELS.iterdir()} == set(MODELS)
    assert max(path.stat().st_size for path in TOY_MODELS.iterdir()) <= 1 << 20


@pytest.mark.long
def test_they_reverse_and_name_letters():
    lines = [" ".join(np.random.default_rng([SEED, number]).choice(list("αβγδεζηθικ"), 8)) for number in range(20)]
    reversed_lines = open_seq2seq.load("toy:reversal").translate(lines)
    assert sum(line == " ".join(text.split()[::-1]) for line, text in zip(reversed_lines, lines, strict=True)) >= 15
    named = open_seq2seq.load("toy:labels").classify(["α α α β γ α", "β γ β β α β", "γ α γ γ β γ"])
    assert named == ["alpha", "beta", "gamma"]


@pytest.mark.long
def test_speech_is_transcribed(tmp_path):
    write_toy_speech(str(tmp_path), {"new": 20}, seed=SEED, rate=8000)
    with open(tmp_path / "new.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = open_seq2seq.load("toy:speech").transcribe([str(tmp_path / row["wav_filename"]) for row in rows])
    assert sum(text == row["transcript"] for text, row in zip(texts, rows, strict=True)) >= 10


@pytest.mark.long
def test_pictures_are_told(tmp_path):
    write_toy_folders(str(tmp_path), {"new": 80}, SEED)
    paths = sorted((tmp_path / "new").rglob("*.png"))
    names = open_seq2seq.load("toy:images").classify([str(path) for path in paths])
    assert sum(name == path.parent.name for name, path in zip(names, paths, strict=True)) >= 0.95 * len(paths)


@pytest.mark.long
def test_vowels_are_spoken_and_a_text_goes_on(tmp_path, capfd):
    assert len(open_seq2seq.load("toy:text").generate("")) > 1
    assert main(["speak", "toy:voice", "ae iou", f"--output={tmp_path}/out.wav"]) == 0
    sound, rate = soundfile.read(tmp_path / "out.wav", dtype="float32")
    assert heard(sound, rate) == "aeiou" and "did not stop" not in capfd.readouterr().out
