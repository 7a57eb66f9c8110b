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
    evaluations, later = output.split("averaging of the weights begins")
    assert "with the averaged weights" in later and "with the averaged weights" not in evaluations
    whole = state(workspace, "whole")
    assert whole["average_trigger/has_begun"] == 1 and whole["averaged_updates"] > 1
    begun = 8 - int(whole["averaged_updates"])
    before = state(workspace, "whole", begun)
    assert before["average_trigger/has_begun"] == 0  # the checkpoint is written before the evaluation
    np.testing.assert_array_equal(before["ema/encoder/embedding"], before["encoder/embedding"])

    assert "averaging of the weights begins" not in ran(command, *settings, f"--max_steps={begun}")  # it ends there
    assert_identical(state(workspace, "run", begun), before)
    ran(command, *settings, "--continue_learning")
    assert_identical(state(workspace, "run"), whole)
    assert "Weights: the mean (average_after_evals_without_gain)" in ran(command, *settings, "--mode=eval")


@pytest.mark.long
def test_a_run_with_random_lengths_resumes_exactly_and_traces_once(workspace, command):
    config = workspace / "config.py"
    config.write_text(config.read_text() + """
from open_seq2seq.training.hooks import Hook

class Watch(Hook):
    def after_step(self, trainer, results):
        length = trainer._batch["source_tensors"][0].shape[1]
        print("watched", length, float(results["learning_rate"]) / 0.5 * 16 / length, trainer._train_step.traces)

base_params["hooks"] = [Watch]
""", encoding="utf-8")
    settings = ("--mode=train", "--max_steps=8", "--data_layer_params/random_bptt=True", "--data_layer_params/bptt=16")
    output = ran(command, *settings, f"--logdir={workspace}/whole")
    watched = [line.split()[1:] for line in output.splitlines() if line.startswith("watched")]
    assert len({length for length, _, _ in watched}) > 3 and {traces for *_, traces in watched} == {"1"}
    np.testing.assert_allclose([float(ratio) for _, ratio, _ in watched], 1.0, rtol=1e-6)

    ran(command, *settings, "--max_steps=4")
    ran(command, *settings, "--continue_learning")
    assert_identical(state(workspace, "run"), state(workspace, "whole"))
