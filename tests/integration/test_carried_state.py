"""A language model that carries its state from batch to batch: trained, judged, resumed and rolled back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq.training.loop.passes import EvaluationPass
from scripts import replay_batch
from tests.integration.ranks import add_hooks, assert_identical, losses, needs_horovod, on_ranks, ran
from tests.integration.tiny_language_model import PIECE, UNITS, text

pytestmark = pytest.mark.long

PARTS = Path(__file__).with_name("tiny_language_model.py")
CONFIG = """
parts, root = {parts!r}, {root!r}
base_model = parts + ":LanguageModel"
base_params = {{
    "logdir": root + "/run", "random_seed": 1, "batch_size_per_gpu": 4, "max_steps": 10, "print_loss_steps": None,
    "save_checkpoint_steps": 5, "num_checkpoints": 9, "eval_steps": 1000, "eval_batch_size_per_gpu": 1,
    "optimizer": "Momentum", "optimizer_params": {{"momentum": 0.5}},
    "lr_policy": "fixed_lr", "lr_policy_params": {{"learning_rate": 0.1}},
    "data_layer": parts + ":Pieces", "encoder": parts + ":Reader", "decoder": parts + ":Guess",
    "loss": parts + ":NextSymbol",
}}
eval_params = {{"data_layer_params": {{"size": 23}}}}
infer_params = {{"data_layer_params": {{"size": 23}}}}
"""
STILL = "--lr_policy_params/learning_rate=1e-30"
STATES = ("carried/encoder/cell/hidden", "carried/encoder/count")


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "config.py").write_text(CONFIG.format(parts=str(PARTS), root=str(tmp_path)))
    add_hooks(tmp_path)
    return tmp_path


def checkpoint(workspace, step, run="run"):
    """(weights, optimizer and carried state) of a checkpoint."""
    folder = workspace / run / f"model.ckpt-{step}"
    return load_file(folder / "weights.safetensors"), load_file(folder / "optimizer.safetensors")


def logits_of(weights, symbols):
    """Logits ``[time, symbols]`` after each symbol of one long text."""
    state, outputs = np.zeros(UNITS, np.float64), []
    for symbol in symbols:
        state = np.tanh(weights["encoder/table"][symbol] + state @ weights["encoder/cell/inner"])
        outputs.append(state @ weights["decoder/kernel"])
    return np.array(outputs)


def nll(weights, symbols):
    """Minus the log-likelihood of each symbol but the first."""
    logits = logits_of(weights, symbols[:-1])
    normalized = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -normalized[np.arange(len(logits)), symbols[1:]]


def stretches(symbols, rows):
    """Cuts a text where the rows of a pass over it begin."""
    pieces = np.array_split(np.arange(len(symbols) // PIECE), rows)
    return [symbols[of_row[0] * PIECE:(of_row[-1] + 1) * PIECE + 1] for of_row in pieces]


def test_the_state_goes_through_an_epoch_as_through_one_long_text(workspace, command):
    found = losses(ran(command, "--max_steps=14", STILL, "--batch_size_per_gpu=2", "--iter_size=2"))
    weights, _ = checkpoint(workspace, 10)
    positions = 50 // 4  # of four rows
    symbols = text("train", 50)
    of_rows = [nll(weights, symbols[row * positions * PIECE:][:positions * PIECE + 1]) for row in range(4)]
    by_position = np.reshape(of_rows, [4, positions, PIECE]).mean(axis=(0, 2))
    np.testing.assert_allclose(found, [*by_position, *by_position[:2]], rtol=1e-5)


@pytest.mark.parametrize(("rows", "slots"), [pytest.param(1, 1, marks=pytest.mark.slow), (2, 3)])
def test_a_pass_reads_the_same_on_any_number_of_towers(workspace, command, monkeypatch, rows, slots):
    ran(command, "--max_steps=5")
    weights, _ = checkpoint(workspace, 5)
    metrics, run = [], EvaluationPass.run
    monkeypatch.setattr(EvaluationPass, "run", lambda *args, **more: metrics.append(run(*args, **more)))
    settings, files = (f"--eval_batch_size_per_gpu={rows}", f"--eval_slots={slots}"), []
    for towers in (1, 2, 3):
        output = ran(command, "--mode=eval", f"--num_cpu_towers={towers}", *settings)
        assert f"examples {list(range(23))}\n" in output
        ran(command, "--mode=infer", f"--num_cpu_towers={towers}", *settings,
            f"--infer_output_file={workspace}/{towers}.npz")
        with np.load(workspace / f"{towers}.npz") as file:
            files.append(dict(file))
    assert metrics[0] == metrics[1] == metrics[2]
    assert_identical(files[0], files[1])
    assert_identical(files[0], files[2])
    of_rows = stretches(text("eval", 23), rows * slots)
    np.testing.assert_allclose(metrics[0]["val_loss"], np.concatenate([nll(weights, s) for s in of_rows]).mean(),
                               rtol=1e-5)
    # Evaluation and inference read the same text.
    logits = np.concatenate([logits_of(weights, row[:-1]) for row in of_rows])
    np.testing.assert_allclose(files[0]["logits"].reshape(logits.shape), logits, atol=1e-5)
    counts = np.concatenate([np.arange(0, len(row) - 1, PIECE) for row in of_rows])
    np.testing.assert_array_equal(files[0]["counts"], counts)


@pytest.mark.parametrize("settings", [(), ("--use_xla_jit=True", "--batch_size_per_gpu=2")], ids=["plain", "xla"])
def test_two_towers_are_iter_size_2(workspace, command, settings):
    single = losses(ran(command, "--iter_size=2", *settings))
    towers = losses(ran(command, "--num_cpu_towers=2", *settings, f"--logdir={workspace}/two"))
    np.testing.assert_allclose(towers, single, rtol=1e-6)
    one, two = checkpoint(workspace, 10)[1], checkpoint(workspace, 10, "two")[1]
    for name in STATES:
        assert two[name].shape[0] == 2 and two[name].any()
        np.testing.assert_allclose(two[name], one[name], rtol=1e-5)


@needs_horovod
def test_two_ranks_are_iter_size_2(workspace, command):
    """Trained on two ranks, resumed on two and judged there; resumed on one with ``iter_size`` 2."""
    whole = losses(ran(command, "--iter_size=2", f"--logdir={workspace}/one"))
    looks = ["--mode=eval", "--eval_slots=3", "--eval_batch_size_per_gpu=2"]
    code, output = on_ranks(2, workspace, "--max_steps=5", then=[
        ["--continue_learning"], looks, ["--mode=train", "--continue_learning", "--iter_size=2", "--max_steps=12"]])
    assert code == 2 and output.count("has carried states for 2 batches") == 1, output
    np.testing.assert_allclose(losses(output), whole, rtol=1e-6)
    one, two = checkpoint(workspace, 10, "one")[1], checkpoint(workspace, 10)[1]
    for name in STATES:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-5)
    judged = [line for line in (output + ran(command, *looks)).splitlines() if "Validation loss" in line]
    assert len(judged) == 2 and judged[0] == judged[1]
    (workspace / "run/model.ckpt-10").rename(workspace / "model.ckpt-10")
    np.testing.assert_allclose(losses(ran(command, "--iter_size=2", "--continue_learning")), whole[5:], rtol=1e-6)


@pytest.mark.parametrize("replicas", ["--num_cpu_towers=2", pytest.param("--iter_size=2", marks=pytest.mark.slow)])
def test_a_resumed_run_is_the_same_to_the_bit(workspace, command, replicas):
    settings = ("--encoder_params/drop=0.2", replicas)
    ran(command, *settings, f"--logdir={workspace}/whole")
    ran(command, *settings, "--max_steps=5")
    ran(command, *settings, "--continue_learning")
    for first, second in zip(checkpoint(workspace, 10, "whole"), checkpoint(workspace, 10), strict=True):
        assert_identical(first, second)
    assert set(STATES) <= checkpoint(workspace, 10)[1].keys()
    assert not any("hidden" in name or "count" in name for name in checkpoint(workspace, 10)[0])


def test_a_run_goes_on_with_the_same_slots_divided_in_another_way(workspace, command):
    whole = losses(ran(command, "--num_cpu_towers=2", "--iter_size=2", "--batch_size_per_gpu=2"))
    ran(command, "--num_cpu_towers=2", "--iter_size=2", "--batch_size_per_gpu=2", "--max_steps=5",
        f"--logdir={workspace}/begun")
    for number, settings in enumerate([("--iter_size=4",), ("--num_cpu_towers=1", "--iter_size=4")]):
        shutil.copytree(workspace / "begun", workspace / str(number))
        found = losses(ran(command, *settings, "--batch_size_per_gpu=2", "--continue_learning",
                           f"--logdir={workspace}/{number}"))
        np.testing.assert_allclose(found, whole[5:], rtol=1e-6)


def test_whatever_looks_at_a_run_leaves_its_state_alone(workspace, command):
    ran(command, f"--logdir={workspace}/alone")
    output = ran(command, "--mode=train_eval", "--eval_steps=3", "--print_samples_steps=2")
    assert output.count("sample ") == 5 and output.count("Validation loss") == 4
    for first, second in zip(checkpoint(workspace, 10, "alone"), checkpoint(workspace, 10), strict=True):
        assert_identical(first, second)


@pytest.mark.parametrize("replicas", [pytest.param("--num_cpu_towers=2", marks=pytest.mark.slow), "--iter_size=2"])
def test_recovery_puts_the_state_back_and_nan_never_gets_into_it(workspace, command, replicas, capfd):
    # Positions are 6 examples a row: the fifth row is that of the second slot, and stumbles in the eighth update.
    bad = 4 * 6 + 1
    output = ran(command, "--on_divergence=roll_back", f"--train_params/data_layer_params/nan_examples=[{bad}]",
                 replicas)
    assert f"Examples whose loss is not finite: Example {bad}\n" in output
    assert "DIVERGED at step 2," in output and "DIVERGED at step 8," in output
    _, before = checkpoint(workspace, 5)
    _, after = checkpoint(workspace, 8)  # saved where the run goes on
    for name in STATES:
        np.testing.assert_array_equal(after[name], before[name])
    for folder in workspace.glob("run/model.ckpt-*"):
        assert all(np.isfinite(value).all() for value in load_file(folder / "optimizer.safetensors").values())
    with np.load(workspace / "run/divergence/step-8/carried.npz") as carried:
        assert carried["encoder/cell/hidden"].any()
    replay_batch.main([f"--logdir={workspace}/run", f"--batch={workspace}/run/divergence/step-8", "--trust_code"])
    assert f"(id {bad})" in capfd.readouterr().out


def test_another_number_of_slots(workspace, command):
    ran(command, "--max_steps=7", "--iter_size=2")
    for settings, expected in ((("--iter_size=3",), "has carried states for 2 batches per update"),
                               (("--iter_size=2", "--batch_size_per_gpu=3"), "rows first")):
        code, _, errors = command("--continue_learning", *settings)
        assert code == 2 and expected in errors and errors.count("Error: ") == 1 and "Traceback" not in errors
    more = ("--continue_learning", "--iter_size=3", "--carried_state_on_resume=reset", STILL, "--max_steps=8")
    assert "the carried states are reset" in ran(command, *more)
    state = json.loads((workspace / "run/model.ckpt-8/state.json").read_text())
    assert state["micro_batch"] == 14 - 14 % 3 + 3
    # After one update every row has been read for one piece.
    np.testing.assert_array_equal(checkpoint(workspace, 8)[1]["carried/encoder/count"], np.full([3, 4], PIECE))


def test_recovery_goes_back_to_a_checkpoint_of_another_number_of_slots(workspace, command):
    ran(command, "--max_steps=7", "--iter_size=2")
    output = ran(command, "--continue_learning", "--iter_size=3", "--carried_state_on_resume=reset", "--max_steps=11",
                 "--on_divergence=roll_back", "--train_params/data_layer_params/nan_examples=[1]")
    assert "the carried states are reset" in output and "DIVERGED at step 9," in output
    last = max(int(path.name.rpartition("-")[2]) for path in (workspace / "run").glob("model.ckpt-*"))
    assert last > 9 and checkpoint(workspace, last)[1]["carried/encoder/count"].shape == (3, 4)


REFUSED = {
    "memory": ("--batch_size_per_gpu=1000000", "--iter_size=1000000", "carries from batch to batch needs"),
    "shuffling": ("--data_layer_params/shuffle=True", "'shuffle' is True"),
    "tokens": ("--data_layer_params/batch_size_unit=tokens", "'batch_size_unit' is 'tokens'"),
    "shapes": ("--use_xla_jit=True", "--xla_buckets=2", "'xla_buckets' is 2"),
    "scattered examples": ("--data_layer_params/continues=False", "carries state from batch to batch"),
    "too few examples": ("--batch_size_per_gpu=51", "Overall batch size is too big"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(command, name):
    *arguments, expected = REFUSED[name]
    code, _, errors = command(*arguments)
    assert code == 2 and expected in errors and "Traceback" not in errors
    assert errors.count("Error: ") == 1


def test_check(command):
    assert "The config can be run" in ran(command, "--max_steps=1", "--num_cpu_towers=2", "--check")
