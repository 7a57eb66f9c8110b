"""The memory benchmark measures each batch size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "memory.py"


@pytest.mark.slow
def test_each_size_has_a_row(workspace: Path):
    result = subprocess.run(
        [sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", "--dtypes=float32",
         "--batch_sizes=8,16"], capture_output=True, text=True, timeout=300, cwd=workspace)
    assert result.returncode == 0, result.stderr
    rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if line.startswith("| float32")]
    assert [row[1] for row in rows] == ["8", "16"]
    assert all(float(row[3].replace(",", "")) > 10 and int(row[2]) > int(row[1]) for row in rows)
