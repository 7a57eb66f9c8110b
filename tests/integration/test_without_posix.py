"""Inference and --check where Python lacks what only POSIX systems have, as on Windows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
import subprocess, tempfile, multiprocessing  # the standard library's own uses are prepared for this
sys.modules["fcntl"] = sys.modules["resource"] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "pwrite", "getuid", "sched_getaffinity"):
    delattr(os, name)
del signal.SIGHUP
from open_seq2seq.cli import main
code = main(sys.argv[1:])
from open_seq2seq.utils import posix
assert posix.fcntl is posix.resource is None
sys.exit(code)
"""


@pytest.mark.long
def test_inference_and_check_without_posix_modules(trained: Path):
    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, "-c", WITHOUT, *words], cwd=trained, capture_output=True, text=True,
                              timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("translate", "run", "dev.src", "--output=without.txt")
    assert len((trained / "without.txt").read_text(encoding="utf-8").splitlines()) == 20
    assert "Memory: weights" in run("--config_file=config.py", "--check", "--logdir=other")
