"""The benchmark of speech input prints a row for each back-end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "speech_input.py"


@pytest.mark.slow
def test_a_row_for_each_backend(tmp_path: Path):
    write_toy_speech(str(tmp_path), {"train": 6}, rate=8000)
    result = subprocess.run(
        [sys.executable, str(PROGRAM), "--dataset_files", f"{tmp_path}/train.csv", "--vocab_file",
         f"{tmp_path}/vocab.txt", "--sample_freq=8000", "--num_audio_features=20", "--batch_size=2", "--passes=1"],
        capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["backend", "psf", "librosa", "tf"]
    assert all(float(cell.replace(",", "")) > 1 for row in rows[1:] for cell in row[1:])
