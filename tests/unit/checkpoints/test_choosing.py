"""Which checkpoint inference uses, and which ones are averaged."""

from __future__ import annotations

import dataclasses
import math
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.checkpoints import load_checkpoint, note_metrics, of_one_stretch, read_state, write_snapshot
from open_seq2seq.checkpoints.choosing import for_inference, offered
from open_seq2seq.checkpoints.run_saver import RunSaver
from open_seq2seq.checkpoints.run_variables import RunPosition
from open_seq2seq.optimizers.lr_policies import checksum_of_rates, has_jump, make_schedule
from open_seq2seq.utils.errors import CheckpointError

PLACES = {"latest": "model.ckpt-9", "averaged": "averaged_models/model.ckpt-9", "best": "best_models/val_loss=1-step-5"}
AVERAGES = {"average_checkpoints": 3}


@pytest.fixture
def write(tmp_path, make_snapshot):
    """Writes a checkpoint of each kind with a metric of its own, or none if that is None."""

    def make(run: str = "", **values: float | None) -> Path:
        for kind, value in values.items():
            path = tmp_path / "run" / PLACES[kind]
            snapshot = make_snapshot(5 if kind == "best" else int(path.name[-1]), run)
            snapshot.state.pop("metrics")
            write_snapshot(snapshot, path)
            if value is not None:
                note_metrics(path, {"val_loss": value, "BLEU": -value})
        return tmp_path / "run"

    return make


@pytest.mark.parametrize(("values", "chosen"), [
    ({"latest": 2.0, "averaged": 1.0, "best": 1.5}, "averaged"), ({"latest": 1.0, "averaged": 1.2}, "latest"),
    ({"latest": 2.0, "averaged": 1.6, "best": 1.5}, "best"), ({"latest": 2.0, "best": 1.5}, "best"),
    ({"latest": 1.5, "best": 1.5}, "latest"), ({"latest": None, "best": 1.5}, "latest"),
    ({"latest": None, "averaged": 9.0, "best": 1.5}, "averaged"), ({"latest": math.nan, "best": 1.5}, "latest"),
    ({"latest": 2.0, "averaged": None}, "averaged"), ({"latest": None}, "latest"),
])
def test_the_metric_decides_and_the_choice_is_printed(write, capsys, values, chosen):
    folder = write(**values)
    assert offered(folder, AVERAGES).kind == chosen
    assert offered(folder, {**AVERAGES, "best_metric": "BLEU", "best_metric_mode": "max"}).kind == chosen
    assert for_inference(folder, AVERAGES).path == folder / PLACES[chosen]
    out = capsys.readouterr().out
    assert f"from the {chosen} checkpoint" in out
    known = all(value is not None and not math.isnan(value) for value in values.values())
    assert ("Chosen by val_loss among: " in out) == (known and len(values) > 1)
    assert (" is known for: " in out) == (not known and len(values) > 1)


def test_what_the_user_asks_for_comes_first(write):
    folder = write(latest=1.0, averaged=2.0, best=1.5)
    assert offered(folder, {**AVERAGES, "restore_best_checkpoint": True}).kind == "best"
    assert offered(folder, {}).kind == "latest"  # the average was not asked for
    assert offered(folder / PLACES["best"], AVERAGES).paths == [folder / PLACES["best"]]


def test_the_best_model_is_not_always_the_latest_of_them(tmp_path, make_snapshot):
    for name in ("val_loss=3.0000-step-130", "val_loss=2.5000-step-120", "BLEU=9.0-step-140"):
        write_snapshot(make_snapshot(int(name[-3:]), ""), tmp_path / "best_models" / name)
    params = {"restore_best_checkpoint": True, "best_metric": "val_loss"}
    for mode, steps in (("min", [120, 130, 140]), ("max", [130, 120, 140])):
        paths = offered(tmp_path, {**params, "best_metric_mode": mode}).paths
        assert [int(path.name.rpartition("-")[2]) for path in paths] == steps


