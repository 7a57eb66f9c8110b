"""The mean of checkpoints, by function and by script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.checkpoints import average_checkpoints, load_checkpoint, write_snapshot
from open_seq2seq.checkpoints.folders import find_checkpoints, list_checkpoints
from open_seq2seq.utils.errors import CheckpointError
from tests.unit.checkpoints.resealing import reseal

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "average_checkpoints.py"


@pytest.fixture
def run_with_three(tmp_path, make_snapshot) -> Path:
    for step in (1, 2, 3):
        write_snapshot(make_snapshot(step), tmp_path / "run" / f"model.ckpt-{step}")
    return tmp_path / "run"


def script(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True)


def test_equals_numpy(run_with_three, make_snapshot):
    average = average_checkpoints([run_with_three / f"model.ckpt-{step}" for step in (1, 2, 3)])
    for name, value in average.weights.items():
        stack = np.stack([make_snapshot(step).weights[name] for step in (1, 2, 3)])
        expected = stack.astype(np.float64).mean(axis=0).astype(np.float32)
        np.testing.assert_array_equal(value, expected)
        assert value.dtype == np.float32 and value.shape == make_snapshot(1).weights[name].shape
    assert average.state["step"] == 3
    assert average.state["averaged"] == ["model.ckpt-1", "model.ckpt-2", "model.ckpt-3"]


def test_mean_of_equal_weights_is_that_weight(run_with_three, make_snapshot):
    weights = average_checkpoints([str(run_with_three / "model.ckpt-2")] * 7).weights
    for name, value in make_snapshot(2).weights.items():
        np.testing.assert_array_equal(weights[name], value)


def test_counters_are_the_last(tmp_path, make_snapshot):
    for step in (1, 2):
        snapshot = make_snapshot(step)
        snapshot.weights["batches_seen"] = np.array(2 ** 60 + step, np.int64)
        write_snapshot(snapshot, tmp_path / f"model.ckpt-{step}")
    weights = average_checkpoints([tmp_path / "model.ckpt-1", tmp_path / "model.ckpt-2"]).weights
    assert weights["batches_seen"] == 2 ** 60 + 2 and weights["batches_seen"].dtype == np.int64


def test_different_runs_are_refused(run_with_three, make_snapshot):
    other = make_snapshot(4)
    other.weights["encoder/layer_0/kernel"] = np.zeros([1, 1], np.float32)
    write_snapshot(other, run_with_three / "model.ckpt-4")
    with pytest.raises(CheckpointError, match="different variables"):
        average_checkpoints([run_with_three / "model.ckpt-3", run_with_three / "model.ckpt-4"])
    with pytest.raises(CheckpointError, match="no checkpoints"):
        average_checkpoints([])


@pytest.mark.long
def test_script_writes_a_whole_checkpoint(run_with_three, tmp_path):
    output = tmp_path / "averaged"
    result = script(f"--logdir={run_with_three}", "--last=2", f"--output={output}")
    assert result.returncode == 0, result.stderr
    assert list_checkpoints(output) == find_checkpoints(output) == [output / "model.ckpt-3"]
    loaded = load_checkpoint(output / "model.ckpt-3")
    expected = average_checkpoints([run_with_three / "model.ckpt-2", run_with_three / "model.ckpt-3"])
    for name, value in expected.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], value)
    assert (loaded.path / "assets/vocab.txt").is_file() and loaded.config_yaml == expected.config_yaml


@pytest.mark.long
def test_script_warns_of_a_change_of_the_rate(run_with_three, tmp_path):
    for step, rates in ((1, "a"), (2, "b"), (3, "b")):
        reseal(run_with_three / f"model.ckpt-{step}", lambda state, rates=rates: state.update(rates=rates))
    result = script(f"--logdir={run_with_three}", "--last=3", f"--output={tmp_path}/out")
    assert result.returncode == 0, result.stderr
    assert "the learning rate changed after model.ckpt-1" in result.stdout and "give --last=2" in result.stdout


@pytest.mark.long
def test_script_refuses_in_one_sentence(run_with_three, tmp_path):
    """Above all, it never puts the mean in the place of a checkpoint."""
    result = script(f"--logdir={run_with_three}", "--last=2", f"--output={run_with_three}")
    assert result.returncode == 2 and "exists already" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize(("arguments", "message"), [
    (["--last=4", "--logdir={run}"], "contains 3 checkpoints but --last is 4"),
    (["--logdir={run}/none"], "none has no checkpoint"),
    (["--last=0", "--logdir={run}"], "at least 1"),
    ([], "either --logdir or checkpoint folders"),
    (["--logdir={run}", "{run}/model.ckpt-1"], "either --logdir or checkpoint folders"),
    (["--last=1", "{run}/model.ckpt-1"], "--last is only for --logdir"),
])
def test_choosing_checkpoints(run_with_three, arguments, message):
    import importlib.util

    spec = importlib.util.spec_from_file_location("average_checkpoints_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    args = module.parse_args([*(a.format(run=run_with_three) for a in arguments), "--output=x"])
    with pytest.raises(Exception, match=message):
        module.chosen_checkpoints(args)


@pytest.mark.long
def test_all_of_the_folders_named_are_chosen(run_with_three, tmp_path):
    result = script(run_with_three / "model.ckpt-1", run_with_three / "model.ckpt-3", f"--output={tmp_path / 'out'}")
    assert result.returncode == 0, result.stderr
    assert load_checkpoint(tmp_path / "out" / "model.ckpt-3").state["averaged"] == ["model.ckpt-1", "model.ckpt-3"]


def test_moving_averages_are_averaged_beside_the_weights(tmp_path, make_snapshot):
    paths = [tmp_path / f"model.ckpt-{step}" for step in (1, 2)]
    for step, path in enumerate(paths, start=1):
        snapshot = make_snapshot(step)
        snapshot.optimizer["ema/encoder/layer_0/kernel"] = np.full([2, 2], 2.0 * step, np.float32)
        snapshot.optimizer["slots/m/encoder/layer_0/kernel"] = np.full([2, 2], float(step), np.float32)
        write_snapshot(snapshot, path)
        assert list(load_checkpoint(path).averaged_weights) == ["encoder/layer_0/kernel"]
    average = average_checkpoints(paths)
    np.testing.assert_array_equal(average.optimizer["ema/encoder/layer_0/kernel"], np.full([2, 2], 3.0))
    np.testing.assert_array_equal(average.optimizer["slots/m/encoder/layer_0/kernel"], np.full([2, 2], 2.0))
    assert "ema/encoder/layer_0/kernel" not in average.weights
    write_snapshot(make_snapshot(3), tmp_path / "model.ckpt-3")
    with pytest.raises(CheckpointError, match="different variables"):
        average_checkpoints([*paths, tmp_path / "model.ckpt-3"])


def test_damaged_ones_are_named_and_left_out(tmp_path, make_snapshot, capsys):
    paths = [tmp_path / f"model.ckpt-{step}" for step in (1, 2, 3, 4)]
    for step, path in enumerate(paths, start=1):
        write_snapshot(make_snapshot(step), path)
    (paths[0] / "config.yaml").unlink()
    (paths[3] / "state.json").write_text("[]", encoding="utf-8")
    average = average_checkpoints(paths)
    assert average.state["averaged"] == ["model.ckpt-2", "model.ckpt-3"] and average.state["step"] == 3
    expected = average_checkpoints(paths[1:3])
    assert all(np.array_equal(average.weights[name], value) for name, value in expected.weights.items())
    assert capsys.readouterr().out.count("It is left out of the average.") == 2
    with pytest.raises(CheckpointError, match="none of the checkpoints can be used"):
        average_checkpoints([paths[0], paths[3]])
