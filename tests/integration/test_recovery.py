"""Runs that diverge: NaN in the data, overflow in float16, a rate that is far too high; and each policy."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq.utils.errors import ConfigError
from scripts import replay_batch
from tests.integration.conftest import start_process

pytestmark = pytest.mark.long

PARTS = Path(__file__).with_name("diverging_parts.py")
CONFIG = """
parts = {parts!r}
base_model = parts + ":Regression"
base_params = {{
    "logdir": {logdir!r}, "random_seed": 1, "batch_size_per_gpu": 16, "max_steps": 100,
    "print_loss_steps": 1, "save_checkpoint_steps": 25, "num_checkpoints": 9, "eval_steps": 1000,
    "optimizer": "Momentum", "optimizer_params": {{"momentum": 0.5}},
    "lr_policy": "exp_decay", "lr_policy_params": {{"learning_rate": 0.05, "decay_steps": 50, "decay_rate": 0.4,
                         "use_staircase_decay": False}},
    "data_layer": parts + ":Points", "data_layer_params": {{"shuffle": False, "length_buckets": False}},
    "encoder": parts + ":Nothing", "decoder": parts + ":Line", "loss": parts + ":SquaredError",
}}
eval_params = {{}}
"""
NAN = "--train_params/data_layer_params/nan_examples=[900]"  # in batch 57
STORM = ("--dtype=mixed_float16", "--train_params/data_layer_params/storm=[800, 1199]",  # in batches 51 to 75
         "--max_skipped_updates=16", "--max_grad_norm=10")
_CLEAN: list[float] = []  # the loss of the run that nothing disturbs; the same for all tests
TOO_HIGH = ("--lr_policy_params/learning_rate=3", "--divergence_lr_factor=0.02", "--divergence_loss_factor=null")


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "config.py").write_text(CONFIG.format(parts=str(PARTS), logdir=str(tmp_path / "run")))
    return tmp_path


def checkpoint(logdir, step=None):
    """(state, weights, optimizer) of a checkpoint, the newest by default."""
    steps = sorted(int(path.name.split("-")[1]) for path in logdir.glob("model.ckpt-*"))
    folder = logdir / f"model.ckpt-{steps[-1] if step is None else step}"
    return (json.loads((folder / "state.json").read_text()), load_file(folder / "weights.safetensors"),
            load_file(folder / "optimizer.safetensors"))


def assert_all_finite(logdir):
    folders = list(logdir.glob("model.ckpt-*")) + list(logdir.glob("best_models/*"))
    for folder in folders:
        for name in ("weights.safetensors", "optimizer.safetensors"):
            assert all(np.isfinite(array).all() for array in load_file(folder / name).values()), folder
    return folders


def final_loss(output):
    return float(re.findall(r"Validation loss: (\S+)", output)[-1])


@pytest.fixture
def clean_loss(command, workspace):
    if not _CLEAN:
        _CLEAN.append(final_loss(command("--mode=train_eval", f"--logdir={workspace}/clean")[1]))
    return _CLEAN[0]


def test_a_bad_batch_stops_the_run_and_is_named(workspace, command):
    code, out, err = command("--mode=train", NAN, "--enable_logs=False")
    assert code == 2 and "Traceback" not in err and err.count("\n") == 1
    for text in ("diverged at step 57", "the loss is not finite", "points.csv:901", "model.ckpt-50",
                 "run/divergence/step-57"):
        assert text in err, text
    assert "points.csv:901\n" in out and "source_tensors/0" in out and "decoder/kernel" in out
    assert len(assert_all_finite(workspace / "run")) == 2
    event = json.loads((workspace / "run/divergence/step-57/event.json").read_text())
    assert event["ids"] == list(range(896, 912)) and event["updates"] == 56 and event["checkpoint"] == "model.ckpt-50"
    # Nothing has changed, so the same happens again; but the run may go on in another way.
    assert command("--mode=train", NAN, "--continue_learning")[0] == 2
    code, out, err = command("--mode=train", NAN, "--continue_learning", "--on_divergence=roll_back")
    assert code == 0, err
    assert "Resuming training at step 50" in out and "Rolled back to model.ckpt-50" in out


# Lowering the precision is tried on one device below, and how towers go back with the other policy.
@pytest.mark.parametrize("policy", ["roll_back", pytest.param("lower_precision", marks=pytest.mark.slow)])
def test_towers_recover_and_name_the_examples_of_one(workspace, command, policy):
    """The bad example is in batch 57 of the data: in the 29th update of two towers, the first one's."""
    code, out, err = command("--mode=train", NAN, "--num_cpu_towers=2", f"--on_divergence={policy}", "--max_steps=40",
                             "--dtype=mixed_bfloat16")
    assert code == 0, err
    assert "DIVERGED at step 29" in out and "points.csv:901\n" in out
    assert json.loads((workspace / "run/divergence/step-29/event.json").read_text())["ids"] == list(range(896, 912))
    assert "Rolled back to model.ckpt-25" in out or "Continues in float32 from model.ckpt-25" in out
    assert_all_finite(workspace / "run")


