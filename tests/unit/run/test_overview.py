"""The header of a run."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest

from open_seq2seq.optimizers import poly_decay, transformer_policy
from open_seq2seq.run.overview import print_model, warn_of_shared_files, warn_of_warm_up
from open_seq2seq.runners import Runner


@pytest.mark.parametrize(("policy", "last_step", "warns"), [
    ({"warmup_steps": 100}, 8, True), ({"warmup_steps": 8}, 8, True), ({"warmup_steps": 7}, 8, False),
    ({"learning_rate": 0.1}, 8, False), ({"warmup_steps": 100}, 1, False)])
def test_a_learning_rate_that_only_rises_is_said(capsys, policy, last_step, warns):
    model = SimpleNamespace(params={"lr_policy": poly_decay, "lr_policy_params": policy})
    warn_of_warm_up(SimpleNamespace(model=model, last_step=last_step))
    lines = capsys.readouterr().out.splitlines()
    assert bool(lines) == warns and all(len(line) <= 80 for line in lines)
    assert not warns or f"warmup_steps is {policy['warmup_steps']}, but training has only 8 steps" in lines[0]


def test_advice_about_the_warm_up_keeps_the_highest_rate(capsys):
    policy = {"learning_rate": 1.6, "warmup_steps": 2000, "d_model": 256}
    model = SimpleNamespace(params={"lr_policy": transformer_policy, "lr_policy_params": policy})
    warn_of_warm_up(SimpleNamespace(model=model, last_step=300))
    advice = capsys.readouterr().out.splitlines()[-1]
    steps, rate = (float(value.rstrip(".")) for value in re.findall(r"=([\d.]+)", advice))
    assert steps == 30 and rate / math.sqrt(256 * steps) == pytest.approx(1.6 / math.sqrt(256 * 2000), rel=0.01)


def test_remarks_about_the_data_follow_its_size(capsys):
    layer = SimpleNamespace(num_examples=3, remarks=lambda: ["a remark"])
    print_model(SimpleNamespace(mode="eval", data_layer=layer), {}, Runner(), verbose=False)
    size, remark = capsys.readouterr().out.splitlines()
    assert "3 examples" in size and "a remark" in remark


def test_a_file_of_both_training_and_evaluation_is_said(capsys, tmp_path):
    def model(*files):
        return SimpleNamespace(data_layer=SimpleNamespace(data_files=lambda: dict(zip("abc", files, strict=False))))

    train = str(tmp_path / "train.txt")
    (tmp_path / "link.txt").symlink_to(train)
    warn_of_shared_files(model(train, "other"), model("valid.txt"))
    warn_of_shared_files(model(train), None)
    assert not capsys.readouterr().out
    warn_of_shared_files(model("other", train), model(str(tmp_path / "link.txt")))
    assert "link.txt" in capsys.readouterr().out
