"""Runs in mixed follow what the processor gains, and a resumed run what it began with."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.integration.conftest import ROOT
from tests.integration.ranks import add_hooks, assert_identical, losses, needs_horovod, on_ranks, ran, weights
from tests.known_speeds import ALL_GAIN, NONE_GAINS, write_known_speeds

MIXED = ("--mode=train", "--dtype=mixed")
FLOAT32, BFLOAT16 = "here float32 everywhere", "that is bfloat16 arithmetic on this CPU"


@pytest.fixture
def cache(tmp_path_factory, monkeypatch):
    """A folder for a cache of speeds, which this process and those that it starts use."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder for runs in mixed that several tests look at."""
    return tmp_path_factory.mktemp("runs")


def at_once(command, cache, runs, gains):
    """A run in mixed on a processor of these gains, which runs once for all tests: (logdir, what it said)."""
    name = "all" if gains == ALL_GAIN else "none"
    write_known_speeds(cache, gains)
    if not (runs / f"{name}.txt").exists():
        (runs / f"{name}.txt").write_text(ran(command, *MIXED, f"--logdir={runs}/{name}"), encoding="utf-8")
    return runs / name, (runs / f"{name}.txt").read_text(encoding="utf-8")


def files_of(logdir, step):
    return [(logdir / f"model.ckpt-{step}" / file).read_bytes()
            for file in ("weights.safetensors", "optimizer.safetensors")]


@pytest.mark.long
def test_mixed_is_bfloat16_or_float32_to_the_bit(workspace, command, cache, runs):
    for name, dtype in (("half", "mixed_bfloat16"), ("whole", "float32")):
        ran(command, "--mode=train", f"--dtype={dtype}", f"--logdir={workspace}/{name}")
    for name, gains, said in (("half", ALL_GAIN, BFLOAT16), ("whole", NONE_GAINS, FLOAT32)):
        logdir, output = at_once(command, cache, runs, gains)
        assert said in output
        assert files_of(workspace / name, 12) == files_of(logdir, 12)


@pytest.mark.long
@pytest.mark.parametrize(("gains", "said"), [
    pytest.param(ALL_GAIN, BFLOAT16, id="all"), pytest.param(NONE_GAINS, FLOAT32, id="none", marks=pytest.mark.slow)])
def test_a_resumed_run_repeats_its_choice_whatever_the_cache_says(workspace, command, cache, runs, gains, said):
    whole, _ = at_once(command, cache, runs, gains)
    ran(command, *MIXED, f"--logdir={workspace}/parts", "--max_steps=4")
    write_known_speeds(cache, NONE_GAINS if gains == ALL_GAIN else ALL_GAIN)  # falsified
    resumed = (*MIXED, f"--logdir={workspace}/parts", "--continue_learning")
    output = ran(command, *resumed, "--max_steps=8")
    assert said in output and "as in the checkpoint" in output
    for file in (cache / "open_seq2seq").iterdir():  # deleted
        file.unlink()
    assert said in ran(command, *resumed)
    assert not any((cache / "open_seq2seq").iterdir())  # nothing was measured
    assert files_of(whole, 12) == files_of(workspace / "parts", 12)


@pytest.mark.long
def test_the_real_probe_with_one_thread_and_no_place_for_its_cache(workspace):
    (workspace / "file").write_text("")
    environment = {**os.environ, "XDG_CACHE_HOME": f"{workspace}/file", "TF_NUM_INTRAOP_THREADS": "1"}
    done = subprocess.run([sys.executable, str(ROOT / "run.py"), f"--config_file={workspace}/config.py", *MIXED,
                           "--max_steps=2"], capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dtype: mixed" in done.stdout and "bf16/fp32 speed: products " in done.stdout


@needs_horovod
def test_two_ranks_with_opposite_probes_train_in_the_first_ones_choice(workspace):
    add_hooks(workspace)
    for rank, gains in enumerate((NONE_GAINS, ALL_GAIN)):
        write_known_speeds(workspace / f"cache-{rank}", gains)
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write('import os\nrank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["HOROVOD_RANK"]\n'
                     'os.environ["XDG_CACHE_HOME"] = root + "/cache-" + rank\n')
    few = ("--max_steps=2", "--save_checkpoint_steps=null")
    code, output = on_ranks(2, workspace, *few, "--dtype=mixed", then=[[*few, f"--logdir={workspace}/float32"]])
    assert code == 0, output
    assert output.count(FLOAT32) == 1 and BFLOAT16 not in output
    # The losses are means over both ranks: one in bfloat16 would show.
    steps = losses(output)
    assert len(steps) == 4 and steps[:2] == steps[2:] and all(np.isfinite(steps))
    assert_identical(weights(workspace, 0), weights(workspace, 1))
