"""Checkpoints survive crashes, full disks and bit rot, come back bit by bit, and fit variables by name and shape."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.checkpoints import (
    Checkpointer,
    Snapshot,
    assign_matching,
    assign_strictly,
    first_whole,
    load_checkpoint,
    write_snapshot,
    writing,
)
from open_seq2seq.checkpoints.folders import list_checkpoints
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import CheckpointError


def step_of(name: str) -> float | None:
    match = re.match(r"model\.ckpt-(\d+)$", name)
    return float(match[1]) if match else None


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        one[k].dtype == other[k].dtype and one[k].shape == other[k].shape and one[k].tobytes() == other[k].tobytes()
        for k in one)


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_round_trip_is_exact(logdir, make_snapshot):
    snapshot = make_snapshot(7)
    write_snapshot(snapshot, logdir / "model.ckpt-7")
    assert names(logdir) == ["model.ckpt-7"]
    loaded = load_checkpoint(logdir / "model.ckpt-7")
    assert same_bits(loaded.weights, snapshot.weights) and same_bits(loaded.optimizer, snapshot.optimizer)
    assert snapshot.state.items() <= loaded.state.items()
    assert loaded.config_yaml == snapshot.config_yaml
    assert (loaded.path / "assets/vocab.txt").read_text(encoding="utf-8") == "ä\nb\n"
    assert loaded.path == logdir / "model.ckpt-7"


def test_snapshot_is_of_the_moment_it_was_taken(logdir, monkeypatch):
    variable, array = tf.Variable(tf.ones([1000, 100])), np.ones(5, np.float32)
    may_write = threading.Event()
    write_files = writing._write_files
    monkeypatch.setattr(writing, "_write_files", lambda *args: (may_write.wait(300), write_files(*args)))
    checkpointer = Checkpointer(logdir, 3, step_of)
    state = {"step": 1}
    checkpointer.save("model.ckpt-1", Snapshot.take({"v": variable, "a": array}, {}, state, "", {}))
    variable.assign_add(tf.ones_like(variable))
    array += 1
    state["step"] = 2
    assert not (logdir / "model.ckpt-1").exists()  # it is written in the background
    may_write.set()
    checkpointer.wait()
    loaded = load_checkpoint(logdir / "model.ckpt-1")
    assert (loaded.weights["v"] == 1).all() and (loaded.weights["a"] == 1).all() and loaded.state["step"] == 1


@pytest.mark.parametrize("keep", [0, 10])  # 0 keeps all
def test_writes_follow_one_another(logdir, make_snapshot, keep):
    checkpointer = Checkpointer(logdir, keep, step_of)
    for step in range(1, 6):
        checkpointer.save(f"model.ckpt-{step}", make_snapshot(step))
    checkpointer.wait()
    assert names(logdir) == [f"model.ckpt-{step}" for step in range(1, 6)]


def test_last_ones_are_kept(logdir, make_snapshot):
    checkpointer = Checkpointer(logdir, 2, step_of)
    (logdir / "best_models").mkdir(parents=True)
    (logdir / "model.ckpt-notes.txt").write_text("mine")
    for step in (8, 9, 10, 11):
        checkpointer.save(f"model.ckpt-{step}", make_snapshot(step))
    checkpointer.wait()
    assert names(logdir) == ["best_models", "model.ckpt-10", "model.ckpt-11", "model.ckpt-notes.txt"]


@pytest.mark.parametrize("keep", [1, 2])
def test_what_was_just_written_outlives_a_damaged_newer_one(logdir, make_snapshot, keep):
    """A run that had to go back from step 100 to 80 must keep what it makes from there, and the weights of 100."""
    for step in (80, 100):
        write_snapshot(make_snapshot(step), logdir / f"model.ckpt-{step}")
    (logdir / "model.ckpt-100" / "weights.safetensors").write_bytes(b"")
    checkpointer = Checkpointer(logdir, keep, step_of)
    checkpointer.save("model.ckpt-90", make_snapshot(90))
    checkpointer.wait()
    assert set(names(logdir)) == {"model.ckpt-100", *["model.ckpt-80", "model.ckpt-90"][2 - keep:]}
    for step in (100, 110):
        checkpointer.save(f"model.ckpt-{step}", make_snapshot(step))
    checkpointer.wait()
    assert names(logdir) == ["model.ckpt-100", "model.ckpt-110"][2 - keep:]
    assert load_checkpoint(logdir / "model.ckpt-110").state["step"] == 110


def damage_truncate(folder: Path, file: str) -> None:
    (folder / file).write_bytes((folder / file).read_bytes()[:-3])


def damage_flip(folder: Path, file: str) -> None:
    content = bytearray((folder / file).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / file).write_bytes(content)


def damage_remove(folder: Path, file: str) -> None:
    (folder / file).unlink()


@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_remove])
@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "state.json", "config.yaml",
                                  "assets/vocab.txt"])
def test_damaged_one_is_reported_and_the_one_before_used(logdir, make_snapshot, capsys, damage, file):
    paths = [logdir / f"model.ckpt-{step}" for step in (2, 1)]
    for path, step in zip(paths, (2, 1), strict=True):
        write_snapshot(make_snapshot(step), path)
    damage(paths[0], file)
    assert first_whole(paths, load_checkpoint).state["step"] == 1
    printed = capsys.readouterr().out
    assert str(paths[0]) in printed and Path(file).name in printed
    assert printed.count("\n") == 1


def test_every_byte_of_the_state_is_guarded(logdir, make_snapshot):
    folder = logdir / "model.ckpt-2"
    write_snapshot(make_snapshot(2), folder)
    text = (folder / "state.json").read_text()
    for old, new in (('"step": 2', '"step": 3'), ('"random_seed": 3', '"random_seed": 4')):
        assert old in text
        (folder / "state.json").write_text(text.replace(old, new))
        with pytest.raises(CheckpointError, match="state.json is truncated or altered"):
            load_checkpoint(folder)


@pytest.mark.parametrize("content", ["", "[]", "3", "null", "{}", '{"format": 1}', '{"format": "x"}', "\0\0"])
def test_state_of_another_form(logdir, make_snapshot, content):
    folder = logdir / "model.ckpt-2"
    write_snapshot(make_snapshot(2), folder)
    (folder / "state.json").write_text(content)
    with pytest.raises(CheckpointError, match="model.ckpt-2"):
        load_checkpoint(folder)


def test_newer_format_is_refused(logdir, make_snapshot):
    folder = logdir / "model.ckpt-2"
    write_snapshot(make_snapshot(2), folder)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "format": 99}))
    with pytest.raises(CheckpointError, match="newer version"):
        load_checkpoint(folder)


def test_none_whole_or_none_at_all(tmp_path):
    with pytest.raises(CheckpointError, match="No intact checkpoint is left"):
        first_whole([tmp_path / "model.ckpt-1"], load_checkpoint)
    with pytest.raises(CheckpointError, match="no checkpoint to read"):
        first_whole([], load_checkpoint)


def test_full_disk_is_told_at_the_next_call_and_costs_nothing(logdir, make_snapshot, monkeypatch):
    checkpointer = Checkpointer(logdir, 1, step_of)
    checkpointer.save("model.ckpt-1", make_snapshot(1))
    checkpointer.wait()

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_new", full)
        checkpointer.save("model.ckpt-2", make_snapshot(2))
        with pytest.raises(CheckpointError, match="No space left on device.*--continue_learning: .* or begins anew"):
            checkpointer.save("model.ckpt-3", make_snapshot(3))
        with pytest.raises(CheckpointError, match=r"could not be written: No space left on device\.$"):
            write_snapshot(make_snapshot(3), logdir / "average")  # of a script, which does not train
    assert names(logdir) == ["model.ckpt-1"]
    assert load_checkpoint(logdir / "model.ckpt-1").state["step"] == 1
    checkpointer.wait()  # told once
    checkpointer.save("model.ckpt-4", make_snapshot(4))  # and usable again
    checkpointer.wait()
    assert names(logdir) == ["model.ckpt-4"]


def test_missing_asset_is_named(logdir, make_snapshot):
    snapshot = make_snapshot(1)
    snapshot.assets["gone.model"] = "/nowhere/gone.model"
    with pytest.raises(CheckpointError, match="No such file or directory: /nowhere/gone.model"):
        write_snapshot(snapshot, logdir / "model.ckpt-1")
    assert names(logdir) == []


class Killed(BaseException):
    """Ends a write as a kill does: nothing is cleaned up."""


def test_killed_within_a_write_of_a_model_without_assets(logdir, make_snapshot, monkeypatch):
    """The weights are half written to a file that safetensors named; a sample and the metrics are unfinished, too."""
    def save_file(arrays, path):
        (Path(path).parent / ".tmpaB3xYz").write_bytes(b"half")
        raise Killed

    def killed(*args):
        raise Killed

    write_snapshot(make_snapshot(1), logdir / "model.ckpt-1")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("safetensors.numpy.save_file", save_file)
        patch.setattr(shutil, "rmtree", killed)
        write_snapshot(dataclasses.replace(make_snapshot(2), assets={}), logdir / "model.ckpt-2")
    for folder in ("samples/step-1", "best_models", "model.ckpt-1"):
        (logdir / folder).mkdir(parents=True, exist_ok=True)
        (logdir / folder / f".tmp-{'0' * 16}.new.json").touch()
    Checkpointer(logdir, 3, step_of)  # the next run
    assert not list(logdir.rglob(".tmp*")) and names(logdir) == ["best_models", "model.ckpt-1", "samples"]


def test_checkpoints_without_assets_are_replaced_and_removed(logdir, make_snapshot):
    checkpointer = Checkpointer(logdir, 1, step_of)
    for step in (1, 1, 2):
        checkpointer.save(f"model.ckpt-{step}", dataclasses.replace(make_snapshot(step), assets={}))
    checkpointer.wait()
    assert names(logdir) == ["model.ckpt-2"]
    assert load_checkpoint(logdir / "model.ckpt-2").assets == {}


def test_one_of_the_same_name_is_replaced_or_stays(logdir, make_snapshot, monkeypatch):
    folder = logdir / "model.ckpt-1"
    write_snapshot(make_snapshot(1), folder)
    again = make_snapshot(1)
    again.state["epoch"] = 2
    write_snapshot(again, folder)
    assert load_checkpoint(folder).state["epoch"] == 2
    rename, calls = os.rename, []

    def refuse_second(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse_second)
        with pytest.raises(CheckpointError):
            write_snapshot(make_snapshot(3), folder)
    assert names(logdir) == ["model.ckpt-1"] and load_checkpoint(folder).state["epoch"] == 2


def test_everything_is_synced_before_the_rename(logdir, make_snapshot, monkeypatch):
    events: list[str] = []
    sync, rename = disk._sync, os.rename
    monkeypatch.setattr(disk, "_sync", lambda path: (events.append(f"sync {Path(path).name}"), sync(path)))
    monkeypatch.setattr(os, "rename", lambda *args: (events.append("rename"), rename(*args)))
    write_snapshot(make_snapshot(1), logdir / "model.ckpt-1")
    before, after = events[:events.index("rename")], events[events.index("rename"):]
    files = {"weights.safetensors", "optimizer.safetensors", "state.json", "config.yaml", "vocab.txt", "assets"}
    assert {f"sync {name}" for name in files} < set(before)
    assert after == ["rename", "sync run"]


def test_old_one_that_cannot_be_removed_is_no_reason_to_stop(logdir, make_snapshot, monkeypatch, capsys):
    checkpointer = Checkpointer(logdir, 1, step_of)
    checkpointer.save("model.ckpt-1", make_snapshot(1))
    checkpointer.wait()
    rename = os.rename

    def refuse_old(source, target):
        if Path(source).name == "model.ckpt-1":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_old)
    checkpointer.save("model.ckpt-2", make_snapshot(2))
    checkpointer.wait()
    assert "could not be removed: Permission denied" in capsys.readouterr().out
    assert names(logdir) == ["model.ckpt-1", "model.ckpt-2"]


def test_reading_executes_nothing(logdir, make_snapshot):
    """A pickle in the place of the weights, checksums and all, is refused by the format."""
    import pickle

    snapshot = make_snapshot(1)
    write_snapshot(snapshot, logdir / "model.ckpt-1")
    folder = logdir / "model.ckpt-1"
    (folder / "weights.safetensors").write_bytes(pickle.dumps(print))
    state = json.loads((folder / "state.json").read_text())
    state["sha256"]["weights.safetensors"] = writing.sha256(folder / "weights.safetensors")
    state["state_sha256"] = writing.state_checksum(state)
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(folder)


def entries(folder: Path) -> dict[str, str | bytes]:
    """Everything below a folder: contents of files, targets of links."""
    return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def test_a_run_removes_no_checkpoint_of_another_run(logdir, make_snapshot, capsys):
    for step in (1, 2, 5):
        write_snapshot(make_snapshot(step, "first"), logdir / f"model.ckpt-{step}")
    before = entries(logdir)
    checkpointer = Checkpointer(logdir, 1, step_of, "second")
    for step in (3, 4, 5, 6):
        checkpointer.save(f"model.ckpt-{step}", make_snapshot(step, "second"))
    checkpointer.wait()
    assert names(logdir) == ["model.ckpt-1", "model.ckpt-2", "model.ckpt-5.aside", "model.ckpt-6"]
    after = {name.replace(".aside", ""): content for name, content in entries(logdir).items()}
    assert before.items() <= after.items() and "renamed to model.ckpt-5.aside" in capsys.readouterr().out


def test_what_is_no_checkpoint_is_neither_counted_nor_removed(logdir, make_snapshot, tmp_path):
    """Its name does not make a folder a checkpoint, nor does a file that says so."""
    write_snapshot(make_snapshot(1), tmp_path / "elsewhere")
    (logdir / "model.ckpt-1").mkdir(parents=True)
    (logdir / "model.ckpt-1/thesis.tex").write_text("dear")
    (logdir / "model.ckpt-2").write_text("mine")
    (logdir / "model.ckpt-3").symlink_to(tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", logdir / "model.ckpt-4")
    (logdir / "model.ckpt-4/state.json").write_text("{}")
    (logdir / ".tmp-notes").mkdir()
    (logdir / ".tmp-notes/state.json").write_text("{}")
    (logdir / ".tmp-replaced-x").write_text("mine")
    before = {**entries(logdir), **entries(tmp_path / "elsewhere")}
    checkpointer = Checkpointer(logdir, 1, step_of)
    for step in range(1, 6):
        checkpointer.save(f"model.ckpt-{step}", make_snapshot(step))
    checkpointer.wait()
    found = {name.replace(".aside", ""): content for name, content in entries(logdir).items()
             if not name.startswith("model.ckpt-5")}
    assert {**found, **entries(tmp_path / "elsewhere")} == before
    assert load_checkpoint(logdir / "model.ckpt-5").state["step"] == 5


@pytest.mark.parametrize("listed", ["notes.txt", "../notes.txt", "assets/../../notes.txt", "assets/link"])
def test_a_users_file_in_a_checkpoint_outlives_it(logdir, make_snapshot, listed):
    """Even where a state, which anybody may have written, says that it is the checkpoint's."""
    folder = logdir / "model.ckpt-1"
    write_snapshot(make_snapshot(1), folder)
    for path in (folder / "notes.txt", logdir / "notes.txt"):
        path.write_text("mine")
    (folder / "assets/link").symlink_to(logdir / "notes.txt")
    state = json.loads((folder / "state.json").read_text())
    state["sha256"][listed] = ""
    state["state_sha256"] = writing.state_checksum(state)
    (folder / "state.json").write_text(json.dumps(state))
    checkpointer = Checkpointer(logdir, 1, step_of)
    checkpointer.save("model.ckpt-2", make_snapshot(2))
    checkpointer.wait()
    assert names(folder) == ["assets", "notes.txt"] and names(folder / "assets") == ["link"]
    assert (logdir / "notes.txt").read_text() == "mine" and names(logdir) == ["model.ckpt-1", "model.ckpt-2",
                                                                              "notes.txt"]


