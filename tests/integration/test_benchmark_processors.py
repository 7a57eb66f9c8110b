"""The comparison of processors runs, and puts a row into its file and a table into a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measuring.processor_table import BEGIN, END, format_rows, read_rows, table_of

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "processors.py"


@pytest.mark.slow
def test_a_row_is_measured(tmp_path):
    document = tmp_path / "page.md"
    document.write_text(f"{BEGIN}\n{END}\n")
    done = subprocess.run([sys.executable, str(PROGRAM), "--steps=1", "--rounds=1", "--warmup=0", "--models",
                           "Transformer", f"--figures={tmp_path}/rows.yaml", f"--document={document}"],
                          capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = read_rows(tmp_path / "rows.yaml")
    assert table_of(document) == format_rows([row]) == done.stdout.strip()
    speeds = [*row["training"]["Transformer"].values(), *row["decoding"].values()]
    assert all(speed > 0 for speed in speeds if not isinstance(speed, str))
