import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_table_has_a_row_for_each_subject():
    shape = ["--hidden", "4", "--input", "3", "--batch", "2", "--steps", "5", "--layers", "1", "--rounds", "2"]
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "recurrence.py"), *shape], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:]]
    assert rows == ["ours, float32", "ours, bfloat16", "Keras, float32"]