@pytest.mark.parametrize("name", ["model.ckpt-900", "model.ckpt-1", "val_loss=0.5000-step-3"])
def test_a_folder_whose_name_says_another_step_is_passed_over(logdir, make_snapshot, capsys, name):
    write_snapshot(make_snapshot(5), logdir / name)
    write_snapshot(make_snapshot(4), logdir / "model.ckpt-4")
    assert first_whole([logdir / name, logdir / "model.ckpt-4"], load_checkpoint).state["step"] == 4
    assert f"{name} gives step" in capsys.readouterr().out


def test_one_without_its_state_is_listed_and_passed_over(logdir, make_snapshot, capsys):
    for step in (4, 5):
        write_snapshot(make_snapshot(step), logdir / f"model.ckpt-{step}")
    (logdir / "model.ckpt-5" / "state.json").unlink()
    (logdir / "model.ckpt-7").mkdir()
    (logdir / "model.ckpt-7" / "notes.txt").write_text("somebody's", encoding="utf-8")
    assert first_whole(list_checkpoints(logdir), load_checkpoint).state["step"] == 4
    out = capsys.readouterr().out
    assert out.count("WARNING") == 1 and "model.ckpt-5" in out and "state.json" in out


@pytest.mark.parametrize(("place", "resuming", "refused"), [("weights", False, True), ("optimizer", False, False),
                                                            ("optimizer", True, True)])
