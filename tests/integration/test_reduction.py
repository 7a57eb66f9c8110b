"""How gradients travel, over the real Horovod: in FP16, as rows; and a learning rate that follows the ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.integration.conftest import ROOT
from tests.integration.ranks import (
    BIN,
    NEEDS_HOROVOD,
    NO_DROPOUT,
    add_hooks,
    assert_identical,
    losses,
    on_ranks,
    weights,
)

pytestmark = NEEDS_HOROVOD

FEW = (*NO_DROPOUT, "--max_steps=20", "--save_checkpoint_steps=null", "--print_loss_steps=null")


@pytest.fixture
def overflowing(workspace: Path) -> Path:
    """The toy corpus; the third step overflows on rank 1."""
    add_hooks(workspace)
    add_hooks(workspace, "OverflowHook", "Keep")
    return workspace


def test_each_way_of_travelling_adds_up():
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    done = subprocess.run(
        ["mpiexec", *root, "--oversubscribe", "--bind-to", "none", "-np", "2", sys.executable,
         str(Path(__file__).with_name("reduction_on_ranks.py"))],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TF_NUM_INTRAOP_THREADS": "1"})
    assert done.returncode == 0, done.stdout
    assert sorted(re.findall(r"rank \d agrees", done.stdout)) == ["rank 0 agrees", "rank 1 agrees"]


def test_fp16_on_the_wire_learns_the_same_and_skips_on_all_ranks(overflowing):
    runs = {}
    for compression in ("null", "fp16"):
        code, output = on_ranks(2, overflowing, *FEW, f"--hvd_compression={compression}")
        assert code == 0, output
        applied = re.findall(r"exact \d+ \S+ (True|False)", output)
        assert applied == ["True", "True", "False", *["True"] * 18], output  # twenty updates
        assert ("gradients are sent in fp16" in output) == (compression == "fp16")
        assert_identical(weights(overflowing, 0), weights(overflowing, 1))
        runs[compression] = losses(output)
    np.testing.assert_allclose(runs["fp16"], runs["null"], rtol=1e-2)
    assert runs["fp16"] != runs["null"]


OWN = '''
import runpy
globals().update(runpy.run_path({config!r}, init_globals={{"__file__": {config!r}}}))
root = {root!r}
'''


def test_rows_travel_as_rows_and_two_ranks_are_one_process(tmp_path):
    """LazyAdam changes the rows at hand alone: on two ranks those that either looked up.

    Half the learning rate, scaled by the number of ranks, is the whole.
    """
    example = str(ROOT / "docs" / "examples" / "own_config.py")
    (tmp_path / "config.py").write_text(OWN.format(config=example, root=str(tmp_path)), encoding="utf-8")
    add_hooks(tmp_path)
    few = ("--mode=train", "--max_steps=5", "--optimizer=LazyAdam", "--save_checkpoint_steps=null",
           "--max_grad_norm=1.0", "--data_layer_params/num_symbols=3000", "--encoder_params/num_symbols=3000",
           "--decoder_params/num_symbols=3000")
    runs = {}
    for ranks, iter_size in ((1, 2), (2, 1)):
        code, output = on_ranks(ranks, tmp_path, *few, f"--iter_size={iter_size}", f"--logdir={tmp_path}/{ranks}",
                                f"--lr_policy_params/learning_rate={0.01 / ranks}", "--lr_scale_with_world=True")
        assert code == 0, output
        assert ("lr_scale_with_world: the policy's learning rate is multiplied by 2" in output) == (ranks == 2)
        runs[ranks] = losses(output), weights(tmp_path, 0)
    np.testing.assert_allclose(runs[2][0], runs[1][0], rtol=1e-5)
    assert_identical(runs[2][1], weights(tmp_path, 1))
    moments = {ranks: run["slots/m/encoder/table"] for ranks, (_, run) in runs.items()}
    untouched = {ranks: (m == 0.0).all(axis=1) for ranks, m in moments.items()}
    np.testing.assert_array_equal(untouched[1], untouched[2])
    assert 0.05 < untouched[1].mean() < 0.95
    for name, array in runs[1][1].items():
        np.testing.assert_allclose(runs[2][1][name], array, rtol=1e-3, atol=1e-5, err_msg=name)
