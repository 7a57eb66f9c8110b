"""Curves are trained, kept, and not trained again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "precision_curves.py"


def run_curves(workspace: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", f"--folder={workspace}/curves",
         "--window=2", "--settings", *settings], capture_output=True, text=True, timeout=300, cwd=workspace)


@pytest.mark.slow
def test_runs_are_compared_and_kept(workspace: Path):
    first = run_curves(workspace, "float32:6:1,2")
    assert first.returncode == 0, first.stderr
    kept = (workspace / "curves" / "float32-2.json").read_text()
    second = run_curves(workspace, "float32:6:1,2", "mixed_float16/LogMax:6:2")
    assert second.returncode == 0, second.stderr
    assert (workspace / "curves" / "float32-2.json").read_text() == kept
    assert "float32, seed" not in second.stderr and "mixed_float16/LogMax, seed 2: 6 updates" in second.stderr
    row = next(line for line in second.stdout.splitlines() if line.startswith("| mixed_float16/LogMax | 2 | 6 |"))
    assert " of 3 |" in row
    assert list(workspace.glob("run*")) == [], "nothing else is saved"
    # Twelve steps are all that the config trains for.
    late = run_curves(workspace, "float32:60:3,4")
    assert late.returncode == 2 and "--max_steps" in late.stderr
