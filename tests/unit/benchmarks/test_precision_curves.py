"""Curves are compared at equal seeds and updates, and runs are kept between calls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import precision_curves
from benchmarks.precision_curves import Curve, CurveHook, Plan, format_table, main, parse_plan, run_missing
from open_seq2seq.utils.errors import UserError

FLOAT32, BFLOAT16 = Plan("float32", 20, (1, 2, 3)), Plan("mixed_bfloat16", 20, (1, 3))


def run(offset, updates=20, marks=(10, 20)):
    train = [5.0 - 0.1 * update + offset for update in range(1, updates + 1)]
    return Curve(train, {mark: 4.0 - 0.1 * mark + offset for mark in marks}, 2)


def curves(offset):
    """Reference seeds 0.1 apart, and a setting that lies ``offset`` above the same seed."""
    return {"float32": {seed: run(0.1 * seed) for seed in (1, 2, 3)},
            "mixed_bfloat16": {seed: run(0.1 * seed + offset) for seed in (1, 3)}}


def cells(plans, of_all, window=5):
    table = format_table(plans, of_all, window).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_differences_are_paired_and_the_band_is_two_deviations():
    reference, row = cells([FLOAT32, BFLOAT16], curves(0.05))
    band = 2 * np.std([0.1, 0.2, 0.3], ddof=1)
    assert reference[4:] == ["2.2000", "+0.0000", "+0.0000 … +0.0000", f"±{band:.4f}", "3 of 3", "12 of 12"]
    assert row == ["mixed_bfloat16", "1, 3", "20", "4", "2.2500", "+0.0500", "+0.0500 … +0.0500", f"±{band:.4f}",
                   "2 of 2", "8 of 8"]


def test_what_lies_outside_is_said():
    assert cells([FLOAT32, BFLOAT16], curves(0.25))[1][-2:] == ["0 of 2", "0 of 8"]


def test_a_shorter_setting_is_compared_at_its_end():
    short = {**curves(0.0), "mixed_float16": {1: run(0.1, updates=10, marks=(10,))}}
    row = cells([FLOAT32, Plan("mixed_float16", 10, (1,))], short)[1]
    assert row[4:6] == ["3.1000", "+0.0000"] and row[-2:] == ["1 of 1", "2 of 2"]


@pytest.mark.parametrize("text", ["float32", "float32:10", "float32:ten:1", "float32:10:", "float32:0:1", ":10:1"])
def test_bad_settings_are_refused(text):
    with pytest.raises(UserError, match="--settings"):
        parse_plan(text)


@pytest.mark.parametrize("settings", [["float32:20:1"], ["mixed:20:1"], ["float32:20:1,2", "mixed:20:3"],
                                      ["float32:20:1,2", "mixed:30:1"]])
def test_the_reference_has_what_it_is_compared_with(settings):
    with pytest.raises(UserError, match="float32 with at least two seeds"):
        main(["--config_file=config.py", "--folder=curves", "--settings", *settings])


@pytest.fixture
def calls(monkeypatch):
    """The runs that are made: settings' overrides, seeds and marks."""
    trained = []

    def call(function, config_file, overrides, seed, marks):
        trained.append((overrides[-1], seed, marks))
        return run(0.1 * seed, marks[-1], marks)

    monkeypatch.setattr(precision_curves, "call", call)
    return trained


def test_complete_runs_are_kept(tmp_path, calls):
    first = run_missing(tmp_path, [Plan("float32", 20, (1, 2))], "config.py", ["--x=1"])
    assert calls == [("--dtype=float32", 1, [20]), ("--dtype=float32", 2, [20])]
    again = run_missing(tmp_path, [Plan("float32", 20, (1, 2, 3))], "config.py", ["--x=1"])
    assert calls[2:] == [("--dtype=float32", 3, [20])]
    assert {seed: again["float32"][seed] for seed in (1, 2)} == first["float32"]
    run_missing(tmp_path, [Plan("float32", 20, (1,)), Plan("mixed/none", 10, (1,))], "config.py", ["--x=1"])
    assert [marks for _, _, marks in calls[3:]] == [[10, 20], [10]]  # at the end of the shorter runs, too
    assert not list(tmp_path.glob("*.part"))
    with pytest.raises(UserError, match="another config"):
        run_missing(tmp_path, [FLOAT32], "config.py", ["--x=2"])


def test_skipped_steps_are_no_updates():
    hook, trainer = CurveHook([2, 3]), SimpleNamespace(last_step=100)
    hook.evaluation = type("Evaluation", (), {"run": lambda self: {"val_loss": 7.0}})()
    for loss, applied in [(9.0, False), (3.0, True), (2.0, True)]:
        hook.after_step(trainer, {"loss": loss, "applied": applied, "skipped": 1})
    assert trainer.last_step == 100
    hook.after_step(trainer, {"loss": 1.0, "applied": True, "skipped": 1})
    assert hook.curve == Curve([3.0, 2.0, 1.0], {2: 7.0, 3: 7.0}, 1) and trainer.last_step == 3
