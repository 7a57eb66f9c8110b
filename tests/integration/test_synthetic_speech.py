"""From a voice to a recogniser: clips by scripts/synthesize_dataset.py, also after kills and by several processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT
from tests.integration.tutorials import Tutorial, run

CHAIN = Tutorial("docs/speech-synthesis.md", sections=("Clips for a recogniser",), shorter={
    '"max_steps": 400': '"max_steps": 150, "eval_steps": 150',
    "toy_voice_data\ncut": "toy_voice_data --train_size=100\ncut"})
TEXTS = ["ae iou", "uo a", "ei", "o u", "iea", "aeiou aeiou", "u", "oi ae"] * 5


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_recogniser_of_clips_alone_reads_recordings(tmp_path):
    said = run(CHAIN, tmp_path)
    assert float(re.findall(r"Validation WER: ([\d.]+)%", said)[-1]) <= 10.0
    rows = (tmp_path / "transcripts.csv").read_text().splitlines()[1:]
    texts = [line.split("|")[1] for line in (tmp_path / "toy_voice_data/test.csv").read_text().splitlines()]
    assert len(rows) == len(texts) and sum(
        row.split(",")[1].strip() == text for row, text in zip(rows, texts, strict=True)) >= 0.8 * len(texts)


def start(folder, *options):
    return subprocess.Popen([
        sys.executable, str(ROOT / "scripts" / "synthesize_dataset.py"), "--logdir=toy:voice", "--variants=2",
        f"--texts={folder.parent}/texts.txt", f"--output_dir={folder}", "--speed_perturbation_ratio=0.1", *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(*processes):
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return "".join(said)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
def test_killed_and_shared_work_gives_the_same_files(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    finished(start(tmp_path / "whole"))
    killed = start(tmp_path / "out")
    while killed.poll() is None and len(list((tmp_path / "out").rglob("*.wav"))) < 5:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL and not (tmp_path / "out" / "clips.csv").exists()
    finished(start(tmp_path / "out", "--shard=1/2"), start(tmp_path / "out", "--shard=2/2"))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.long
def test_models_that_cannot_speak_and_missing_ones_are_named(tmp_path):
    (tmp_path / "texts.txt").write_text("a\n")
    for logdir, words in (("toy:speech", "has a model of the type Speech2Text, which does not speak texts"),
                          (str(tmp_path), "Error: ")):
        process = start(tmp_path / "out", f"--logdir={logdir}")
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 2 and words in said and "Traceback" not in said
        assert not (tmp_path / "out").exists()