def test_numbers_that_are_not_finite_are_named(logdir, make_snapshot, place, resuming, refused):
    snapshot = make_snapshot(1)
    del snapshot.optimizer["odd"]
    name = next(name for name in getattr(snapshot, place) if name.endswith("kernel"))
    getattr(snapshot, place)[name][-1, -1] = np.inf
    write_snapshot(snapshot, logdir / "model.ckpt-1")
    checkpoint = load_checkpoint(logdir / "model.ckpt-1")
    if not refused:
        checkpoint.check_finite(resuming)
        return
    with pytest.raises(CheckpointError, match=f"{name} contains inf or NaN"):
        checkpoint.check_finite(resuming)


PATH = Path("run/model.ckpt-5")


def variables() -> dict[str, tf.Variable]:
    return {"encoder/kernel": tf.Variable(tf.zeros([2, 3])), "encoder/embedding/table": tf.Variable(tf.zeros([32, 4])),
            "updates": tf.Variable(0, dtype=tf.int64)}


def values(**changed: np.ndarray) -> dict[str, np.ndarray]:
    return {"encoder/kernel": np.ones([2, 3], np.float32), "encoder/embedding/table": np.ones([32, 4], np.float32),
            "updates": np.array(2 ** 40, np.int64), **changed}


def test_all_fit():
    here = variables()
    assign_strictly(here, values(), PATH)
    for name, value in values().items():
        np.testing.assert_array_equal(here[name], value)


