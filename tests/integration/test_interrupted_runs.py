"""A run whose evaluation, hook, output or terminal fails keeps the state it had reached."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.checkpoints import run_saver
from open_seq2seq.training.loop.metrics_file import read_metrics
from open_seq2seq.training.loop.passes import EvaluationPass
from open_seq2seq.training.loop.trainer import Trainer
from tests.integration.conftest import start_process

pytestmark = pytest.mark.long

HOOK = """
import os, signal
from open_seq2seq.training.hooks import Hook

class Trouble(Hook):
    def after_step(self, trainer, results):
        if trainer.step == 3:
            {action}
"""
TROUBLE = ("--mode=train_eval", "--hooks=['trouble.py:Trouble']", "--eval_steps=4", "--print_loss_steps=1")


def trouble(workspace: Path, action: str) -> None:
    (workspace / "trouble.py").write_text(HOOK.format(action=action), encoding="utf-8")


def steps(workspace: Path) -> set[int]:
    return {json.loads((path / "state.json").read_text())["step"] for path in (workspace / "run").glob("model.ckpt-*")}


def fail(workspace: Path, command: Callable[..., tuple[int, str, str]], settings: Sequence[str], words: str,
         step: int) -> None:
    """Runs into the trouble, which has to end in these words after this step, whose state is on disk."""
    code, _, err = command(*TROUBLE, *settings)
    assert code == 2 and words in err and "Traceback" not in err, err
    assert f"after step {step}, which is saved: resume with --continue_learning." in err
    assert max(steps(workspace)) == step


@pytest.mark.parametrize(("action", "settings", "words", "step"), [
    pytest.param("os.remove('dev.tgt')", (), "dev.tgt", 4, marks=pytest.mark.slow),
    ("os.remove('dev.tgt')", ("--save_checkpoint_steps=100",), "dev.tgt", 4),
    ("trainer.eval_model.finalize_evaluation = lambda *args: {}[0]", (), "KeyError: 0. Training ended after step 4", 4),
])
def test_the_state_before_a_failure_is_on_disk(workspace, command, monkeypatch, action, settings, words, step):
    monkeypatch.chdir(workspace)
    trouble(workspace, action)
    fail(workspace, command, settings, words, step)


def test_a_run_that_failed_in_between_goes_on_to_the_same_bits(workspace, command, monkeypatch):
    monkeypatch.chdir(workspace)
    assert command("--mode=train_eval", "--logdir=whole")[0] == 0
    trouble(workspace, "raise ValueError('no luck')")
    fail(workspace, command, (), "trouble.py, line 8: ValueError: no luck. Training ended after step 3", 3)
    assert command("--mode=train_eval", "--continue_learning")[0] == 0
    for name in ("weights.safetensors", "optimizer.safetensors"):
        parts, whole = (workspace / logdir / "model.ckpt-12" / name for logdir in ("run", "whole"))
        assert parts.read_bytes() == whole.read_bytes()


def test_a_checkpoint_comes_before_an_evaluation_and_settles_the_state_once(workspace, command, monkeypatch):
    from open_seq2seq.training.loop.trainer import Trainer

    events = []

    def note(kind, name):
        real = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda self, *args: (events.append(name), real(self, *args))[1])

    for kind, name in ((Trainer, "save_checkpoint"), (Trainer, "evaluate"), (Trainer, "_average_statistics")):
        note(kind, name)
    assert command("--mode=train_eval", "--eval_steps=4", "--max_steps=4")[0] == 0
    assert events == ["save_checkpoint", "_average_statistics", "evaluate", "save_checkpoint"]


class Killed(BaseException):
    """Ends a run as a kill does: nothing is saved."""


def kill_at_call(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int) -> None:
    """Kills the run when a function is called for this time, counted from 1."""
    real, calls = getattr(owner, name), []

    def call(*args: Any, **more: Any) -> Any:
        calls.append(name)
        if len(calls) == number:
            raise Killed
        return real(*args, **more)

    monkeypatch.setattr(owner, name, call)


def contents(logdir: Path) -> dict[str, Any]:
    """What a logdir holds, by path; without the random name of the run, its time and the name of the process."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in logdir.rglob("*") if path.is_file() and path.name != ".lock"):
        name = str(path.relative_to(logdir))
        found[name] = read_metrics(path) if name == "metrics.csv" else path.read_bytes()
        if path.name == "state.json":
            found[name] = {key: value for key, value in json.loads(path.read_text()).items()
                           if key not in ("run", "seconds", "state_sha256")}
    return found


WHOLE = ("--mode=train_eval", "--max_steps=10", "--save_checkpoint_steps=4", "--eval_steps=2", "--print_loss_steps=2",
         "--print_samples_steps=2", "--average_checkpoints=2", "--num_checkpoints=9")


