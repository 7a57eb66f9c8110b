"""Real runs on several ranks; skipped where Horovod is not installed (make horovod)."""

from __future__ import annotations

import re
import signal

import numpy as np
import pytest

from tests.integration.ranks import (
    NEEDS_HOROVOD,
    NO_DROPOUT,
    add_hooks,
    assert_identical,
    judged,
    losses,
    on_ranks,
    ran,
    weights,
)

pytestmark = NEEDS_HOROVOD


@pytest.fixture
def workspace(workspace):
    add_hooks(workspace)
    return workspace


# Under mpiexec, so are two hosts (test_two_hosts) and two ranks whose gradients travel as rows (test_reduction).
@pytest.mark.parametrize("launcher", [pytest.param("mpiexec", marks=pytest.mark.slow), "gloo"])
def test_two_ranks_are_one_process_with_iter_size_2(workspace, command, launcher):
    few = (*NO_DROPOUT, "--max_steps=6", "--save_checkpoint_steps=null", "--max_grad_norm=1.0")
    single = losses(ran(command, *few, "--iter_size=2"))
    one = weights(workspace, 0)
    code, output = on_ranks(2, workspace, *few, f"--logdir={workspace}/two", launcher=launcher)
    assert code == 0, output
    assert len(losses(output)) == 6, output  # of one rank: the other is silent
    np.testing.assert_allclose(losses(output)[:5], single[:5], rtol=1e-5)
    assert_identical(weights(workspace, 0), weights(workspace, 1))
    for name, array in weights(workspace, 0).items():
        np.testing.assert_allclose(array, one[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_one_checkpoint_on_any_number_of_ranks(workspace, command):
    """Trained on two ranks; evaluated and decoded on 1, 2 and 3, resumed on 1 and on 3."""
    evaluations, files, resumed = [], [], ""
    more = ["--mode=train", "--continue_learning", "--max_steps=14"]
    for ranks in (2, 3):
        looks = [["--mode=eval"], ["--mode=infer", f"--infer_output_file={workspace}/out-{ranks}.txt"]]
        runs = [["--mode=train_eval", "--num_checkpoints=9"], *looks] if ranks == 2 else [*looks, more]
        code, output = on_ranks(ranks, workspace, *runs[0], then=runs[1:])
        assert code == 0, output
        evaluations.append(judged(output))
        files.append((workspace / f"out-{ranks}.txt").read_bytes())
        resumed = output
        if ranks == 2:
            evaluations.append(judged(ran(command, "--mode=eval")))
            ran(command, "--mode=infer", f"--infer_output_file={workspace}/out-1.txt")
            files.append((workspace / "out-1.txt").read_bytes())
    assert evaluations[0] == evaluations[1] == evaluations[2]
    assert files[0] == files[1] == files[2]
    assert "was saved with 2 ranks, and training continues with 3 ranks from batch 24" in resumed
    assert_identical(weights(workspace, 1), weights(workspace, 2))
    assert "saved with 3 ranks" in ran(command, "--continue_learning", "--max_steps=15")


def test_overflow_on_one_rank_is_skipped_on_all(workspace):
    add_hooks(workspace, "OverflowHook", "Keep")
    code, output = on_ranks(2, workspace, "--max_steps=5", "--dtype=mixed_bfloat16", "--loss_scaling=Backoff",
                            "--save_checkpoint_steps=null")
    assert code == 0, output
    steps = re.findall(r"exact \d+ \S+ (True|False) (\S+)", output)
    assert [applied for applied, _ in steps] == ["True", "True", "False", "True", "True", "True"]
    scales = [float(scale) for _, scale in steps]
    assert scales[3] < scales[2] == scales[0]
    assert_identical(weights(workspace, 0), weights(workspace, 1))


def test_a_signal_that_only_one_rank_receives_ends_all_alike(workspace):
    add_hooks(workspace, "StopHook")
    code, output = on_ranks(2, workspace, "--mode=train", "--max_steps=2", "--save_checkpoint_steps=null")
    assert code == 128 + signal.SIGTERM and "Stopped at step 2; no step is left." in output, output


def test_a_mistake_on_all_ranks_is_reported_once(workspace):
    code, output = on_ranks(2, workspace, "--logdirr=x")
    assert code == 2, output
    assert output.count("logdirr") == 1, output
    code, output = on_ranks(2, workspace, "--on_divergence=roll_back")
    assert code == 2 and output.count("'on_divergence' is") == 1, output


def test_processes_without_use_horovod_are_refused(workspace):
    code, output = on_ranks(2, workspace, "--use_horovod=False")
    assert code == 2 and "add --use_horovod=True" in output