@pytest.mark.parametrize("dtype", ["float32", pytest.param("mixed_float16", marks=pytest.mark.slow)])
def test_roll_back_from_a_bad_batch(workspace, command, clean_loss, dtype):
    code, out, err = command("--mode=train_eval", NAN, "--on_divergence=roll_back", f"--dtype={dtype}",
                             "--save_summaries_steps=10", "--summaries=[gradients, loss_scale]")
    assert code == 0, err
    assert final_loss(out) == pytest.approx(clean_loss, rel=0.05)
    state, _, optimizer = checkpoint(workspace / "run")
    assert optimizer["updates"] == 100 and optimizer["rate_factor"] == 0.5
    assert state["step"] == 100 + (57 - 50) + optimizer["skipped"] - 1
    (event,) = state["divergence"]["events"]
    assert (event["step"], event["target_step"]) == (57, 50)
    assert_all_finite(workspace / "run")
    assert ": loss nan" in out and out.rindex(": loss nan") < out.index("DIVERGED at step 57")
    assert scalar(workspace / "run", "divergence_events") == {57: 1.0}


def scalar(logdir, tag):
    """{step: value} of a scalar in TensorBoard's files."""
    import tensorflow as tf
    from tensorboard.compat.proto.event_pb2 import Event

    found = {}
    for path in logdir.glob("events.out.tfevents.*"):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = Event.FromString(record)
            for value in event.summary.value:
                if value.tag == tag:
                    found[event.step] = float(tf.make_ndarray(value.tensor))
    return found


@pytest.mark.parametrize("steps", [60, 52])
def test_resume_after_roll_back_equals_the_uninterrupted_run(workspace, command, steps):
    settings = ("--mode=train", NAN, "--on_divergence=roll_back", "--ema_decay=0.9")
    if steps == 52:  # stopped before the divergence, where both have a checkpoint
        settings = (*settings, "--save_checkpoint_steps=26")
    assert command(*settings, f"--logdir={workspace}/whole")[0] == 0
    assert command(*settings, f"--logdir={workspace}/parts", f"--max_steps={steps}")[0] == 0
    code, out, err = command(*settings, f"--logdir={workspace}/parts", "--continue_learning")
    assert code == 0, err
    (whole, parts) = (checkpoint(workspace / name) for name in ("whole", "parts"))
    of_each = {"sha256": 0, "state_sha256": 0, "run": "", "seconds": 0}  # the checksums are of the run's name, too
    assert {**whole[0], **of_each} == {**parts[0], **of_each}
    for one, other in zip(whole[1:], parts[1:], strict=True):
        assert one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_roll_back_gets_through_a_storm(workspace, command, clean_loss):
    code, out, err = command("--mode=train_eval", *STORM, "--on_divergence=roll_back")
    assert code == 0, err
    assert "Rolled back" in out and final_loss(out) == pytest.approx(clean_loss, rel=0.05)
    assert checkpoint(workspace / "run")[2]["updates"] == 100


def test_a_lower_precision_weathers_the_storm_and_is_kept(workspace, command, clean_loss):
    settings = ("--mode=train_eval", *STORM, "--on_divergence=lower_precision")
    code, out, err = command(*settings, "--max_steps=60")
    assert code == 0, err
    assert out.count("DIVERGED") == 1 and "Continues in mixed_bfloat16 from model.ckpt-50" in out
    state, _, optimizer = checkpoint(workspace / "run")
    assert state["divergence"]["dtype"] == "mixed_bfloat16" and optimizer["rate_factor"] == 1.0
    code, out, err = command(*settings, "--continue_learning")
    assert code == 0, err
    assert "this run fell back to mixed_bfloat16" in out and "DIVERGED" not in out
    assert final_loss(out) == pytest.approx(clean_loss, rel=0.05)
    # Under another policy the config's type counts.
    out = command("--mode=train", *STORM, "--max_steps=101", "--continue_learning")[1]
    assert "fell back" not in out and "that is float16 arithmetic" in out


def test_a_rate_far_too_high(workspace, command, clean_loss):
    code, out, err = command("--mode=train", *TOO_HIGH)
    assert code == 2 and "the loss is not finite" in err
    code, out, err = command("--mode=train_eval", *TOO_HIGH, "--on_divergence=roll_back", f"--logdir={workspace}/back")
    assert code == 0, err
    # The checkpoint at step 25 is finite, but on its way to infinity.
    assert "the weights had diverged" in out and "Rolled back to model.ckpt-0" in out
    assert (workspace / "back" / "diverged.ckpt-25").is_dir()
    assert final_loss(out) == pytest.approx(clean_loss, rel=0.05)
    assert_all_finite(workspace / "back")


