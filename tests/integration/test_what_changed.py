"""What a run used is what its checkpoint holds; what has changed since is said, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_seq2seq.cli import main

pytestmark = pytest.mark.long

RESUME = ("--mode=train", "--continue_learning", "--max_steps=3")
CHANGED = "has changed since"
# A hook that does something to the files of a run after its third update.
HOOK = '''
import os
class Meddle:
    def __init__(self, train_model=None, eval_model=None): pass
    def begin(self, trainer): pass
    def end(self, trainer): pass
    def after_step(self, trainer, results):
        if trainer.step == 3:
            {action}
base_params["hooks"] = [Meddle]
'''


def infer(workspace: Path, *more: str) -> list[str]:
    return ["--mode=infer", f"--infer_output_file={workspace}/out.txt", *more]


def meddle(workspace: Path, action: str) -> None:
    """Has a hook of the config do something while the run goes on."""
    config = workspace / "config.py"
    config.write_text(config.read_text(encoding="utf-8") + HOOK.format(action=action), encoding="utf-8")


def lines_with(text: str, *words: str) -> list[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_nothing_is_said_where_nothing_has_changed(trained, command):
    code, out, _ = command(*RESUME, "--decoder_params/beam_size=3", "--num_checkpoints=2", "--print_loss_steps=1")
    assert code == 0 and CHANGED not in out and out.count("WARNING") == 1
    assert "WARNING: warmup_steps is 100, but training has only 3 steps" in out
    code, out, _ = command("--mode=eval", "--batch_size_per_gpu=5", "--encoder_params/attention_dropout=0.2")
    assert code == 0 and CHANGED not in out and "WARNING" not in out


def test_each_difference_that_changes_a_resumed_run_is_said(trained, command):
    code, out, _ = command(*RESUME, "--batch_size_per_gpu=8", "--optimizer_params/beta2=0.99", "--dtype=mixed_bfloat16",
                           "--encoder_params/attention_dropout=0.2", "--data_layer_params/max_length=20",
                           "--loss_params={label_smoothing: 0.2}", "--lr_policy_params/warmup_steps=50")
    found = lines_with(out, CHANGED, "model.ckpt-2")
    assert code == 0 and len(found) == 7
    for words in ("'batch_size_per_gpu' is 8 but was 16", "'optimizer_params/beta2' is 0.99 but was 0.997",
                  "'dtype' is 'mixed_bfloat16' but was 'float32'",
                  "'loss_params/label_smoothing' is 0.2 but was 0.1"):
        assert len(lines_with(out, words)) == 1


def test_weights_that_would_mean_another_thing_are_refused_in_all_modes(trained, command):
    change = "--encoder_params/num_heads=4"
    for arguments in (RESUME, ("--mode=eval",), infer(trained)):
        code, _, err = command(*arguments, change)
        assert code == 2 and err.count("\n") == 1 and "does not fit the checkpoint" in err and "--no_dir_check" in err
    code, out, _ = command("--mode=eval", change, "--no_dir_check")
    assert code == 0 and "WARNING: The config does not fit the checkpoint" in out


def test_data_that_was_moved_or_touched_is_the_same(trained, command):
    (trained / "train.src").rename(trained / "elsewhere.src")
    (trained / "train.tgt").touch()
    code, out, _ = command(*RESUME, f"--data_layer_params/source_file={trained}/elsewhere.src")
    assert code == 0 and CHANGED not in out


def test_checkpoints_hold_the_vocabulary_that_the_run_read(workspace, command):
    vocabulary = workspace / "vocab.txt"
    true = vocabulary.read_bytes()
    meddle(workspace, 'open(root + "/vocab.txt", "w").write("\\n".join("fedcba") + "\\n")')
    code, out, _ = command("--mode=train", "--max_steps=8")
    assert code == 0 and len(lines_with(out, "vocab.txt has changed since this run read it")) == 1
    for step in (4, 8):
        assert (workspace / f"run/model.ckpt-{step}/assets/src_vocab_file").read_bytes() == true
    code, _, err = command("--mode=train", "--continue_learning", "--max_steps=9")
    assert code == 2 and "vocab.txt is not the file that" in err
    vocabulary.write_bytes(true)
    assert command(*infer(workspace))[0] == 0


@pytest.fixture
def two_checkpoints(trained: Path, command) -> Path:
    """A workspace whose run has two checkpoints, of which the newer one has a config of its own."""
    assert command("--mode=train", "--continue_learning", "--max_steps=4", "--decoder_params/alpha=0.9")[0] == 0
    return trained


def test_a_checkpoint_is_taken_or_left_as_a_whole(two_checkpoints, capfd):
    newest = two_checkpoints / "run" / "model.ckpt-4"
    arguments = [f"--logdir={two_checkpoints}/run", "--infer_files", f"{two_checkpoints}/dev.src", "--verbose"]
    for name in ("config.yaml", "weights.safetensors"):
        content = (newest / name).read_bytes()
        (newest / name).unlink()
        capfd.readouterr()
        assert main(infer(two_checkpoints, *arguments)) == 0
        out = capfd.readouterr().out
        assert len(lines_with(out, "WARNING", name, "Trying the previous checkpoint")) == 1
        assert "model.ckpt-2" in lines_with(out, "Restoring from")[0] and "alpha: 0.6" in out
        (newest / name).write_bytes(content)
