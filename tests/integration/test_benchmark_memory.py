"""The memory benchmark tries growing batches and says which fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "memory.py"


@pytest.mark.slow
def test_sizes_double_until_one_exceeds_the_limit(workspace: Path):
    result = subprocess.run(
        [sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", "--dtypes=float32", "--limit_mb=10",
         "--start=8"], capture_output=True, text=True, timeout=300, cwd=workspace)
    assert result.returncode == 0, result.stderr
    rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if line.startswith("| float32")]
    assert [row[1] for row in rows] == ["8"] and rows[0][-1] == "no"
    assert float(rows[0][3].replace(",", "")) > 10 and int(rows[0][2]) > 8
