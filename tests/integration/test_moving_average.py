"""ema_decay in whole runs: evaluated, restored, resumed to the same bits, begun late and ended early."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file


def losses(output: str) -> list[str]:
    return re.findall(r"Validation loss: (\S+)", output)


def files(logdir: Path, step: int) -> list[bytes]:
    return [(logdir / f"model.ckpt-{step}" / name).read_bytes()
            for name in ("weights.safetensors", "optimizer.safetensors")]


@pytest.mark.long
def test_evaluation_and_inference_use_the_average_and_training_the_weights(workspace, command):
    code, plain, error = command("--mode=train_eval", f"--logdir={workspace}/plain")
    assert code == 0, error
    code, trained, error = command("--mode=train_eval", f"--logdir={workspace}/run", "--ema_decay=0.9")
    assert code == 0, error
    assert "with the averaged weights" in trained
    run, other = workspace / "run", workspace / "plain"
    assert files(run, 12)[0] == files(other, 12)[0]  # training goes on with the raw weights
    assert losses(trained) != losses(plain)
    _, judged, _ = command("--mode=eval", f"--logdir={run}", "--ema_decay=0.9")
    assert "Weights: the moving average (ema_decay)" in judged and losses(judged) == losses(trained)[-1:]
    _, judged, _ = command("--mode=eval", f"--logdir={run}")
    assert "Weights: as trained; the checkpoint also has their average" in judged
    assert losses(judged) == losses(plain)[-1:]
    _, judged, _ = command("--mode=eval", f"--logdir={other}", "--ema_decay=0.9")
    assert "has no average of the weights" in judged and losses(judged) == losses(plain)[-1:]
    code, out, error = command("--mode=infer", f"--logdir={run}", "--ema_decay=0.9", "--restore_best_checkpoint=True",
                               f"--infer_output_file={workspace}/out.txt")
    assert code == 0, error
    assert "Weights: the moving average" in out and "best checkpoint" in out


@pytest.mark.slow
def test_an_average_may_begin_and_end_in_a_resumed_run(workspace, command):
    run = workspace / "run"
    assert command("--mode=train", "--max_steps=4")[0] == 0
    code, out, error = command("--mode=train", "--max_steps=8", "--continue_learning", "--ema_decay=0.5")
    assert code == 0, error
    assert "no average of the weights: averaging starts at this step" in out
    weights, state = (load_file(run / "model.ckpt-8" / name) for name in
                      ("weights.safetensors", "optimizer.safetensors"))
    name = next(name for name in weights if name.endswith("embedding") or "kernel" in name)
    gap = np.abs(weights[name] - state[f"ema/{name}"]).max()
    assert 0.0 < gap < 0.05
    code, out, error = command("--mode=train", "--continue_learning")
    assert code == 0, error
    assert "averaging stops" in out
    assert not any(name.startswith("ema/") for name in load_file(run / "model.ckpt-12" / "optimizer.safetensors"))


@pytest.mark.slow
def test_a_new_run_starts_from_the_average(workspace, command):
    assert command("--mode=train", "--ema_decay=0.9")[0] == 0
    code, out, error = command("--mode=train", f"--load_model={workspace}/run", f"--logdir={workspace}/next",
                               "--max_steps=4", "--ema_decay=0.9")
    assert code == 0, error
    assert "Using the average of its weights" in out


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["Muon", "ScheduleFreeAdamW"])
def test_optimizers_by_name_resume_to_the_same_bits(workspace, command, optimizer):
    """The schedule-free optimizer evaluates its average, even if the command does not name the optimizer."""
    chosen = (f"--optimizer={optimizer}", "--optimizer_params={}", "--dtype=mixed_bfloat16", "--loss_scaling=Backoff")
    code, trained, error = command("--mode=train_eval", f"--logdir={workspace}/whole", *chosen)
    assert code == 0, error
    assert command("--mode=train", "--max_steps=6", f"--logdir={workspace}/run", *chosen)[0] == 0
    code, _, error = command("--mode=train", "--continue_learning", f"--logdir={workspace}/run", *chosen)
    assert code == 0, error
    assert files(workspace / "whole", 12) == files(workspace / "run", 12)
    _, judged, _ = command("--mode=eval", f"--logdir={workspace}/run", "--dtype=mixed_bfloat16")
    assert losses(judged) == losses(trained)[-1:]
    assert ("Weights: the average of the schedule-free optimizer" in judged) == (optimizer == "ScheduleFreeAdamW")