def test_losses_that_are_finite_but_huge(workspace, command, clean_loss):
    too_high = "--lr_policy_params/learning_rate=3"
    code, out, err = command("--mode=train", too_high, f"--logdir={workspace}/stop")
    assert code == 2 and "more than 100 times the lowest loss of the first updates" in err
    code, out, err = command("--mode=train_eval", too_high, "--on_divergence=roll_back",
                             "--divergence_lr_factor=0.02")
    assert code == 0, err
    assert "is not finite" not in out and "more than 100 times" in out and "Rolled back to model.ckpt-0" in out
    assert final_loss(out) == pytest.approx(clean_loss, rel=0.05)


@pytest.mark.slow
def test_no_precision_mends_a_rate(workspace, command):
    code, out, err = command("--mode=train", *TOO_HIGH, "--dtype=mixed_float16", "--on_divergence=lower_precision")
    assert code == 2 and "float32 is already the safest dtype" in err
    assert [f"Continues in {dtype}" in out for dtype in ("mixed_bfloat16", "float32")] == [True, True]
    assert_all_finite(workspace / "run")


def test_recoveries_are_bounded(workspace, command):
    bad = "--train_params/data_layer_params/nan_examples=[900, 1000, 1100]"
    code, out, err = command("--mode=train", bad, "--on_divergence=roll_back", "--max_recoveries=2")
    assert code == 2 and "it has recovered 2 times already (max_recoveries)" in err
    assert out.count("Rolled back") == 2 and "multiplied by 0.25" in out


def test_without_checkpoints_the_start_is_gone_back_to(workspace, command):
    code, out, err = command("--mode=train", NAN, "--on_divergence=roll_back", "--save_checkpoint_steps=null")
    assert code == 0 and "Rolled back to the start" in out, err
    assert not list((workspace / "run").glob("model.ckpt-*"))


def test_weights_that_an_update_made_infinite_are_not_saved(workspace, command):
    code, out, err = command("--mode=train", "--lr_policy_params/learning_rate=1e38", "--save_checkpoint_steps=1")
    assert code == 2 and "the update left inf or NaN in decoder/kernel" in err
    assert not list((workspace / "run").glob("model.ckpt-*"))
    # A logdir without anything to lose can be used again.
    assert command("--mode=train", "--max_steps=2")[0] == 0


@pytest.mark.parametrize("setting", ["--max_skipped_updates=0", "--divergence_lr_factor=1.5", "--max_recoveries=-1"])
def test_mistaken_settings_are_refused(command, setting):
    code, _, err = command("--mode=train", setting)
    assert code == 2 and setting[2:].split("=")[0] in err


def test_iterated_steps_blame_the_right_micro_batch(workspace, command):
    code, out, err = command("--mode=train", NAN, "--iter_size=2")
    assert code == 2 and "diverged at step 29" in err and "points.csv:901" in err
    event = json.loads((workspace / "run/divergence/step-29/event.json").read_text())
    assert event["micro_batch"] == 56


@pytest.mark.slow
def test_a_kill_during_recovery_leaves_a_usable_logdir(workspace, command):
    settings = ("--mode=train", NAN, "--on_divergence=roll_back")
    logdir = workspace / "run"
    process = start_process(workspace, *settings)
    deadline = time.time() + 100
    while not (logdir / "divergence").exists() and time.time() < deadline and process.poll() is None:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    code, out, err = command(*settings, "--continue_learning")
    assert code == 0, err
    assert command(*settings, f"--logdir={workspace}/whole")[0] == 0
    killed, whole = checkpoint(logdir), checkpoint(workspace / "whole")
    assert all(killed[1][name].tobytes() == whole[1][name].tobytes() for name in whole[1])
    assert killed[0]["divergence"] == whole[0]["divergence"]


def test_a_storm_of_overflows_stops_and_its_batch_can_be_replayed(workspace, command, capfd):
    code, out, err = command("--mode=train", *STORM)
    assert code == 2 and "16 updates in a row were skipped" in err
    assert "Non-finite gradients (2 of 2)" in out
    assert_all_finite(workspace / "run")
    folder = next((workspace / "run" / "divergence").iterdir())
    arguments = [f"--logdir={workspace}/run", f"--batch={folder}"]
    with pytest.raises(ConfigError, match="diverging_parts.*--trust_code"):  # a logdir is data
        replay_batch.main(arguments)
    arguments.append("--trust_code")
    replay_batch.main(arguments)
    out = capfd.readouterr().out
    for text in ("float16 arithmetic", "model.ckpt-50", "loss scale of the step: 1", "non-finite gradients: 2",
                 "decoder/kernel", "in the backward pass"):
        assert text in out, text
    replay_batch.main([*arguments, "--dtype=float32"])
    assert "With these weights and this dtype, all values are finite." in capfd.readouterr().out
