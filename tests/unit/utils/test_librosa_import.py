"""Librosa is imported by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from open_seq2seq.utils import disk

PROGRAM = ("from open_seq2seq.utils.librosa_import import import_librosa; print('starts', flush=True); "
           "print(import_librosa().pyin)")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def start(tmp_path: Path):
    """Starts a process that imports a librosa that takes no time; its lock is in ``tmp_path``."""
    (tmp_path / "librosa.py").write_text("effects = util = None\npyin = 'imported'\n")

    def start() -> subprocess.Popen:
        environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
        return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
    return start


def lock_path(folder: Path) -> Path:
    return folder / f"open_seq2seq_librosa_{os.getuid()}.lock"


def test_a_process_waits_while_another_imports(tmp_path: Path, start):
    with disk.open_lock(lock_path(tmp_path), disk.always) as file:
        disk.lock(file)
        process = start()
        assert process.stdout.readline() == "starts\n"
        time.sleep(2.0)
        assert process.poll() is None
    assert process.communicate(timeout=300)[0] == "imported\n" and process.returncode == 0


def test_a_folder_without_locks_is_no_obstacle(tmp_path: Path, start):
    lock_path(tmp_path).mkdir()
    assert start().communicate(timeout=300)[0] == "starts\nimported\n"