def test_best_models_are_compared_by_more_decimals_than_their_names_have(tmp_path, make_snapshot):
    for step, value in ((900, 0.00012), (1000, 0.00014)):
        snapshot = make_snapshot(step)
        snapshot.state["metrics"] = {"val_loss": value}
        write_snapshot(snapshot, tmp_path / "best_models" / f"val_loss={value:.4f}-step-{step}")
    paths = offered(tmp_path, {"restore_best_checkpoint": True}).paths
    assert [path.name for path in paths] == ["val_loss=0.0001-step-900", "val_loss=0.0001-step-1000"]


def test_the_later_of_two_best_models_with_equal_names_is_better(tmp_path, make_snapshot):
    params = {"best_metric": "WER", "best_metric_mode": "min", "num_checkpoints": 2, "average_checkpoints": None}
    saver = RunSaver(tmp_path, "run", params, "", SimpleNamespace(data={}, contents=dict))
    for step in (900, 1000):
        write_snapshot(make_snapshot(step), tmp_path / "best_models" / f"WER=0.0001-step-{step}")
    assert saver.best_result() == ("WER", 0.0001, 1000)


def test_checkpoints_of_another_run_do_not_count(write):
    folder = write(run="earlier", averaged=0.1, best=0.2)
    write(run="later", latest=1.0)
    assert offered(folder, AVERAGES).kind == "latest"


def test_an_average_from_before_the_run_went_on_is_not_used_unseen(write, make_snapshot):
    folder = write(latest=2.0, averaged=1.0)
    write_snapshot(make_snapshot(12), folder / "model.ckpt-12")  # its metrics have another name
    assert offered(folder, {**AVERAGES, "best_metric": "BLEU"}).kind == "latest"


def test_metrics_are_added_to_a_checkpoint_and_to_nothing_else(write, tmp_path):
    folder = write(latest=None)
    before = load_checkpoint(folder / PLACES["latest"])
    note_metrics(before.path, {"BLEU": 3.5})
    after = load_checkpoint(before.path)
    assert after.state == {**before.state, "metrics": {"BLEU": 3.5}} and after.checksums == before.checksums
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "state.json").write_text("mine")
    with pytest.raises(CheckpointError):
        note_metrics(tmp_path / "mine", {"BLEU": 3.5})
    assert (tmp_path / "mine" / "state.json").read_text() == "mine"


def test_a_stretch_ends_where_the_rate_changes(tmp_path, make_snapshot):
    paths = [tmp_path / f"model.ckpt-{step}" for step in (9, 8, 7, 6)]
    for path, rates in zip(paths, ("b", "b", "a", "a"), strict=True):
        snapshot = make_snapshot(int(path.name[-1]))
        write_snapshot(dataclasses.replace(snapshot, state={**snapshot.state, "rates": rates}), path)
    assert of_one_stretch(paths) == 2 and of_one_stretch(paths[2:]) == 2
    assert of_one_stretch(paths, lambda first, last: last == 9) == 1
    skipped = {**load_checkpoint(paths[0]).state, "updates": 5}  # four of its steps were skipped
    write_snapshot(dataclasses.replace(make_snapshot(9), state=skipped), paths[0])
    assert of_one_stretch(paths, lambda first, last: last == 9) == 2
    (paths[0] / "state.json").write_text("damaged")  # its successor decides; the average reports it
    assert of_one_stretch(paths) == 2


def test_the_last_checkpoint_has_the_metrics_of_an_evaluation_before_it_was_saved(tmp_path):
    """The last step is evaluated first if it is one of ``eval_steps``, but not of ``save_checkpoint_steps``."""
    params = {"best_metric": "WER", "best_metric_mode": "min", "num_checkpoints": 2, "average_checkpoints": None}
    saver = RunSaver(tmp_path, "run", params, "", SimpleNamespace(data={}, contents=dict))
    variables = SimpleNamespace(weights={"w": np.ones(2, np.float32)}, optimizer=SimpleNamespace(state=dict))
    for step, metrics in ((3, {"WER": 1.0}), (4, {"WER": 1.0}), (5, None)):
        position = RunPosition(step, 0, step, 1, 1, {}, None)
        if metrics is not None:
            saver.offer_best(position, variables, metrics)
        saver.save(position, variables, {})
    saver.wait()
    assert [path.name for path in (tmp_path / "best_models").iterdir()] == ["WER=1.0000-step-3"]  # 4 is not better
    assert read_state(tmp_path / "model.ckpt-4")["metrics"] == {"WER": 1.0}
    assert "metrics" not in read_state(tmp_path / "model.ckpt-5")