def test_report_of_what_does_not_fit():
    here, there = variables(), values(extra=np.ones(1, np.float32), updates=np.zeros([2], np.int64))
    del there["encoder/kernel"]
    report = assign_matching(here, there)
    assert report.assigned == ["encoder/embedding/table"]
    assert report.missing == ["encoder/kernel"] and report.unused == ["extra"]
    assert report.shapes == {"updates": ((), (2,))}
    lines = "\n".join(report.lines())
    assert all(name in lines for name in ("encoder/kernel", "extra", "updates"))
    assert float(tf.reduce_sum(here["encoder/kernel"])) == 0
    assert float(tf.reduce_sum(here["encoder/embedding/table"])) == 128


def test_other_number_type_is_cast():
    here = variables()
    assign_matching(here, values(**{"encoder/kernel": np.full([2, 3], 1.5, np.float16)}))
    np.testing.assert_array_equal(here["encoder/kernel"], np.full([2, 3], 1.5))


def test_strict_names_the_first_and_changes_nothing():
    here = variables()
    there = {f"other_{i}": np.ones(1, np.float32) for i in range(5)}
    there["encoder/kernel"] = np.ones([2, 3], np.float32)
    with pytest.raises(CheckpointError, match=r"encoder/embedding/table: not in the checkpoint.*; and 4 more\..*"
                                              r"run/model.ckpt-5/config.yaml"):
        assign_strictly(here, there, PATH)
    assert float(tf.reduce_sum(here["encoder/kernel"])) == 0


def test_another_vocabulary_is_said_to_be_one():
    there = values(**{"encoder/embedding/table": np.ones([8, 4], np.float32)})
    with pytest.raises(CheckpointError, match="32 rows in the model but 8 in the checkpoint: the vocabularies differ"):
        assign_strictly(variables(), there, PATH)
