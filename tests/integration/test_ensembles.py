"""Ensembles of trained models: from Python, as a verb, and in the mode infer."""

from __future__ import annotations

import shutil

import pytest

import open_seq2seq
from open_seq2seq.cli import main

pytestmark = pytest.mark.long
LINES = ["a b c", "f e d", "", "c d e f a b"]


def test_several_log_directories_translate_together(trained, command, monkeypatch, capfd):
    monkeypatch.chdir(trained)
    assert command("--mode=train", "--max_steps=20", "--random_seed=5", "--logdir=other")[0] == 0
    (trained / "mine.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    single = [open_seq2seq.load(name, beam_size=2) for name in ("run", "other")]
    both = open_seq2seq.load(["run", "other"], beam_size=2)
    found = both.translate(LINES, n_best=2)
    assert [best[0] for best in found] == both.translate(LINES)
    mean = [sum(score.log_prob for score in scores) / 2
            for scores in zip(*(one.score(LINES, both.translate(LINES)) for one in single), strict=True)]
    assert [score.log_prob for score in both.score(LINES, both.translate(LINES))] == pytest.approx(mean, rel=1e-5)
    itself = open_seq2seq.load(["run", trained / "run"], beam_size=2)
    assert itself.translate(LINES) == single[0].translate(LINES)

    assert main(["translate", "run", "other", "mine.txt", "--output=verb.txt"]) == 0, capfd.readouterr().err
    assert main(["--mode=infer", "--logdir", "run", "other", "--infer_files", "mine.txt",
                 "--infer_output_file=mode.txt", "--num_cpu_towers=2"]) == 0, capfd.readouterr().err
    expected = "".join(f"{text}\n" for text in both.translate(LINES))
    assert (trained / "verb.txt").read_text() == (trained / "mode.txt").read_text() == expected


def test_mistakes_are_said_in_a_sentence(trained, command, monkeypatch, capfd):
    monkeypatch.chdir(trained)
    shutil.copytree("run", "copy")
    (trained / "copy/model.ckpt-2/weights.safetensors").unlink()
    weights = (trained / "run/model.ckpt-2/weights.safetensors").read_bytes()
    for words, said in ((["--logdir", "run", "nowhere"], "The folder nowhere does not exist"),
                        (["--logdir", "run", "copy"], "copy"),
                        (["--logdir", "run", "run", "--infer_output_file=run/model.ckpt-2/weights.safetensors"],
                         "weights.safetensors")):
        assert main(["--mode=infer", "--infer_files", "dev.src", *words]) == 2
        error = capfd.readouterr().err
        assert said in error and error.count("Error") == 1, error
    assert (trained / "run/model.ckpt-2/weights.safetensors").read_bytes() == weights
