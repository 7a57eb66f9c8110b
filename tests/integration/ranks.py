"""Runs on several ranks: how they are started, hooks that show what they do, and what they left."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.integration.conftest import ROOT, start_process

BIN = Path(sys.executable).parent
# Marks of tests that launch ranks, as the ``pytestmark`` of a file.
NEEDS_HOROVOD = [pytest.mark.ranks, pytest.mark.skipif(importlib.util.find_spec("horovod") is None,
                                                       reason="Horovod is not installed: make horovod builds it")]
NO_DROPOUT = [f"--{part}_params/{key}=0.0" for part in ("encoder", "decoder")
              for key in ("attention_dropout", "relu_dropout", "layer_postprocess_dropout")]
# Saves every replica's weights at the end, and prints exact losses; on the last replica alone, a gradient can be made
# to overflow.
HOOK = '''
import os
import numpy as np
import tensorflow as tf
from open_seq2seq.training.hooks import Hook

class Keep(Hook):
    def after_step(self, trainer, results):
        print("exact", trainer.step, repr(float(results["loss"])), bool(results["applied"]),
              float(results["loss_scale"]), flush=True)

    def end(self, trainer):
        variables = {**trainer.variables, **trainer.optimizer.state()}
        for replica in range(trainer.runner.local_replicas):
            np.savez(root + f"/weights-{trainer.runner.process_rank + replica}.npz",
                     **{name: getattr(v, "values", [v])[replica].numpy() for name, v in variables.items()})

base_params["hooks"] = [Keep]

class OverflowHook(Hook):
    """The last replica brings infinity to the third reduction."""
    def begin(self, trainer):
        runner, reduce = trainer.runner, trainer.runner.reduce
        def bring(tensors, name="gradients"):
            last = tf.equal(runner.replica_rank, runner.world_size - 1)
            bad = tf.where(tf.equal(trainer.optimizer.updates, 2) & tf.equal(trainer.optimizer.skipped, 0) & last,
                           float("inf"), 0.0)
            return reduce({n: t + bad if not n.startswith(" ") and tf.is_tensor(t) else t
                           for n, t in tensors.items()}, name)
        runner.reduce = bring

class FailingHook(Hook):
    def after_step(self, trainer, results):
        if trainer.step == 3 and trainer.runner.process_rank == 1:
            raise RuntimeError("a rank of its own mind")

class StopHook(Hook):
    """Rank 1 alone receives a signal, after the last update."""
    def after_step(self, trainer, results):
        if trainer.finished and trainer.runner.process_rank == 1:
            os.kill(os.getpid(), 15)
'''


def needs_horovod(test: Callable) -> Callable:
    """Marks a single test that launches ranks."""
    for mark in NEEDS_HOROVOD:
        test = mark(test)
    return test


def add_hooks(workspace: Path, *names: str) -> None:
    """Makes the hooks known to the workspace's config, which has ``Keep`` then; called again, it has those named."""
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write(HOOK if not names else f'base_params["hooks"] = [{", ".join(names)}]\n')


def on_ranks(ranks: int, workspace: Path, *arguments: str, launcher: str = "mpiexec",
             then: Sequence[Sequence[str]] = ()) -> tuple[int, str]:
    """Runs the command on some ranks, and then, in the same processes, with other arguments.

    Returns (exit code of the first that fails, stdout and stderr of all).
    """
    common = [f"--config_file={workspace}/config.py", "--use_horovod=True"]
    command = [str(ROOT / "run.py"), *common, *arguments]
    if then:
        command = [str(Path(__file__).with_name("commands_on_rank.py")),
                   *(json.dumps([*common, *more]) for more in (arguments, *then))]
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    launch = {"mpiexec": ["mpiexec", *root, "--oversubscribe", "--bind-to", "none"],
              "gloo": ["horovodrun", "--gloo"]}[launcher]
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TF_NUM_INTRAOP_THREADS": "1"}
    done = subprocess.run([*launch, "-np", str(ranks), sys.executable, *command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=workspace, env=environment, check=False,
                          timeout=240 * (1 + len(then)))
    return done.returncode, done.stdout


def alone(workspace: Path, *arguments: str) -> str:
    """Runs the command in one process, which has to work: its output."""
    process = start_process(workspace, *arguments)
    output = process.communicate(timeout=240)[0]
    assert process.returncode == 0, output
    return output


def ran(command: Callable[..., tuple[int, str, str]], *arguments: str) -> str:
    """Runs the command in this process; it has to work. Returns what it printed."""
    code, output, errors = command(*arguments)
    assert code == 0, output + errors
    return output


def judged(output: str) -> list[str]:
    """Returns the results of the last evaluation."""
    found = re.findall(r"(?:Validation loss|BLEU|chrF): [\d.]+", output)
    assert len(found) >= 3, output
    return found[-3:]


def losses(output: str) -> list[float]:
    return [float(match) for match in re.findall(r"exact \d+ (\S+)", output)]


def weights(workspace: Path, rank: int) -> dict[str, np.ndarray]:
    with np.load(workspace / f"weights-{rank}.npz") as file:
        return dict(file)


def assert_identical(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
