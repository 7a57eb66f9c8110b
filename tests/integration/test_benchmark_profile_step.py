"""A training step is profiled, and its parts are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "profile_step.py"


@pytest.mark.slow
def test_the_parts_of_a_step_are_found(workspace: Path):
    result = subprocess.run(
        [sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", "--dtypes=mixed_bfloat16", "--steps=2"],
        capture_output=True, text=True, timeout=300, cwd=workspace)
    assert result.returncode == 0, result.stderr
    rows = dict(line.strip("| ").split(" | ")[:2] for line in result.stdout.splitlines() if line.startswith("| "))
    for part in ("optimizer", "normalisation", "matrix products", "softmax", "random numbers", "casts",
                 "data movement", "element-wise", "all operations"):
        assert part in rows, part  # parts that take no time have no row
    assert "| part of the step | mixed_bfloat16 ms | share |" in result.stdout
