"""Two tasks of which the package knows nothing: an image classifier, and a language model with carried state."""

from __future__ import annotations

import re
import runpy
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq.cli import main
from tests.integration.conftest import ROOT, start_process
from tests.integration.ranks import alone, needs_horovod, on_ranks

pytestmark = pytest.mark.long

EXAMPLES = ROOT / "docs/examples"
DATA = {"images": ["--train=60", "--dev=5"], "language_model": ["--train=30", "--dev=4"]}
# The other task's towers, ranks and kills take as long again, and test the same of the package except for tf.data.
SLOW_TOO = [pytest.param("images", marks=pytest.mark.slow), "language_model"]
# 10 updates of 8 pictures, or of 8 pieces of text; without what would only take time.
SHORT = ("--batch_size_per_gpu=8", "--num_epochs=null", "--max_steps=10", "--print_loss_steps=null",
         "--print_samples_steps=null", "--save_summaries_steps=null", "--save_checkpoint_steps=5",
         "--num_checkpoints=9")
METRIC = {"images": "accuracy", "language_model": "bits_per_character"}

Run = Callable[..., str]


@pytest.fixture(scope="module", params=["images", "language_model"])
def made(request, tmp_path_factory) -> tuple[str, Path]:
    """A task's name, and a folder with its files and its data, as a user has them: outside the repository."""
    folder = tmp_path_factory.mktemp(request.param)
    for path in (EXAMPLES / request.param).glob("*.py"):
        shutil.copy(path, folder)
    before = sys.argv
    config = (folder / "config.py").read_text(encoding="utf-8")
    name = re.search(r'data_root = "(\w+)/"', config)[1]
    sys.argv = ["make_data.py", f"--output_dir={folder / name}", *DATA[request.param]]
    try:
        runpy.run_path(str(folder / "make_data.py"), run_name="__main__")
    finally:
        sys.argv = before
    (folder / "config.py").write_text(config.replace(f'"{name}/"', repr(f"{folder / name}/")), encoding="utf-8")
    return request.param, folder


@pytest.fixture
def task(made, tmp_path) -> tuple[str, Path]:
    """The same in a folder of the test's own."""
    name, folder = made
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return name, tmp_path


@pytest.fixture
def run(task, capfd) -> Run:
    """Runs the command on the task's config in this process, and returns what it printed; it has to work."""
    def call(*arguments: str) -> str:
        capfd.readouterr()
        code = main([f"--config_file={task[1]}/config.py", *arguments])
        captured = capfd.readouterr()
        assert code == 0, captured.out + captured.err
        return captured.out

    return call


def state_of(logdir: Path, step: int) -> dict[str, np.ndarray]:
    """Weights, the optimizer's state and carried state after so many updates."""
    found: dict[str, np.ndarray] = {}
    for path in sorted((logdir / f"model.ckpt-{step}").glob("*.safetensors")):
        found.update({f"{path.stem}: {name}": array for name, array in load_file(path).items()})
    assert found
    return found


