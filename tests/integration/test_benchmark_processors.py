"""The comparison of processors prints a row."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "processors.py"


@pytest.mark.slow
def test_a_row_is_measured():
    done = subprocess.run([sys.executable, str(PROGRAM), "--steps=1", "--rounds=1", "--warmup=0"],
                          capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    head, _, row = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert head[3:] == ["Transformer", "Jasper-like", "DS2-like", "GRU stack", "decoding"]
    assert "TensorFlow 2." in row[0] and row[1].endswith(" GFLOP/s")
    for cell in row[3:]:
        ratio, before, after = re.fullmatch(r"\*\*([\d.]+)×\*\* ([\d,]+) → ([\d,]+) [a-z ]+/s", cell).groups()
        before, after = (float(speed.replace(",", "")) for speed in (before, after))
        assert before > 0 and float(ratio) == pytest.approx(after / before, rel=0.1)
