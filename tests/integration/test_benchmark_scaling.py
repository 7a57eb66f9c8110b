"""The scaling benchmark runs, and its tables hold together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.ranks import needs_horovod

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "scaling.py"


def run_benchmark(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), f"--config_file={workspace}/config.py", *arguments],
                          capture_output=True, text=True, timeout=400, cwd=workspace)


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, heads left out."""
    found = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()][2:]
            for table in found]


@pytest.mark.slow
@needs_horovod
def test_ranks_beside_runs_by_themselves(workspace: Path):
    result = run_benchmark(workspace, "--steps=3", "--warmup=1", "--rounds=2", "--repetitions=2")
    assert result.returncode == 0, result.stderr
    scaling, reduction, clusters = tables(result.stdout)
    ((ranks, *speeds, efficiency, _, _, wait),) = scaling
    assert ranks == "2" and all(float(speed.replace(",", "")) > 0 for speed in speeds) and wait.endswith("%")
    assert re.fullmatch(r"[\d.]+% \([\d.]+%–[\d.]+%\)", efficiency)
    ((megabytes, groups, *times),) = reduction
    assert groups == "1" and 0.0 < float(megabytes) < 1.0
    assert all(float(time) > 0.0 for time in times[:2])
    assert [row[0] for row in clusters] == ["8", "64", "512", "1024"]
    for slow, *_, fast in ([float(cell[:-1]) for cell in row[1:]] for row in clusters):
        assert 0.0 < slow <= fast <= 100.0
    assert list(workspace.glob("run*")) == [], "a benchmark saves nothing"


@pytest.mark.slow
def test_the_mistake_is_named(workspace: Path):
    result = run_benchmark(workspace, "--dtype=mxed")
    assert result.returncode == 2
    assert "Did you mean 'mixed'?" in result.stderr and "Traceback" not in result.stderr
