"""Real runs on several devices of one process, and on several processes under TF_CONFIG."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.integration.conftest import ROOT
from tests.integration.ranks import (
    NO_DROPOUT,
    add_hooks,
    assert_identical,
    judged,
    losses,
    needs_horovod,
    on_ranks,
    ran,
    weights,
)

FEW = ("--max_steps=6", "--save_checkpoint_steps=null")


@pytest.fixture
def workspace(workspace):
    add_hooks(workspace)
    return workspace


# Clipping is tried by the processes of a cluster below, and by the unit tests of towers.
@pytest.mark.long
@pytest.mark.parametrize("settings", [
    pytest.param(("--max_grad_norm=1.0",), marks=pytest.mark.slow),
    ("--larc_params={larc_eta: 0.001}", "--ema_decay=0.9", "--decoupled_weight_decay=0.1"),
    pytest.param(("--dtype=mixed_bfloat16", "--loss_scaling=Backoff"), marks=pytest.mark.ranks),
], ids=["clipping", "larc", "backoff"])
def test_two_towers_are_iter_size_2(workspace, command, settings):
    if settings[0].startswith("--dtype"):
        add_hooks(workspace, "OverflowHook", "Keep")
    common = (*NO_DROPOUT, *FEW, *settings)
    single = ran(command, *common, "--iter_size=2")
    one = weights(workspace, 0)
    towers = ran(command, *common, "--num_cpu_towers=2")
    assert "Towers: 2 in this process (CPU:0, CPU:1)" in towers
    np.testing.assert_allclose(losses(towers), losses(single), rtol=1e-5)
    applied = re.findall(r"exact \d+ \S+ (True|False) (\S+)", single)
    assert re.findall(r"exact \d+ \S+ (True|False) (\S+)", towers) == applied
    assert [flag for flag, _ in applied].count("False") == settings[0].startswith("--dtype")
    assert_identical(weights(workspace, 0), weights(workspace, 1))
    for name, array in weights(workspace, 0).items():
        np.testing.assert_allclose(array, one[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.ranks
def test_one_checkpoint_on_any_number_of_towers(workspace, command, monkeypatch):
    """Trained on two towers with all that looks at a run; evaluated and decoded on 1, 2 and 3; resumed on 1 and 3."""
    output = ran(command, "--mode=train_eval", "--num_cpu_towers=2", "--print_samples_steps=4",
                 "--save_summaries_steps=4", "--print_bench_info_steps=4", "--ema_decay=0.9", "--num_checkpoints=9",
                 "--eval_params/batch_size_per_gpu=4",
                 "--summaries=[gradients, gradient_norm, variables, loss_scale, gradient_underflow]")
    assert "Evaluation at step" in output and "Avg tokens per second" in output
    evaluations, files = [judged(output)], []  # after the last update, so of the checkpoint that the others take
    for towers in (1, 2, 3):
        few = (f"--num_cpu_towers={towers}", "--batch_size_per_gpu=4")
        if towers != 2:
            evaluations.append(judged(ran(command, "--mode=eval", "--ema_decay=0.9", *few)))
        ran(command, "--mode=infer", *few, f"--infer_output_file={workspace}/out-{towers}.txt")
        files.append((workspace / f"out-{towers}.txt").read_bytes())
    assert evaluations[0] == evaluations[1] == evaluations[2]
    assert files[0] == files[1] == files[2]
    monkeypatch.setattr(sys, "stdin", io.StringIO("a b c\n"))
    ran(command, "--mode=interactive_infer", "--num_cpu_towers=2")
    more = ("--ema_decay=0.9", "--continue_learning")
    assert "was saved with 2 ranks, and training continues with 1 rank from batch 24" in ran(
        command, *more, "--max_steps=14")
    assert "was saved with 1 rank, and training continues with 3 ranks" in ran(
        command, *more, "--max_steps=16", "--num_cpu_towers=3")
    assert_identical(weights(workspace, 0), weights(workspace, 2))


@pytest.mark.slow
@needs_horovod
def test_a_run_goes_on_with_horovod_as_it_would_with_towers(workspace, command):
    settings = ("--batch_size_per_gpu=8", *NO_DROPOUT)
    ran(command, *settings, "--max_steps=4", "--num_cpu_towers=2")
    code, output = on_ranks(2, workspace, *settings, "--continue_learning", "--max_steps=8",
                            f"--logdir={workspace}/run")
    assert code == 0, output
    whole = losses(ran(command, *settings, "--max_steps=8", "--num_cpu_towers=2", f"--logdir={workspace}/whole"))
    assert len(losses(output)) == 4
    np.testing.assert_allclose(losses(output), whole[4:], rtol=1e-5)


@pytest.mark.slow
@needs_horovod
def test_joined_batch_norm_is_the_same_by_horovod(workspace, command):
    settings = (*NO_DROPOUT, "--max_steps=4", "--save_checkpoint_steps=null", "--sync_batch_norm=True",
                "--encoder_params/norm_params={type: batch_norm}", "--decoder_params/norm_params={type: batch_norm}")
    towers = losses(ran(command, *settings, "--num_cpu_towers=2"))
    apart = losses(ran(command, *settings[:-3], *settings[-2:], "--num_cpu_towers=2"))
    code, output = on_ranks(2, workspace, *settings)
    assert code == 0, output
    np.testing.assert_allclose(losses(output), towers, rtol=1e-5)
    assert not np.allclose(apart, towers, rtol=1e-5)


def cluster(workspace: Path, processes: int, *arguments: str) -> list[subprocess.Popen]:
    """Starts the command as the processes of a cluster."""
    sockets = [socket.socket() for _ in range(processes)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    hosts = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    started = []
    for index in range(processes):
        task = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}})
        started.append(subprocess.Popen(
            [sys.executable, str(ROOT / "run.py"), f"--config_file={workspace}/config.py", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=workspace,
            env={**os.environ, "TF_CONFIG": task, "TF_NUM_INTRAOP_THREADS": "1"}))
    return started


@pytest.mark.ranks
def test_two_processes_of_a_cluster_are_iter_size_2(workspace, command):
    few = (*NO_DROPOUT, *FEW, "--max_grad_norm=1.0")
    processes = cluster(workspace, 2, *few, "--mode=train_eval", f"--logdir={workspace}/two")
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    together = [weights(workspace, rank) for rank in range(2)]
    single = ran(command, *few, "--mode=train_eval", "--iter_size=2", f"--logdir={workspace}/one")
    np.testing.assert_allclose(losses(outputs[0]), losses(single), rtol=1e-5)
    assert judged(outputs[0]) == judged(single)
    assert losses(outputs[1]) == []  # silent
    assert_identical(*together)


@pytest.mark.ranks
@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_of_a_cluster_that_dies_ends_the_others(workspace, victim):
    processes = cluster(workspace, 2, "--max_steps=1000000", "--save_checkpoint_steps=1")
    deadline = time.time() + 240
    while not list((workspace / "run").glob("model.ckpt-*/state.json")) and time.time() < deadline:
        time.sleep(0.1)
    processes[victim].kill()
    killed = time.time()
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert time.time() - killed < 30
    other = processes[1 - victim]
    assert other.returncode not in (0, None)
    assert f"rank {victim} on host" in outputs[1 - victim] and " died. " in outputs[1 - victim]


REFUSED = {
    "more GPUs than there are": ("--num_gpus=17", "17 GPUs"),
    "GPUs twice": ("--gpu_ids=[0, 0]", "distinct GPU numbers"),
    "GPUs and their number": ("--gpu_ids=[0, 1]", "--num_gpus=3", "leave num_gpus out"),
    "CPU and GPUs": ("--num_cpu_towers=2", "--num_gpus=2", "uses either GPUs or the CPU"),
    "towers under Horovod": ("--num_cpu_towers=2", "--use_horovod=True", "each process uses one device"),
    "no towers": ("--num_cpu_towers=0", "has to be from 1 to 1024"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(workspace, command, name):
    *arguments, expected = REFUSED[name]
    code, _, errors = command(*arguments)
    assert code == 2 and expected in errors and "Traceback" not in errors
    assert errors.count("Error: ") == 1
