"""Librosa is imported by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from open_seq2seq.utils import disk

PROGRAM = "from open_seq2seq.utils.librosa_import import import_librosa; import_librosa().pyin"


def test_a_process_waits_while_another_imports(tmp_path: Path):
    path = tmp_path / f"open_seq2seq_librosa_{os.getuid()}.lock"
    with disk.open_lock(path, lambda content: True) as file:
        disk.lock(file)
        waiting = subprocess.Popen([sys.executable, "-c", PROGRAM], env={**os.environ, "TMPDIR": str(tmp_path)})
        time.sleep(3.0)
        assert waiting.poll() is None and "librosa" not in Path(f"/proc/{waiting.pid}/maps").read_text()
    assert waiting.wait(timeout=300) == 0


def test_a_folder_without_locks_is_no_obstacle(tmp_path: Path):
    (tmp_path / f"open_seq2seq_librosa_{os.getuid()}.lock").mkdir()
    subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True,
                   timeout=300)
