"""A sweep that is killed and continued ends in the same table, and finished runs are not trained again."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT

pytestmark = pytest.mark.timeout(1800)
WORDS = ["--mode=train_eval", "--max_steps=60", "--save_checkpoint_steps=10", "--eval_steps=20",
         "--print_loss_steps=10", "--sweep", "lr_policy_params/learning_rate=0.5,2.0", "--sweep_processes=2"]


def cells_of(seeds: int) -> list[str]:
    return [f"learning_rate={rate},random_seed={seed}" for rate in ("0.5", "2.0") for seed in range(seeds)]


def start(workspace: Path, logdir: str, seeds: int = 2) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "run.py"), "--config_file=config.py", f"--logdir={logdir}", *WORDS,
               "--sweep", "random_seed=" + ",".join(map(str, range(seeds)))]
    return subprocess.Popen(command, cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True)


def to_end(workspace: Path, logdir: str, seeds: int) -> str:
    process = start(workspace, logdir, seeds)
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output
    return output


def complete(root: Path) -> set[str]:
    path = root / "sweep.json"
    return {*json.loads(path.read_text())["complete"]} if path.is_file() else set()


def unfinished_checkpoints(root: Path, seeds: int = 2) -> set[Path]:
    return {path for name in {*cells_of(seeds)} - complete(root) for path in (root / name).glob("model.ckpt-[1-5]0")}


def kill_in_training(workspace: Path, logdir: str, seeds: int, count: int, rng: random.Random) -> None:
    """Kills the sweep and its processes after ``count`` complete runs, when another one has a new checkpoint."""
    process = start(workspace, logdir, seeds)
    root, before = workspace / logdir, unfinished_checkpoints(workspace / logdir, seeds)
    deadline = time.monotonic() + 600
    while len(complete(root)) < count or not unfinished_checkpoints(root, seeds) - before:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.002)
    time.sleep(rng.random() * 0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def times_of(root: Path, names: set[str]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for name in names for path in (root / name).rglob("*.safetensors")}


@pytest.mark.long
@pytest.mark.parametrize(("seeds", "complete_before_kill"), [
    (2, (0, 1, 2)), pytest.param(3, (0, 1, 3), marks=pytest.mark.slow)])
def test_three_kills_end_in_the_same_table(workspace: Path, seeds: int, complete_before_kill: tuple[int, ...]):
    to_end(workspace, "whole", seeds)
    rng, cells = random.Random(2), cells_of(seeds)
    for count in complete_before_kill:
        before = complete(workspace / "parts")
        times = times_of(workspace / "parts", before)
        kill_in_training(workspace, "parts", seeds, count, rng)
        assert len(complete(workspace / "parts")) < len(cells) and times_of(workspace / "parts", before) == times
    before = complete(workspace / "parts")
    times = times_of(workspace / "parts", before)
    output = to_end(workspace, "parts", seeds)
    assert f"{len(cells)} runs, of which {len(before)} are complete" in output
    assert len(before) >= complete_before_kill[-1]
    assert ": resumes; output: " in output and times_of(workspace / "parts", before) == times
    tables = [(workspace / folder / "sweep.csv").read_text(encoding="utf-8") for folder in ("whole", "parts")]
    assert tables[0] == tables[1] and len(tables[0].splitlines()) == 3
    for name in cells:  # what the table is made of, and the weights
        first, second = (workspace / folder / name for folder in ("whole", "parts"))
        assert (first / "metrics.csv").read_text() == (second / "metrics.csv").read_text()
        weights = [one / "model.ckpt-60" / "weights.safetensors" for one in (first, second)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    page = (workspace / "parts" / "sweep.html").read_text(encoding="utf-8")
    assert "± " in page and all(name in page for name in cells)
    output = to_end(workspace, "parts", seeds)
    assert f"{len(cells)} runs, of which {len(cells)} are complete" in output
    assert "starts" not in output and "resumes" not in output


@pytest.mark.long
def test_ctrl_c_saves_the_runs_of_a_sweep(workspace: Path):
    process = start(workspace, "stopped")
    while not unfinished_checkpoints(workspace / "stopped"):
        assert process.poll() is None
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGINT, output
    assert "The sweep is stopped; the same command continues it." in output
    saved = [path.read_text() for path in (workspace / "stopped").glob("*.log")]
    assert any("resume with --continue_learning" in text for text in saved), saved


@pytest.mark.long
def test_a_second_ctrl_c_ends_a_sweep_at_once_and_it_can_be_continued(workspace: Path):
    process = start(workspace, "twice")
    while not unfinished_checkpoints(workspace / "twice"):
        assert process.poll() is None
        time.sleep(0.002)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGINT and "Traceback" not in output, output
    again = start(workspace, "twice")  # its folder is free
    while "4 runs, of which" not in (line := again.stdout.readline()):
        assert line, "the sweep has ended"
    os.killpg(again.pid, signal.SIGKILL)
    again.communicate()


@pytest.mark.long
def test_a_mistake_in_a_cell_ends_the_sweep_before_it_begins(workspace: Path):
    process = subprocess.run([sys.executable, str(ROOT / "run.py"), f"--config_file={workspace}/config.py",
                              "--logdir=bad", "--sweep", "random_seed=0,x"], cwd=workspace, text=True,
                             capture_output=True, timeout=300)
    assert process.returncode == 2 and "'random_seed'" in process.stderr and not (workspace / "bad").exists()


@pytest.mark.long
def test_a_sweep_from_python(workspace: Path):
    program = ("import open_seq2seq\n"
               "run = open_seq2seq.Run('config.py', {'max_steps': 4, 'eval_steps': 2}, logdir='swept')\n"
               "table = run.sweep({'beam_size': [1, 2], 'random_seed': [0]}, evaluate=True, processes=2)\n"
               "print([row.values for row in table.rows], table.rows[0].mean('val_loss'))\n")
    done = subprocess.run([sys.executable, "-c", program], cwd=workspace, text=True, capture_output=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert "[('1',), ('2',)] " in done.stdout and (workspace / "swept" / "beam_size=2,random_seed=0").is_dir()


@pytest.mark.outside
@pytest.mark.parametrize("library", ["", "optuna"])
def test_the_code_of_the_page_runs(tmp_path: Path, library: str):
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}: pip install {library}")
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "os2s.Run" in block]
    (program,) = [block for block in blocks if ("import optuna" in block) == bool(library)]
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = [sys.executable, str(ROOT / "scripts" / "create_toy_data.py"), "--output_dir=toy_text_data"]
    subprocess.run(script, cwd=tmp_path, env=environment, check=True, timeout=300)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, text=True,
                          capture_output=True, timeout=800)
    assert done.returncode == 0, done.stderr
    if library:
        assert re.search(r"\{'rate': [\d.]+\} [\d.]+\n$", done.stdout) and len([*(tmp_path / "trials").iterdir()]) == 3
    else:
        assert done.stdout.count("\n('") == 3 and len([*(tmp_path / "my_python_sweep").glob("*.log")]) == 4
