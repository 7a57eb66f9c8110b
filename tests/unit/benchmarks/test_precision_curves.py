"""Curves are compared at equal seeds and updates, and runs are kept between calls."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measuring.comparison import compare, table_rows
from benchmarks.measuring.curves import CurveHook, Loss, LossFile, Plan, RunComplete, parse_plan
from benchmarks.precision_curves import draw, main, report
from open_seq2seq.utils.errors import UserError

FLOAT32, BFLOAT16 = Plan("float32", 20, (1, 2, 3)), Plan("mixed_bfloat16", 20, (1, 3))


def run(setting, seed, offset, updates=20, marks=(10, 20)):
    train = [Loss(setting, seed, "train", update, 5.0 - 0.1 * update + offset) for update in range(1, updates + 1)]
    return [*train, *(Loss(setting, seed, "validation", mark, 4.0 - 0.1 * mark + offset) for mark in marks),
            Loss(setting, seed, "skipped", updates, 2)]


def losses(offset):
    """Reference seeds 0.1 apart, and a setting that lies ``offset`` above the same seed."""
    reference = [loss for seed in (1, 2, 3) for loss in run("float32", seed, 0.1 * seed)]
    return reference + [loss for seed in (1, 3) for loss in run("mixed_bfloat16", seed, 0.1 * seed + offset)]


def test_differences_are_paired_and_the_band_is_two_deviations():
    rows = compare(losses(0.05), [FLOAT32, BFLOAT16], window=5)
    assert [row.verdict for row in rows] == ["reference", "all within"]
    found = rows[1]
    assert found.plan.seeds == (1, 3) and found.skipped == 4 and len(found.train) == 2 * 4
    for difference in found.validation + found.train:
        assert difference.value == pytest.approx(0.05)
        assert difference.band == pytest.approx(2 * np.std([0.1, 0.2, 0.3], ddof=1))
    cells = table_rows(rows)[1]
    assert cells[4:7] == ["2.2500", "+0.0500", "+0.0500 … +0.0500"] and cells[8] == "8 of 8"


def test_what_lies_outside_is_said():
    rows = compare(losses(0.25), [FLOAT32, BFLOAT16], window=5)
    assert rows[1].verdict == "outside: 2 of 2 validation losses, 8 of 8 windows"


def test_a_shorter_setting_is_compared_at_its_end():
    short = [*losses(0.0), *run("mixed_float16", 1, 0.1, updates=10, marks=(10,))]
    row = compare(short, [FLOAT32, Plan("mixed_float16", 10, (1, 2))], window=5)[1]
    assert [d.update for d in row.validation] == [10] and [d.update for d in row.train] == [5, 10]
    assert row.plan.seeds == (1,) and row.validation[0].value == pytest.approx(0.0)


def test_settings_without_runs_are_left_out_and_none_is_an_error(tmp_path):
    assert len(compare(losses(0.0), [FLOAT32, Plan("mixed_float16", 10, (1,))], window=5)) == 1
    with pytest.raises(UserError, match="no complete run"):
        report(LossFile(tmp_path / "losses.csv", "config"), [FLOAT32], 5)


@pytest.mark.parametrize("text", ["float32", "float32:10", "float32:ten:1", "float32:10:", "float32:0:1", ":10:1"])
def test_bad_settings_are_refused(text):
    with pytest.raises(UserError, match="--settings"):
        parse_plan(text)


def test_settings_are_read():
    plan = parse_plan("mixed_float16/LogMax:40:1,2")
    assert plan == Plan("mixed_float16/LogMax", 40, (1, 2))
    assert plan.overrides == ["--dtype=mixed_float16", "--loss_scaling=LogMax"]


def test_the_file_keeps_complete_runs(tmp_path):
    file = LossFile(tmp_path / "a" / "losses.csv", "config --x=1")
    file.replace("float32", 1, run("float32", 1, 0.1))
    file.replace("float32", 2, run("float32", 2, 0.2))
    file.replace("float32", 1, run("float32", 1, 0.3))
    again = LossFile(tmp_path / "a" / "losses.csv", "config --x=1")
    assert again.losses == file.losses and len(again.losses) == 2 * 23
    assert again.has("float32", 1, [10, 20]) and not again.has("float32", 1, [5]) and not again.has("float32", 3, [10])
    with pytest.raises(UserError, match="another config"):
        LossFile(tmp_path / "a" / "losses.csv", "config --x=2")


def test_skipped_steps_are_no_updates():
    hook = CurveHook([2, 3])
    hook.evaluation = type("Evaluation", (), {"run": lambda self: {"val_loss": 7.0}})()
    for loss, applied in [(9.0, False), (3.0, True), (2.0, True)]:
        hook.after_step(None, {"loss": loss, "applied": applied})
    assert (hook.train, hook.validation, hook.skipped) == ([3.0, 2.0], {2: 7.0}, 1)
    with pytest.raises(RunComplete):
        hook.after_step(None, {"loss": 1.0, "applied": True})


def test_a_report_is_made_of_what_is_there(tmp_path, capsys):
    file = LossFile(tmp_path / "losses.csv", "config.py")
    for seed in (1, 2):
        file.replace("float32", seed, run("float32", seed, 0.1 * seed))
    main(["--config_file=config.py", f"--csv={tmp_path}/losses.csv", "--settings", "float32:20:1,2",
          "mixed_bfloat16:20:1", f"--png={tmp_path}/plot.png", f"--output={tmp_path}/table.md", "--report_only"])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "| float32 | 1, 2 | 20 | 4 |" in (tmp_path / "table.md").read_text() == capsys.readouterr().out[:-1]


@pytest.mark.long
def test_the_plot_has_all_settings(tmp_path):
    file = LossFile(tmp_path / "losses.csv", "config.py")
    file.losses = losses(0.05)
    draw(str(tmp_path / "plot.png"), file, compare(file.losses, [FLOAT32, BFLOAT16], 5), 5)
    assert (tmp_path / "plot.png").stat().st_size > 5000