def test_a_run_killed_again_and_again_leaves_the_logdir_of_one_that_was_not(workspace, command, monkeypatch):
    """All metrics, samples, best models and the average are those of a run without a kill, not its weights alone."""
    assert command(*WHOLE)[0] == 0
    (workspace / "run").rename(workspace / "whole")
    more, names = (), set()
    for owner, name, number in (
            (Trainer, "_make_step", 4),  # before the first checkpoint, after a best model
            (EvaluationPass, "run", 2),  # that of step 4
            (run_saver, "best_name", 1),  # the next best model, after its evaluation
            (EvaluationPass, "run", 4),  # the last one, of step 10
            (EvaluationPass, "run", 2)):  # that of the average
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_at_call(patch, owner, name, number)
            command(*WHOLE, *more)
        names |= {json.loads(path.read_text())["run"] for path in (workspace / "run").glob("[!.]*/[!.]*/state.json")}
        (workspace / "run/notes.txt").write_text("the user's own", encoding="utf-8")
        more = ("--continue_learning",)
    code, out, err = command(*WHOLE, *more)
    assert code == 0 and "Nothing left to do" not in out, err
    assert command(*WHOLE, *more)[1].count("Nothing left to do") == 1
    assert (workspace / "run/notes.txt").read_text() == "the user's own"
    (workspace / "run/notes.txt").unlink()
    whole, parts = contents(workspace / "whole"), contents(workspace / "run")
    assert {*whole} == {*parts}
    assert [key for key in whole if whole[key] != parts[key]] == []
    assert len(names) == 1  # the start that was begun anew is the same run, so its best models count


def test_a_signal_does_not_wait_for_an_evaluation(workspace, command, monkeypatch):
    """The pass asks before each batch; the weights saved are those of training, not their moving average."""
    from open_seq2seq.training.loop.passes import EvaluationPass

    monkeypatch.chdir(workspace)
    seen = []

    def run(self, training_step=None, report_progress=False, stops=lambda: False, real=EvaluationPass.run):
        seen.append(stops())
        os.kill(os.getpid(), signal.SIGTERM)
        seen.append(stops())
        return real(self, training_step, report_progress, stops)

    monkeypatch.setattr(EvaluationPass, "run", run)
    code, out, _ = command("--mode=train_eval", "--eval_steps=6", "--ema_decay=0.9", "--logdir=stopped")
    assert (code, seen) == (128 + signal.SIGTERM, [False, True])
    assert "The evaluation is skipped." in out and "Stopped at step 6" in out and "Validation loss" not in out
    monkeypatch.undo()
    monkeypatch.chdir(workspace)
    assert command("--mode=train", "--max_steps=6", "--save_checkpoint_steps=6", "--ema_decay=0.9",
                   "--logdir=plain")[0] == 0
    stopped, plain = (workspace / logdir / "model.ckpt-6/weights.safetensors" for logdir in ("stopped", "plain"))
    assert stopped.read_bytes() == plain.read_bytes()
    code, out, _ = command("--mode=train_eval", "--eval_steps=6", "--ema_decay=0.9", "--logdir=stopped",
                           "--max_steps=6", "--continue_learning")
    assert code == 0 and "Evaluation at step 6" in out
    assert [*read_metrics(workspace / "stopped/metrics.csv")["val_loss"]] == [6]
    assert list((workspace / "stopped/best_models").glob("*-step-6"))


@pytest.mark.parametrize(("redirection", "code"), [
    pytest.param(">&- 2>&-", 0, marks=pytest.mark.slow), ("| head -n 1", 0)])
def test_a_training_whose_output_nobody_reads_ends_as_any_other(workspace, redirection, code):
    import subprocess
    import sys

    run = Path(__file__).parents[2] / "run.py"
    line = f'"$@" {redirection}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", line, "bash", sys.executable, str(run), "--config_file=config.py",
                           "--mode=train_eval"], cwd=workspace, capture_output=True, text=True, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    assert steps(workspace) == {4, 8, 12}


def test_a_terminal_that_goes_away_makes_a_run_save_and_stop(workspace):
    process = start_process(workspace, "--mode=train", "--max_steps=100000", "--save_checkpoint_steps=100000",
                            "--print_loss_steps=1")
    assert process.stdout is not None
    assert any("Step 2:" in line for line in process.stdout)  # waits for it
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)  # from the shell and from the terminal
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 128 + signal.SIGHUP, output
    assert f"Stopped at step {max(steps(workspace))}; resume with --continue_learning." in output


def test_results_overwrite_no_file_that_a_run_reads_or_keeps(trained, command, monkeypatch):
    monkeypatch.chdir(trained)
    (trained / "linked.txt").symlink_to("vocab.txt")
    os.link(trained / "dev.src", trained / "hard.txt")
    kept = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    for name in ("dev.src", "./run/../dev.src", "linked.txt", "hard.txt", "config.py", "train.tgt",
                 "run/model.ckpt-2/weights.safetensors", "run/model.ckpt-2/state.json", "run/.lock"):
        code, _, err = command("--mode=infer", f"--infer_output_file={name}")
        assert code == 2 and f"would overwrite {name}, which this run reads or keeps" in err, err
    assert all(path.read_bytes() == content for path, content in kept.items())
    (trained / "out.txt").write_text("earlier results\n", encoding="utf-8")
    assert command("--mode=infer", "--infer_output_file=out.txt")[0] == 0
