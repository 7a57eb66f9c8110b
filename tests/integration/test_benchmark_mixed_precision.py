"""The comparison of arithmetic types runs on a config, and counts a Transformer's arithmetic as a formula does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "mixed_precision.py"


def run_benchmark(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", *arguments],
                          capture_output=True, text=True, timeout=300, cwd=workspace)


@pytest.mark.long
def test_flops_are_those_of_the_formula(workspace: Path):
    from benchmarks.measuring.flops import count_flops, count_training_flops
    from benchmarks.measuring.settings import make_trainer
    from open_seq2seq.parts.component import named_variables

    trainer = make_trainer(f"{workspace}/config.py", [
        "--loss_params/label_smoothing=0.0", "--encoder_params/encoder_layers=2", "--batch_size_per_gpu=8"])
    model = trainer.model
    lengths = np.asarray(model.data_layer.lengths)
    examples = np.flatnonzero((lengths == lengths[0]).all(axis=1))  # of one length: no padding
    batch = model.data_layer.make_batch(examples)
    flops, uncounted = count_flops(model, [batch])
    rows, time = batch["source_tensors"][0].shape
    hidden, filter_size, layers = 16, 32, 2
    vocabulary = next(v.shape[0] for name, v in named_variables(model).items() if name.endswith("embedding/table"))
    attention = 4 * hidden ** 2 + 2 * time * hidden  # multiply-adds a position: projections; scores and averages
    feed_forward = 2 * hidden * filter_size
    encoder = layers * (attention + feed_forward)
    decoder = 2 * attention + feed_forward  # one layer; source and target are of one length
    positions = rows * time
    assert len(examples) > 1 and uncounted == set()
    assert flops == 2 * positions * (encoder + decoder + hidden * vocabulary)
    # The same on two batches is twice as much.
    assert count_flops(model, [batch, batch])[0] == 2 * flops
    per_token, _ = count_training_flops(trainer)  # on batches of other lengths
    assert per_token == pytest.approx(3 * flops / (2 * positions), rel=0.5)


@pytest.mark.slow
def test_table_of_a_config(workspace: Path):
    result = run_benchmark(workspace, "--steps=2", "--warmup=1", "--rounds=2",
                           "--batch_size_per_gpu=8", "--dtypes=float32,mixed_bfloat16")
    assert result.returncode == 0, result.stderr
    assert "batches of 8 sentences" in result.stdout and "TensorFlow 2." in result.stdout
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in result.stdout.splitlines() if line.startswith("| ") and "---" not in line]
    raw, (head, *rows) = lines[:4], lines[4:]
    assert [line[0] for line in raw] == ["raw operation", "product", "recurrence", "convolution"]
    tables = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["dtype"] for row in tables] == ["float32", "mixed_bfloat16 (bfloat16)"]
    assert tables[0]["against float32"] == "1.00×"
    for row in tables:
        assert 0 <= float(row["of raw products"].strip("%")) < 100
        fastest, slowest = (float(text.replace(",", "")) for text in row["fastest–slowest round ms"].split("–"))
        step_ms, speed = (float(row[key].replace(",", "")) for key in ("step ms (median of rounds)", "tokens/s"))
        # 8 pairs of 3 to 10 letters and the end mark on both sides.
        assert 8 * 2 * 4 <= speed * step_ms / 1e3 <= 8 * 2 * 11 * slowest / fastest
        assert float(row["model TFLOP/s"]) > 0
        assert float(row["peak MB"].replace(",", "")) > 100


@pytest.mark.long
def test_a_mistake_ends_with_exit_code_2(workspace: Path):
    result = run_benchmark(workspace, "--dtypes=tf32")
    assert result.returncode == 2 and "leave tf32 out" in result.stderr and "Traceback" not in result.stderr