def test_a_resumed_run_removes_what_a_killed_one_kept_too_long(tmp_path, make_snapshot):
    params = {"best_metric": "WER", "best_metric_mode": "min", "num_checkpoints": 1, "average_checkpoints": None}
    best = tmp_path / "best_models"
    for step, score in ((2, 0.5), (4, 0.25)):  # as if it had been killed before it removed the older ones
        write_snapshot(make_snapshot(step, "run"), tmp_path / f"model.ckpt-{step}")
        write_snapshot(make_snapshot(step, "run"), best / f"WER={score:.4f}-step-{step}")
    write_snapshot(make_snapshot(1, "other"), tmp_path / "model.ckpt-1")
    saver = RunSaver(tmp_path, "run", params, "", SimpleNamespace(data={}, contents=dict))
    saver.resume(4)
    assert sorted(path.name for path in tmp_path.glob("model*")) == ["model.ckpt-1", "model.ckpt-4"]
    assert [path.name for path in best.iterdir()] == ["WER=0.2500-step-4"] and saver.saved_step == 4


def test_jumps_of_a_schedule_are_found_and_slopes_are_not():
    steep = {"learning_rate": 1.0, "boundaries": [30], "decay_rates": [0.1]}
    schedule = make_schedule("piecewise_constant", steep, 100)
    assert has_jump(schedule, 0, 100) and has_jump(schedule, 20, 40)
    # The checkpoint at 31 is the result of updates 0 to 30, the last with the old rate; update 31 has the new one.
    assert not has_jump(schedule, 0, 31) and has_jump(schedule, 31, 100) and not has_jump(schedule, 32, 100)
    staircase = {"learning_rate": 1.0, "decay_steps": 1000, "decay_rate": 0.5, "use_staircase_decay": True}
    falling = make_schedule("exp_decay", staircase, 3000)
    jumps = [has_jump(falling, first, first + 100) for first in range(800, 1300, 100)]
    assert sum(jumps) == 1 and not has_jump(schedule, 31, 31)
    for policy, arguments in (("poly_decay", {}), ("cosine_decay", {}), ("fixed_lr", {}),
                              ("transformer_policy", {"d_model": 8, "warmup_steps": 300})):
        slope = make_schedule(policy, {"learning_rate": 1.0, **arguments}, 1000)
        assert not has_jump(slope, 0, 1000) and not has_jump(slope, 990, 1000), policy
    assert not has_jump(schedule, 7, 7)


def test_schedules_differ_as_their_rates_do():
    def checksum(last: int, policy: str = "poly_decay", **arguments: float) -> str:
        return checksum_of_rates(make_schedule(policy, {"learning_rate": 0.5, **arguments}, last))

    assert checksum(100) == checksum(100) != checksum(200)
    assert checksum(100, decay_steps=70) == checksum(200, decay_steps=70) != checksum(200, decay_steps=71)
    assert checksum(100, "fixed_lr") == checksum(200, "fixed_lr") != checksum(200, "fixed_lr", learning_rate=0.4)

    def table(step: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant([1.0, 0.5]), step)  # fails from step 2 on

    assert checksum_of_rates(table) != checksum_of_rates(lambda step: table(tf.minimum(step, 1)))


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_files_have_the_mode_of_the_umask(tmp_path, make_snapshot, umask):
    before = os.umask(umask)
    try:
        write_snapshot(make_snapshot(3), tmp_path / "model.ckpt-3")
        note_metrics(tmp_path / "model.ckpt-3", {"BLEU": 1.0})
    finally:
        os.umask(before)
    for place, folders, files in os.walk(tmp_path / "model.ckpt-3"):
        modes = {name: stat.S_IMODE(os.stat(os.path.join(place, name)).st_mode) for name in (*folders, *files)}
        assert modes == {**dict.fromkeys(folders, 0o777 & ~umask), **dict.fromkeys(files, 0o666 & ~umask)}
    assert stat.S_IMODE((tmp_path / "model.ckpt-3").stat().st_mode) == 0o777 & ~umask
    assert read_state(tmp_path / "model.ckpt-3")["metrics"] == {"BLEU": 1.0}
