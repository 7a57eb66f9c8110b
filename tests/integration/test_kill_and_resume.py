"""A run killed at random moments and resumed ends in the same bits as one that was not."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.integration.conftest import start_process
from tests.known_speeds import ALL_GAIN, NONE_GAINS, write_known_speeds

WEIGHTS = "weights.safetensors"


def checkpoints(logdir: Path) -> list[Path]:
    return [p for p in logdir.glob("model.ckpt-*") if (p / "state.json").is_file()]


def run_to_end(workspace, logdir, *settings):
    resume = ["--continue_learning"] if checkpoints(logdir) else []
    process = start_process(workspace, f"--logdir={logdir}", *settings, *resume)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def kill_somewhere(workspace, logdir, rng, in_a_write, *settings):
    """Starts the run and kills it with SIGKILL: inside a checkpoint's write, or soon after a checkpoint."""
    before = {path.name for path in checkpoints(logdir)}
    resume = ["--continue_learning"] if before else []
    process = start_process(workspace, f"--logdir={logdir}", *settings, *resume)
    deadline = time.time() + 200
    while process.poll() is None and time.time() < deadline:
        if in_a_write and any(logdir.glob(".tmp-*")):
            break
        if not in_a_write and {path.name for path in checkpoints(logdir)} - before:
            time.sleep(rng.random() * 0.3)
            break
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "mixed"])
def test_five_kills_end_in_the_same_bits(workspace, dtype, monkeypatch):
    cache = workspace / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    write_known_speeds(cache, ALL_GAIN)
    rng = random.Random(1)
    # Three layers: what they share, the encoder's output and the embedding, gets a gradient of three addends and more.
    settings = ("--mode=train", f"--dtype={dtype}", "--max_steps=2000", "--save_checkpoint_steps=100",
                "--encoder_params/encoder_layers=3", "--decoder_params/num_hidden_layers=3")
    run_to_end(workspace, workspace / "whole", *settings)
    kills = []
    for number in range(5):
        kills.append(kill_somewhere(workspace, workspace / "parts", rng, number % 2 == 0, *settings))
        if checkpoints(workspace / "parts"):  # which know what the run chose, whatever is measured now
            shutil.rmtree(cache, ignore_errors=True)
            if number % 2:
                write_known_speeds(cache, NONE_GAINS)
    assert kills.count(-signal.SIGKILL) == 5
    run_to_end(workspace, workspace / "parts", *settings)
    for name in (WEIGHTS, "optimizer.safetensors"):
        whole, parts = (workspace / part / "model.ckpt-2000" / name for part in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes()