def assert_close(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_allclose(second[name], array, rtol=1e-3, atol=1e-4, err_msg=name)


def judged(output: str, task: str) -> list[str]:
    """The validation loss and the metric of the last evaluation."""
    found = re.findall(rf"(?m)^\*\*\* +((?:Validation loss|{METRIC[task]}): \S+)", output)
    assert len(found) >= 2, output
    return found[-2:]


def test_the_package_knows_nothing_of_them():
    words = re.compile(r"ImageFolder\b|ImageClassifier|ConvNet\b|CharacterStream|CarriedGru")
    found = [path for path in (ROOT / "open_seq2seq").rglob("*.py") if words.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_it_learns_evaluates_and_infers(task, run):
    name, folder = task
    logdir, out = f"--logdir={folder}/run", folder / "out.txt"
    output = run("--mode=train_eval", logdir, "--num_epochs=25", "--print_loss_steps=50", "--eval_steps=1000",
                 "--save_checkpoint_steps=1000")
    value = float(judged(output, name)[1].split(": ")[1])
    assert value > 0.7 if name == "images" else value < 1.0  # chance is 0.25, and 4.2 bits
    assert judged(run("--mode=eval", logdir), name) == judged(output, name)
    run("--mode=infer", logdir, f"--infer_output_file={out}")
    pieces = 20 if name == "images" else len((folder / "toy_language/dev.txt").read_text()[1:]) / 20
    assert len(out.read_text(encoding="utf-8").splitlines()) == int(np.ceil(pieces))
    if name == "language_model":  # one that begins each piece with zeros knows less: the name was told pieces before
        parts = (folder / "parts.py").read_text(encoding="utf-8")
        (folder / "forgetful.py").write_text(parts.replace("[self.state.read()]", "[0.0 * self.state.read()]"))
        forgets = run("--mode=eval", logdir, f"--encoder={folder}/forgetful.py:CarriedGru")
        assert float(judged(forgets, name)[1].split(": ")[1]) > value + 0.05


@pytest.mark.parametrize("made", SLOW_TOO, indirect=True)
def test_towers_are_iter_size_2(task, run):
    name, folder = task
    whole = run("--mode=train_eval", *SHORT, "--eval_steps=10", "--iter_size=2", f"--logdir={folder}/whole")
    towers = run("--mode=train_eval", *SHORT, "--eval_steps=10", "--num_cpu_towers=2", f"--logdir={folder}/towers")
    assert_close(state_of(folder / "whole", 10), state_of(folder / "towers", 10))
    assert judged(towers, name)[1] == judged(whole, name)[1]
    for towers in (1, 2):  # one checkpoint, evaluated and decoded on any number of them
        few = (f"--num_cpu_towers={towers}", "--batch_size_per_gpu=8", f"--logdir={folder}/whole")
        assert judged(run("--mode=eval", *few), name) == judged(whole, name)
        run("--mode=infer", *few, f"--infer_output_file={folder}/out-{towers}.txt")
    assert (folder / "out-1.txt").read_bytes() == (folder / "out-2.txt").read_bytes()


@needs_horovod
@pytest.mark.parametrize("made", SLOW_TOO, indirect=True)
def test_ranks_are_iter_size_2(task, run):
    name, folder = task
    logdir = f"--logdir={folder}/ranks"
    code, output = on_ranks(2, folder, "--mode=train_eval", *SHORT, "--eval_steps=10", logdir, then=[
        ["--mode=infer", logdir, "--batch_size_per_gpu=8", f"--infer_output_file={folder}/out-2.txt"]])
    assert code == 0, output
    run("--mode=train_eval", *SHORT, "--eval_steps=10", "--iter_size=2", f"--logdir={folder}/whole")
    assert_close(state_of(folder / "whole", 10), state_of(folder / "ranks", 10))
    assert judged(run("--mode=eval", logdir, "--batch_size_per_gpu=8"), name) == judged(output, name)
    run("--mode=infer", logdir, "--batch_size_per_gpu=8", f"--infer_output_file={folder}/out-1.txt")
    assert (folder / "out-1.txt").read_bytes() == (folder / "out-2.txt").read_bytes()


@pytest.mark.parametrize("made", SLOW_TOO, indirect=True)
def test_a_killed_run_ends_in_the_same_bits(task):
    _, folder = task
    settings = ("--mode=train", *SHORT, "--max_steps=120", "--iter_size=2", "--dtype=mixed_bfloat16")
    alone(folder, *settings, f"--logdir={folder}/whole")
    process = start_process(folder, *settings, f"--logdir={folder}/parts")
    deadline = time.monotonic() + 400
    while not (folder / "parts/model.ckpt-10/state.json").is_file() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    alone(folder, *settings, f"--logdir={folder}/parts", "--continue_learning")
    whole, parts = state_of(folder / "whole", 120), state_of(folder / "parts", 120)
    assert whole.keys() == parts.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(array, parts[name], err_msg=name)
