"""A logdir is data: whatever somebody has put in it, each command ends in one sentence, and writes nothing outside."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from open_seq2seq.cli import main, run_of
from open_seq2seq.utils.errors import UserError
from tests.unit.checkpoints import attacks
from tests.unit.checkpoints.attacks import move_out
from tests.unit.checkpoints.resealing import reseal

CHECKPOINT = "model.ckpt-2"
# Those of checkpoints, and some of what lies around them.
ATTACKS = dict(attacks.ATTACKS)


def rewrite_config(checkpoint: Path, old: str, new: str) -> None:
    text = (checkpoint / "config.yaml").read_text(encoding="utf-8")
    assert old in text
    (checkpoint / "config.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    reseal(checkpoint)


@attacks.attack("could not determine a constructor for the tag", ATTACKS)
def a_config_that_names_python_objects(checkpoint: Path) -> None:
    rewrite_config(checkpoint, "max_length: 24", "max_length: !!python/object/apply:os.mkdir [ran]")


@attacks.attack("anchors expand to more than", ATTACKS)
def a_config_of_many_anchors(checkpoint: Path) -> None:
    lines = ["x0: &x0 [a, a]", *(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 9)}]" for i in range(1, 30))]
    rewrite_config(checkpoint, "base_params:\n", "base_params:\n  anchors:\n" + "".join(f"    {x}\n" for x in lines))


@attacks.attack("an anchor contains itself", ATTACKS)
def a_config_that_holds_itself(checkpoint: Path) -> None:
    rewrite_config(checkpoint, "max_length: 24", "max_length: &self [*self]")


@attacks.attack("nested too deeply", ATTACKS)
def a_deep_config(checkpoint: Path) -> None:
    rewrite_config(checkpoint, "max_length: 24", "max_length: " + "[" * 50_000)


@attacks.attack("has to be a mapping", ATTACKS)
def a_config_that_is_a_list(checkpoint: Path) -> None:
    (checkpoint / "config.yaml").write_text("[1, 2]", encoding="utf-8")
    reseal(checkpoint)


@attacks.attack("best_models is a link", ATTACKS)
def the_best_models_are_a_link(checkpoint: Path) -> None:
    shutil.copytree(checkpoint, checkpoint.parent / "best_models" / "val_loss=1.0000-step-2")
    (checkpoint.parent / "best_models").symlink_to(move_out(checkpoint, "../best_models"))


@attacks.attack("language_models is a link", ATTACKS)
def the_copies_are_a_link(checkpoint: Path) -> None:
    (checkpoint.parent / "language_models").mkdir()
    (checkpoint.parent / "language_models").symlink_to(move_out(checkpoint, "../language_models"))


# What is seen before any model is built, and so is quick.
EARLY = ["a_config_that_names_python_objects", "a_config_of_many_anchors", "a_config_that_holds_itself",
         "a_deep_config", "a_config_that_is_a_list", "the_best_models_are_a_link", "the_copies_are_a_link",
         "config_is_a_link", "config_is_a_pipe", "state_is_a_link", "an_asset_is_a_link", "an_asset_is_a_pipe",
         "the_folder_of_assets_is_a_link", "the_checkpoint_is_a_link", "a_state_without_end", "a_deep_state",
         "checksums are None", 'step is "abc"', "step is -1", "step is NaN", "step is Infinity",
         "a listed name that leaves the folder, 0", "a listed name that leaves the folder, 1"]
LATE = ["weights_are_a_link", "weights_are_a_pipe", "a_header_longer_than_the_file", "tensors_beyond_the_file",
        "tensors_that_overlap", "a_huge_shape", "a_negative_shape"]


@pytest.fixture(scope="module")
def original(two_updates: Path) -> Path:
    """A run of two updates, and a config and data that are the user's own."""
    return two_updates.parent


@pytest.fixture
def attacked(original: Path, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Attacks a copy of the logdir; in the end looks whether anything outside has changed."""
    before: dict[str, str] = {}

    def call(name: str) -> Path:
        shutil.copytree(original / "run", tmp_path / "run")
        ATTACKS[name][0](tmp_path / "run" / CHECKPOINT)
        before.update(_contents(tmp_path))
        return tmp_path / "run"

    yield call
    assert _contents(tmp_path) == before


def _contents(root: Path) -> dict[str, str]:
    """Checksums of the files of a folder outside its logdir, and of those in the logdir but its lock."""
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in root.rglob("*") if path.is_file() and path.name != ".lock" and path.stat().st_size < 1 << 30}


def refused(capfd: pytest.CaptureFixture[str], name: str, *arguments: str) -> None:
    capfd.readouterr()
    assert main([*arguments]) == 2
    error = capfd.readouterr().err
    assert error.startswith("Error: ") and error.count("\n") == 1 and "Traceback" not in error
    assert ATTACKS[name][1] in error


def infer_from(run: Path, text: Path, *more: str) -> list[str]:
    return ["--mode=infer", f"--logdir={run}", f"--infer_output_file={run.parent}/out.txt", *more, "--infer_files",
            str(text)]


@pytest.mark.parametrize("name", EARLY)
def test_inference_from_a_logdir(attacked, original, capfd, name):
    run = attacked(name)
    refused(capfd, name, *infer_from(run, original / "dev.src", "--restore_best_checkpoint=True"))
    assert not Path("ran").exists()


@pytest.mark.parametrize("name", LATE)
def test_evaluation_and_resuming(attacked, original, capfd, name):
    run = attacked(name)
    own = [f"--config_file={original}/config.py", f"--logdir={run}"]
    refused(capfd, name, *own, "--mode=eval")
    refused(capfd, name, *own, "--mode=train", "--continue_learning", "--max_steps=3")


def test_what_training_would_write_through_links(attacked, original, capfd):
    """The lock names its process, the copies are files: neither goes where a link leads."""
    run = attacked("the_copies_are_a_link")
    own = [f"--config_file={original}/config.py", f"--logdir={run}", "--mode=train", "--continue_learning"]
    refused(capfd, "the_copies_are_a_link", *own, "--max_steps=3")
    (run / "language_models").unlink()
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(run.parent / "outside-language_models")
    assert main([*own, "--max_steps=3"]) == 2
    assert ".lock is a link, or not a file" in capfd.readouterr().err
    (run / ".lock").unlink()
    os.mkfifo(run / ".lock")
    assert main([*own, "--max_steps=3"]) == 2
    assert ".lock is a link, or not a file" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["weights_are_a_pipe", "tensors_that_overlap"])
def test_loading_from_python_and_another_runs_weights(attacked, original, tmp_path, capfd, name):
    run = attacked(name)
    own = [f"--config_file={original}/config.py", f"--logdir={run}"]
    with pytest.raises(UserError, match=ATTACKS[name][1]):
        run_of(own).load()
    refused(capfd, name, *own[:1], "--mode=train", f"--logdir={original}/new", f"--load_model={run}")


def test_folders_that_a_config_names_are_not_written(original, tmp_path):
    """Inference from files remembers nothing of them where the config of a logdir says."""
    shutil.copytree(original / "run", tmp_path / "run")
    rewrite_config(tmp_path / "run" / CHECKPOINT, "max_length: 24", f"max_length: 24, index_dir: {tmp_path}/index")
    assert main(infer_from(tmp_path / "run", original / "dev.src")) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt", "run"]
