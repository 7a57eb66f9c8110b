"""The parts of AWD-LSTM's training that depend on the past, in whole runs: resumed runs equal uninterrupted ones."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from scripts.create_toy_text import main as create_toy_text
from tests.integration.ranks import assert_identical, ran
from tests.integration.test_language_model import CONFIG

SETTINGS = ("--mode=train_eval", "--max_steps=8", "--eval_steps=2", "--save_checkpoint_steps=2")


@pytest.fixture
def workspace(tmp_path):
    create_toy_text([f"--output_dir={tmp_path}/text", "--lines=200"])
    (tmp_path / "config.py").write_text(CONFIG.format(root=str(tmp_path)), encoding="utf-8")
    return tmp_path


def state(workspace, run, step=8):
    folder = workspace / run / f"model.ckpt-{step}"
    return {**load_file(folder / "weights.safetensors"), **load_file(folder / "optimizer.safetensors")}


@pytest.mark.long
def test_averaging_begins_at_the_same_update_in_a_resumed_run(workspace, command):
    """The rate is so high that the loss soon rises; the run resumes from the checkpoint before that evaluation."""
    settings = (*SETTINGS, "--average_after_evals_without_gain=1", "--lr_policy_params/learning_rate=60.0")
    output = ran(command, *settings, f"--logdir={workspace}/whole")
    assert output.count("averaging of the weights begins") == 1
    whole = state(workspace, "whole")
    assert whole["average_trigger/has_begun"] == 1 and whole["averaged_updates"] > 1
    begun = 8 - int(whole["averaged_updates"])
    before = state(workspace, "whole", begun)
    assert before["average_trigger/has_begun"] == 0  # the checkpoint is written before the evaluation
    np.testing.assert_array_equal(before["ema/encoder/embedding"], before["encoder/embedding"])

    ran(command, *settings, f"--max_steps={begun}")
    assert_identical(state(workspace, "run", begun), before)
    ran(command, *settings, "--continue_learning")
    assert_identical(state(workspace, "run"), whole)
    assert "Weights: the mean (average_after_evals_without_gain)" in ran(command, *settings, "--mode=eval")
