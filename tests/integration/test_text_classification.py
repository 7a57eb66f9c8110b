"""Text classification from the command line: training, resuming, evaluation, inference, mistakes."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import open_seq2seq
from open_seq2seq.cli import main
from tests.integration.toy_data import ROOT, make_toy_data

RECIPE = ROOT / "example_configs" / "text2label" / "toy-labels.py"
SMALL = ("--max_steps=6", "--save_checkpoint_steps=3", "--eval_steps=6", "--batch_size_per_gpu=8",
         "--encoder_params/encoder_layers=1", "--encoder_params/hidden_size=16", "--encoder_params/filter_size=16",
         "--save_summaries_steps=None")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_toy_data("--task=labels", "--max_length=12")
    return tmp_path


def run(capfd, *arguments):
    capfd.readouterr()
    code = main([*arguments])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def weights(logdir):
    return (logdir / "model.ckpt-6" / "weights.safetensors").read_bytes()


@pytest.mark.long
def test_a_run_resumes_evaluates_and_infers(folder, capfd, monkeypatch):
    recipe = f"--config_file={RECIPE}"
    code, out, err = run(capfd, recipe, "--mode=train_eval", *SMALL)
    assert code == 0, err
    assert "accuracy: " in out and "Confusion matrix" in out
    assert (folder / "toy-labels/samples/step-6/confusion_matrix.png").stat().st_size
    once = weights(folder / "toy-labels")
    assert run(capfd, recipe, "--mode=train", *SMALL[1:], "--max_steps=3", "--logdir=parts")[0] == 0
    assert run(capfd, recipe, "--mode=train", *SMALL, "--logdir=parts", "--continue_learning")[0] == 0
    assert weights(folder / "parts") == once
    assert run(capfd, recipe, "--mode=infer", *SMALL, "--infer_output_file=out.tsv")[0] == 0
    rows = [line.split("\t") for line in (folder / "out.tsv").read_text().splitlines()]
    assert len(rows) == 9 and all(label in ("alpha", "beta", "gamma") and 1 / 3 - 1e-3 <= float(p) <= 1
                                  for label, p in rows)
    texts = [line.split("\t")[1] for line in (folder / "toy_labels/test.tsv").read_text(encoding="utf-8").splitlines()]
    (folder / "lines").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (folder / "toy_labels").rename(folder / "elsewhere")  # the logdir is enough
    assert run(capfd, "--logdir=toy-labels", "--mode=infer", "--infer_files", "lines", "--infer_output_file=again.tsv",
               )[0] == 0
    again = [line.split("\t") for line in (folder / "again.tsv").read_text().splitlines()]
    assert [row[0] for row in again] == [row[0] for row in rows]
    np.testing.assert_allclose([float(row[1]) for row in again], [float(row[1]) for row in rows], atol=2e-4)
    assert [label for label, _ in open_seq2seq.load("toy-labels").infer(texts)] == [row[0] for row in rows]
    (folder / "lines").write_text("".join(f"{text}\n" for text in ["", *texts, "  "]), encoding="utf-8")
    labels = ["", *(row[0] for row in rows), ""]  # empty texts have no label
    code, out, _ = run(capfd, "--logdir=toy-labels", "--mode=infer", "--infer_files", "lines",
                       "--infer_output_file=again.tsv")
    assert code == 0 and "Empty lines, whose results are empty too: 2" in out
    assert [line.split("\t")[0] for line in (folder / "again.tsv").read_text().split("\n")] == [*labels, ""]
    assert open_seq2seq.load("toy-labels").infer(["", "α β"])[0] == ("", 0.0)
    reading, writing = os.pipe()
    os.write(writing, (folder / "lines").read_bytes())
    os.close(writing)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
    code, out, err = run(capfd, "--logdir=toy-labels", "--mode=infer", "--infer_files", "-", "--infer_output_file=-")
    assert code == 0 and [line.split("\t")[0] for line in out.splitlines()] == labels
    assert "Empty lines, whose results are empty too: 2" in err
