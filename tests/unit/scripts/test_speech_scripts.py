"""build_lm.py and decode.py, run as a user runs them."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.decoding.ctc.logits_file import write_logits
from open_seq2seq.decoding.ctc.n_best import read_n_best

SCRIPTS = Path(__file__).parents[3] / "scripts"
LABELS = list("abcdefghijklmnopqrstuvwxyz ")
DIGITS = "zero one two three four five six seven eight nine".split()


def run(script, *args, cwd, code=0):
    result = subprocess.run([sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, args)], cwd=cwd,
                            env={"PATH": ""}, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout if code == 0 else result.stderr


def spoken(text, rng, noise):
    """Logits of a text as a poor model would give them."""
    path = [26]
    for character in text:
        path += [LABELS.index(character)] * int(rng.integers(1, 3)) + [27] * int(rng.integers(1, 3))
    logits = noise * rng.normal(size=(len(path), 28))
    logits[np.arange(len(path)), path] += 4.0
    return logits.astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(DIGITS, rng.integers(2, 7))) for _ in range(200)]
    (folder / "train.txt").write_text("".join(line.upper() + "\n" for line in lines[:190]))
    names = [f"{i}.wav" for i in range(10)]
    with open(folder / "dev.csv", "w", newline="") as out:
        csv.writer(out).writerows([("wav_filename", "wav_filesize", "transcript"),
                                   *((name, 1, line) for name, line in zip(names, lines[190:], strict=True))])
    logits = {name: spoken(line, rng, 1.3) for name, line in zip(names, lines[190:], strict=True)}
    write_logits(str(folder / "dev.npz"), logits, LABELS, 0.02)
    write_logits(str(folder / "dev.pickle"), logits, LABELS, 0.02)
    said = run("build_lm", "--text", "train.txt", "--order", 2, "--case", "lower", "--output", "digits.arpa.gz",
               "--perplexity", "train.txt", cwd=folder)
    assert "13 1-grams" in said and "perplexity" in said
    return folder


def rates(said):
    found = {line.split(": WER=")[0]: float(line.split("WER=")[1].split(",")[0])
             for line in said.splitlines() if ": WER=" in line}
    return float(said.split("Greedy WER = ")[1].split()[0]), found


def test_grid(folder):
    said = run("decode", "--logits", "dev.npz", "--labels", "dev.csv", "--lm", "digits.arpa.gz", "--processes", 2,
               "--alpha", 0.0, "--alpha_max", 0.6, "--alpha_step", 0.3, "--beta", 0, "--beta_max", 1, "--beta_step", 1,
               "--beam_width", 32, "--infer_output_file", "out.csv", "--dump_all_beams_to", "n_best.tsv", cwd=folder)
    greedy, found = rates(said)
    assert len(found) == 6 and min(found.values()) < greedy
    best = said.split("BEST: ")[1].splitlines()[0]
    assert float(best.split("WER=")[1]) == min(found.values())
    texts = {row[0]: row[1] for row in list(csv.reader(open(folder / "out.csv")))[1:]}
    lists = read_n_best(str(folder / "n_best.tsv"))
    assert {name: found[0].text for name, found in lists.items()} == texts
    assert all(set(text.split()) <= set(DIGITS) for text in texts.values())
    assert all(c.score == pytest.approx(c.acoustic + c.lm, abs=1e-4) for found in lists.values() for c in found)

    (folder / "upper.csv").write_text((folder / "dev.csv").read_text().upper().replace(".WAV", ".wav"))
    said = run("decode", "--mode", "rescore", "--n_best", "n_best.tsv", "--labels", "upper.csv", "--labels_case",
               "lower", "--lm", "digits.arpa.gz", "--alpha", 0, "--beta", 0, cwd=folder)
    assert said.split("WER=")[1].split(",")[0] == best.split("WER=")[1]


def test_infer_without_a_model_and_from_a_pickle(folder):
    for name, source in (("a.csv", "dev.npz"), ("b.csv", "dev.pickle")):
        run("decode", "--mode", "infer", "--logits", source, "--infer_output_file", name, "--processes", 1, cwd=folder)
    assert (folder / "a.csv").read_text() == (folder / "b.csv").read_text()
    assert (folder / "a.csv").read_text().startswith("wav_filename,transcript\n0.wav,")


def test_character_model(folder):
    run("build_lm", "--text", "train.txt", "--characters", "--case", "lower", "--order", 4, "--prune", 0, 0, 1,
        "--output", "chars.arpa", cwd=folder)
    said = run("decode", "--logits", "dev.npz", "--labels", "dev.csv", "--lm", "chars.arpa", "--lm_type", "character",
               "--alpha", 0.6, "--beta", 0.5, "--processes", 1, cwd=folder)
    greedy, found = rates(said)
    assert min(found.values()) < greedy


@pytest.mark.parametrize("script, args, what", [
    ("decode", ["--logits", "dev.npz"], "--mode eval needs --labels"),
    ("decode", ["--logits", "missing.npz", "--labels", "dev.csv"], "missing.npz"),
    ("decode", ["--logits", "dev.npz", "--labels", "train.txt"], "no reference of '0.wav'"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--lm", "train.txt"], "no ARPA file"),
    ("decode", ["--mode", "infer", "--logits", "dev.npz", "--infer_output_file", "x", "--alpha_max", 1], "eval"),
    ("decode", ["--logits", "dev.npz", "--labels", "dev.csv", "--alpha_max", 0.2], "below --alpha 0.5"),
    ("decode", ["--mode", "rescore", "--n_best", "n_best.tsv", "--lm", "x.arpa", "--oov_penalty", 3], "--oov_penalty"),
    ("build_lm", ["--text", "train.txt"], "--output"), ("build_lm", [], "--text"),
    ("build_lm", ["--text", "missing.txt", "--output", "x.arpa"], "missing.txt"),
    ("build_lm", ["--text", "train.txt", "--output", "x.arpa", "--prune", 1], "begin with 0")])
def test_mistakes(folder, script, args, what):
    assert what in run(script, *args, cwd=folder, code=2)
