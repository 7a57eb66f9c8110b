"""The documented example of own parts: trains in FP32 and mixed, resumes, evaluates and infers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from open_seq2seq.cli import main

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def config(tmp_path):
    """A copy outside the repository, as a user has it."""
    for name in ("own_parts.py", "own_config.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    return f"--config_file={tmp_path}/own_config.py"


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "mixed", pytest.param("mixed_float16", marks=pytest.mark.slow)])
def test_own_parts_train_resume_and_infer(tmp_path, config, capfd, dtype):
    settings = [config, f"--dtype={dtype}", f"--logdir={tmp_path}/run"]
    assert main([*settings, "--mode=train_eval", "--max_steps=100"]) == 0
    assert main([*settings, "--mode=train_eval", "--continue_learning"]) == 0
    out = capfd.readouterr().out
    assert "Resuming training at step 100" in out
    assert "encoder/dense/kernel" in (tmp_path / "run/overview.txt").read_text(encoding="utf-8")
    assert main([*settings, "--mode=infer", f"--infer_output_file={tmp_path}/out.txt"]) == 0
    symbols = (tmp_path / "out.txt").read_text().split()
    assert len(symbols) == 512 and set(symbols) <= set("0123456")


@pytest.mark.long
def test_resumed_run_with_a_keras_layer_is_exact(tmp_path, config, capfd):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main([config, f"--logdir={whole}", "--max_steps=20"]) == 0
    assert main([config, f"--logdir={parts}", "--max_steps=10"]) == 0
    assert main([config, f"--logdir={parts}", "--max_steps=20", "--continue_learning"]) == 0
    name = "model.ckpt-20/weights.safetensors"
    assert (whole / name).read_bytes() == (parts / name).read_bytes()
