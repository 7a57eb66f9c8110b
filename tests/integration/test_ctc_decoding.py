"""CTC decoding as a user meets it: language models built, searched with in evaluation and inference, and offline."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from open_seq2seq.cli import main
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.decoding.n_best import read_n_best
from tests.integration.conftest import ROOT
from tests.integration.test_speech_recognition import settings

MODELS = {"words": ("--order", "3"), "characters": ("--order", "4", "--characters")}
SEARCH = ("--decoder_params/use_language_model=True", "--decoder_params/beam_width=8", "--decoder_params/alpha=0.7",
          "--decoder_params/beta=0.5")
OFFLINE = ("--beam_width", "8", "--alpha", "0.7", "--beta", "0.5")


def script(name: str, *arguments: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, str(ROOT / f"scripts/{name}.py"), *arguments], cwd=cwd, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lm_of(kind: str) -> tuple[str, str]:
    return f"{kind}.arpa.gz", "character" if kind == "characters" else "word"


def rows(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Toy speech, a recogniser that has hardly learned anything, and two language models."""
    root = tmp_path_factory.mktemp("speech")
    write_toy_speech(str(root), {"train": 32, "dev": 5}, rate=8000)
    assert main([*settings(root), "--mode=train", "--dtype=float32", "--num_epochs=None", "--max_steps=8"]) == 0
    for kind, options in MODELS.items():
        script("build_lm", "--text", "train.csv", *options, "--output", lm_of(kind)[0], cwd=root)
    return root


@pytest.mark.long
@pytest.mark.parametrize("kind", MODELS)
def test_the_search_of_evaluation_inference_and_decode_py_is_one(trained, capfd, kind):
    lm, lm_type = lm_of(kind)
    search = [*SEARCH, f"--decoder_params/lm_path={trained}/{lm}", f"--decoder_params/lm_type={lm_type}"]
    run = [*settings(trained), "--dtype=float32"]
    assert main([*run, "--mode=eval", *search]) == 0
    judged = capfd.readouterr().out.split("Validation WER: ")[1].split("%")[0]
    assert main([*run, "--mode=infer", f"--infer_output_file={trained}/{kind}.csv", "--write_word_times=True",
                 "--decoder_params/n_best=3", *search]) == 0
    assert main([*run, "--mode=infer", f"--infer_output_file={trained}/{kind}.npz",
                 "--decoder_params/infer_logits_to_pickle=True", "--decoder_params/use_language_model=True"]) == 0
    said = script("decode", "--logits", f"{kind}.npz", "--labels", "dev.csv", "--lm", lm, "--lm_type", lm_type,
                  *OFFLINE, "--infer_output_file", "offline.csv", "--processes", "1", cwd=trained)
    texts = rows(trained / f"{kind}.csv")
    assert rows(trained / "offline.csv") == texts and any(text for _, text in texts)
    assert float(said.split("BEST: ")[1].split("WER=")[1].split()[0]) == pytest.approx(float(judged) / 100, abs=1e-4)

    lists = read_n_best(str(trained / f"{kind}.n_best.tsv"))
    assert [[name, found[0].text] for name, found in lists.items()] == texts
    assert max(map(len, lists.values())) in (2, 3)
    words = rows(trained / f"{kind}.words.csv")
    assert [word for _, word, *_ in words] == [word for _, text in texts for word in text.split()]
    assert all(float(start) < float(end) for *_, start, end, _ in words)
    if kind == "words":
        lexicon = {word for row in rows(trained / "train.csv") for word in row[-1].split()}
        assert {word for found in lists.values() for c in found for word in c.text.split()} <= lexicon
