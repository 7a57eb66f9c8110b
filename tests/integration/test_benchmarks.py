"""The benchmarks run, measure what they print, and end a mistake with exit code 2; nothing else of a run is saved."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.integration.conftest import ROOT
from tests.integration.ranks import needs_horovod


def run_benchmark(name: str, workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of ``benchmarks`` on the workspace's config."""
    config = f"--config_file={workspace}/config.py"
    return subprocess.run([sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), config, *arguments],
                          capture_output=True, text=True, timeout=400, cwd=workspace, check=False)


def measured(name: str, workspace: Path, *arguments: str) -> str:
    """What it prints; it has to work."""
    result = run_benchmark(name, workspace, *arguments)
    assert result.returncode == 0, result.stderr
    assert list(workspace.glob("run*")) == [], "a benchmark saves nothing"
    return result.stdout


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, head first."""
    found = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "---" not in line]
            for table in found]


def number(cell: str) -> float:
    return float(cell.strip("*%×").replace(",", ""))


@pytest.mark.slow
def test_memory_of_each_batch_size(workspace: Path):
    ((_, *rows),) = tables(measured("memory", workspace, "--dtypes=float32", "--batch_sizes=8,16"))
    assert [row[1] for row in rows] == ["8", "16"]
    assert all(number(row[3]) > 10 and int(row[2]) > int(row[1]) for row in rows)


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
def test_mixed_precision_of_a_config(workspace: Path):
    output = measured("mixed_precision", workspace, "--steps=2", "--warmup=1", "--rounds=2", "--batch_size_per_gpu=8",
                      "--dtypes=float32,mixed_bfloat16")
    assert "batches of 8 sentences" in output and "TensorFlow 2." in output
    raw, (head, *rows) = tables(output)
    assert [line[0] for line in raw] == ["raw operation", "product", "recurrence", "convolution"]
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["dtype"] for row in found] == ["float32", "mixed_bfloat16 (bfloat16)"]
    assert found[0]["against float32"] == "1.00×"
    for row in found:
        assert 0 <= number(row["of raw products"]) < 100
        fastest, slowest = map(number, row["fastest–slowest round ms"].split("–"))
        step_ms, speed = number(row["step ms (median of rounds)"]), number(row["tokens/s"])
        # 8 pairs of 3 to 10 letters and the end mark on both sides.
        assert 8 * 2 * 4 <= speed * step_ms / 1e3 <= 8 * 2 * 11 * slowest / fastest
        assert number(row["model TFLOP/s"]) > 0 and number(row["peak MB"]) > 100


@pytest.mark.slow
def test_curves_are_trained_kept_and_not_trained_again(workspace: Path):
    common = (f"--folder={workspace}/curves", "--window=2", "--settings")
    measured("precision_curves", workspace, *common, "float32:6:1,2")
    kept = (workspace / "curves" / "float32-2.json").read_text()
    second = run_benchmark("precision_curves", workspace, *common, "float32:6:1,2", "mixed_float16/LogMax:6:2")
    assert second.returncode == 0, second.stderr
    assert (workspace / "curves" / "float32-2.json").read_text() == kept
    assert "float32, seed" not in second.stderr and "mixed_float16/LogMax, seed 2: 6 updates" in second.stderr
    row = next(line for line in second.stdout.splitlines() if line.startswith("| mixed_float16/LogMax | 2 | 6 |"))
    assert " of 3 |" in row
    # Twelve steps are all that the config trains for.
    late = run_benchmark("precision_curves", workspace, *common, "float32:60:3,4")
    assert late.returncode == 2 and "--max_steps" in late.stderr


@pytest.mark.slow
def test_processors_are_compared_in_a_row():
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks/processors.py"), "--steps=1", "--rounds=1",
                           "--warmup=0"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    ((head, row),) = tables(done.stdout)
    assert head[3:] == ["Transformer", "Jasper-like", "DS2-like", "GRU stack", "decoding"]
    assert "TensorFlow 2." in row[0] and row[1].endswith(" GFLOP/s")
    for cell in row[3:]:
        ratio, before, after = map(number, re.fullmatch(
            r"\*\*([\d.]+)×\*\* ([\d,]+) → ([\d,]+) [a-z ]+/s", cell).groups())
        assert before > 0 and ratio == pytest.approx(after / before, rel=0.1)


@pytest.mark.slow
def test_the_parts_of_a_step_are_found(workspace: Path):
    ((head, *rows),) = tables(measured("profile_step", workspace, "--dtypes=mixed_bfloat16", "--steps=2"))
    # Parts that take no time have no row.
    assert {"optimizer", "normalisation", "matrix products", "softmax", "random numbers", "casts", "data movement",
            "element-wise", "all operations"} <= {row[0] for row in rows}
    assert head == ["part of the step", "mixed_bfloat16 ms", "share"]


@pytest.mark.slow
@needs_horovod
def test_scaling_shows_ranks_beside_runs_by_themselves(workspace: Path):
    output = measured("scaling", workspace, "--steps=3", "--warmup=1", "--rounds=2", "--repetitions=2")
    (_, scaling), (_, reduction), (_, *clusters) = tables(output)
    ranks, *speeds, efficiency, _, _, wait = scaling
    assert ranks == "2" and all(number(speed) > 0 for speed in speeds) and wait.endswith("%")
    assert re.fullmatch(r"[\d.]+% \([\d.]+%–[\d.]+%\)", efficiency)
    megabytes, groups, *times = reduction
    assert groups == "1" and 0.0 < float(megabytes) < 1.0
    assert all(float(time) > 0.0 for time in times[:2])
    assert [row[0] for row in clusters] == ["8", "64", "512", "1024"]
    for slow, *_, fast in ([number(cell) for cell in row[1:]] for row in clusters):
        assert 0.0 < slow <= fast <= 100.0


@pytest.mark.parametrize(("name", "argument", "words"), [
    pytest.param("mixed_precision", "--dtypes=tf32", "leave tf32 out", marks=pytest.mark.long),
    pytest.param("scaling", "--dtype=mxed", "Did you mean 'mixed'?", marks=pytest.mark.slow)])
def test_a_mistake_ends_with_exit_code_2(workspace: Path, name: str, argument: str, words: str):
    result = run_benchmark(name, workspace, argument)
    assert result.returncode == 2 and words in result.stderr and "Traceback" not in result.stderr
