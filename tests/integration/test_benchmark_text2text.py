"""The speed benchmark runs, and its table is about the rounds that were asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "text2text.py"


def run_benchmark(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", *arguments],
                          capture_output=True, text=True, timeout=300, cwd=workspace)


@pytest.mark.slow
def test_benchmark_prints_a_row_for_each_dtype(workspace: Path):
    result = run_benchmark(workspace, "--dtypes=float32,mixed_bfloat16", "--steps=3", "--warmup=1", "--rounds=2",
                           "--batch_size_per_gpu=8")
    assert result.returncode == 0, result.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in result.stdout.splitlines() if line.startswith("|")][2:]
    assert [row[0] for row in rows] == ["float32", "mixed_bfloat16 (bfloat16)"]
    for row in rows:
        first_step, step_ms, tokens, peak = (float(row[i].replace(",", "")) for i in (1, 2, 4, 7))
        fastest, slowest = (float(text) for text in row[3].split("–"))
        assert 0 < fastest <= step_ms <= slowest < 1e3 * first_step
        # 8 pairs of 3 to 10 letters and EOS on both sides.
        assert 8 * 2 * 4 <= tokens * step_ms / 1e3 <= 8 * 2 * 11 * slowest / fastest
        assert peak > 100
    assert rows[0][5] == "1.00×"
    assert list(workspace.glob("run*")) == [], "a benchmark saves nothing"


@pytest.mark.slow
def test_benchmark_names_the_mistake(workspace: Path):
    result = run_benchmark(workspace, "--dtypes=mxed")
    assert result.returncode != 0
    assert "Did you mean 'mixed'?" in result.stderr and "Traceback" not in result.stderr
