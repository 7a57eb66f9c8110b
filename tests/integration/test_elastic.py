"""Elastic training under horovodrun: processes are killed and join, and the run goes on as if it were one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.integration.conftest import ROOT, start_process
from tests.integration.ranks import NEEDS_HOROVOD

pytestmark = NEEDS_HOROVOD

BIN = Path(sys.executable).parent
# Horovod takes each name for a host of its own, and drops the host of a worker that died; names heed no case.
HOSTS = ("localhost", "Localhost", "LOCALHOST", "localHost")
NO_DROPOUT = [f"--{part}_params/{key}=0.0" for part in ("encoder", "decoder")
              for key in ("attention_dropout", "relu_dropout", "layer_postprocess_dropout")]
# Writes down each update; waits at certain steps, so that things happen there.
HOOK = '''
import json, os, pathlib, time
import numpy as np
from open_seq2seq.training.hooks import Hook
from open_seq2seq.utils.errors import DataError

class Record(Hook):
    hold_at, slow_from = None, None

    def begin(self, trainer):
        self.file = open(root + f"/record-{os.getpid()}", "a", buffering=1)

    def after_step(self, trainer, results):
        runner = trainer.runner
        self.file.write(json.dumps({
            "time": time.time(), "step": trainer.step, "rank": runner.process_rank, "world": runner.world_size,
            "consumed": trainer.micro_batch, "ids": [int(i) for i in trainer._batch["ids"]],
            "loss": float(results["loss"]), "updates": int(trainer.optimizer.updates.numpy())}) + "\\n")
        go = pathlib.Path(root) / "go"
        while trainer.step == self.hold_at and not go.exists():
            time.sleep(0.05)
        if self.slow_from and trainer.step >= self.slow_from and runner.world_size < 3:
            time.sleep(0.3)

    def end(self, trainer):
        np.savez(root + f"/weights-{trainer.runner.process_rank}.npz",
                 **{name: v.numpy() for name, v in trainer.state_variables.items()})

class Bad(Record):
    def after_step(self, trainer, results):
        super().after_step(trainer, results)
        if trainer.step == 7 and trainer.runner.process_rank == 1:
            raise DataError("train.src:18 cannot be read: record it again.")

base_params["hooks"] = [Record]
base_params["elastic_commit_steps"] = 5
'''


class Job:
    """An elastic job on its way.

    Args:
      workspace: holds the config.
      hosts: at the start, one slot each.
      arguments: of the command.
    """

    def __init__(self, workspace: Path, hosts: tuple[str, ...], *arguments: str, least: int = 1) -> None:
        self.workspace, self.log = workspace, workspace / "output"
        self.set_hosts(hosts)
        script = workspace / "hosts.sh"
        script.write_text(f"#!/bin/sh\ncat {workspace}/hosts\n")
        script.chmod(0o755)
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TF_NUM_INTRAOP_THREADS": "1"}
        command = ["horovodrun", "--gloo", "-np", str(len(hosts)), "--min-np", str(least), "--max-np", "3",
                   "--network-interfaces", "lo", "--host-discovery-script", str(script), sys.executable,
                   str(ROOT / "run.py"), f"--config_file={workspace}/config.py", "--use_horovod=True", "--elastic",
                   *arguments]
        with open(self.log, "w", encoding="utf-8") as log:
            self.launcher = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=workspace,
                                             env=environment, start_new_session=True)

    def set_hosts(self, hosts: tuple[str, ...]) -> None:
        new = self.workspace / "hosts.new"
        new.write_text("".join(f"{host}:1\n" for host in hosts))
        new.rename(self.workspace / "hosts")

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def records(self) -> dict[int, list[dict]]:
        """Returns what each process wrote down, by process id."""
        found = {}
        for path in self.workspace.glob("record-*"):
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            found[int(path.name.partition("-")[2])] = [json.loads(line) for line in lines]
        return found

    def last(self) -> dict[int, dict]:
        return {pid: records[-1] for pid, records in self.records().items() if records}

    def wait_for(self, condition: Callable[[], object], seconds: float = 150.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert self.launcher.poll() is None and time.monotonic() < end, self.output[-6000:]
            time.sleep(0.05)

    def finish(self, seconds: float = 150.0) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.launcher.wait(seconds)
        raise AssertionError(f"still running after {seconds} s: {self.output[-6000:]}")

    def kill(self, rank: int, signum: int = signal.SIGKILL) -> int:
        """Sends a signal to the process that has a rank now; returns its id."""
        newest = max(self.last().values(), key=lambda record: record["time"])
        pid = next(pid for pid, record in self.last().items()
                   if record["rank"] == rank and record["world"] == newest["world"])
        os.kill(pid, signum)
        return pid

    def clean_up(self) -> None:
        for pid in self.records():
            with contextlib.suppress(OSError):
                if str(self.workspace) in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8"):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.killpg(self.launcher.pid, signal.SIGKILL)
        self.launcher.wait()


@contextlib.contextmanager
def started(workspace: Path, hosts: tuple[str, ...], *arguments: str, hook: str = "", least: int = 1) -> Iterator[Job]:
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write(HOOK + hook)
    job = Job(workspace, hosts, *arguments, least=least)
    try:
        yield job
    finally:
        job.clean_up()


def history(records: dict[int, list[dict]]) -> list[list[dict]]:
    """Returns the updates of which the final weights are made, in order: of each, the records of all ranks."""
    made: dict[int, list[dict]] = {}
    for record in sorted((r for own in records.values() for r in own), key=lambda record: record["time"]):
        made.setdefault(record["step"], []).append(record)
    updates = []
    for step in sorted(made):
        newest = made[step][-1]  # an update made again comes later than all that was made of it before
        last = [record for record in made[step] if record["world"] == newest["world"]][-newest["world"]:]
        updates.append(sorted(last, key=lambda record: record["rank"]))
    return updates


def assert_gapless(updates: list[list[dict]], steps: int) -> None:
    assert [update[0]["step"] for update in updates] == list(range(1, steps + 1))
    consumed = 0
    for number, update in enumerate(updates, 1):
        world = update[0]["world"]
        consumed += world
        assert [record["rank"] for record in update] == list(range(world))
        assert {record["consumed"] for record in update} == {consumed}
        assert {record["updates"] for record in update} == {number}
        assert len({record["loss"] for record in update}) == 1


def assert_same_weights(workspace: Path, ranks: int) -> dict[str, np.ndarray]:
    files = [dict(np.load(workspace / f"weights-{rank}.npz")) for rank in range(ranks)]
    for other in files[1:]:
        assert other.keys() == files[0].keys()
        for name, array in files[0].items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)
    return files[0]


def alone(workspace: Path, updates: list[list[dict]], *arguments: str) -> tuple[list[float], list[list[int]]]:
    """Makes the same updates in one process that takes as many batches for each as there were ranks.

    Returns (losses, ids of each micro-batch of the updates' last).
    """
    for path in workspace.glob("record-*"):
        path.unlink()
    worlds = [update[0]["world"] for update in updates]
    ends = [step for step, (now, after) in enumerate(pairwise(worlds), 1) if now != after] + [len(worlds)]
    for number, end in enumerate(ends):
        more = ["--continue_learning"] if number else []
        process = start_process(workspace, *arguments, f"--logdir={workspace}/alone", f"--iter_size={worlds[end - 1]}",
                                f"--max_steps={end}", *more)
        output = process.communicate(timeout=240)[0]
        assert process.returncode == 0, output
    records = sorted((json.loads(line) for path in workspace.glob("record-*")
                      for line in path.read_text(encoding="utf-8").splitlines()), key=lambda record: record["step"])
    assert [record["step"] for record in records] == list(range(1, len(updates) + 1))
    return [record["loss"] for record in records], [record["ids"] for record in records]


@pytest.mark.slow
@pytest.mark.parametrize("rank, signum", [(1, signal.SIGKILL), (0, signal.SIGKILL), (2, signal.SIGSTOP)])
def test_a_run_survives_a_loss_and_takes_a_newcomer_in(workspace, rank, signum):
    settings = (*NO_DROPOUT, "--mode=train_eval", "--eval_steps=40", "--save_checkpoint_steps=30")
    with started(workspace, HOSTS[:3], *settings, "--max_steps=100", "--watchdog_seconds=4",
                 hook="Record.hold_at, Record.slow_from = 23, 45\n") as job:
        job.wait_for(lambda: [r["step"] for r in job.last().values()] == [23] * 3)
        before = set(job.last())
        lost = job.kill(rank, signum)
        if signum == signal.SIGSTOP:
            job.wait_for(lambda: "no heartbeat" in job.output)
        (workspace / "go").touch()
        job.wait_for(lambda: any(r["world"] == 2 and r["step"] >= 45 for r in job.last().values()))
        job.set_hosts(HOSTS)
        assert job.finish() == 0, job.output[-6000:]
        output, records = job.output, job.records()
    print(output)
    times = {world: [r["time"] for own in records.values() for r in own if r["world"] == world] for world in (2, 3)}
    print(f"went on {min(times[2]) - (workspace / 'go').stat().st_mtime:.1f} s after the loss; the newcomer held the "
          f"others up for {min(t for t in times[3] if t > max(times[2])) - max(times[2]):.1f} s")
    assert [r["step"] for pid, own in records.items() for r in own[-1:] if pid != lost] == [100] * 3
    assert set(records) - before and len(records) == 4  # nobody but the newcomer is new
    updates = history(records)
    assert_gapless(updates, 100)
    worlds = [update[0]["world"] for update in updates]
    assert worlds == sorted(worlds[:20], reverse=True) + [2] * worlds.count(2) + [3] * (80 - worlds.count(2))
    assert output.count("Finished training") == 1 and output.count("Validation loss") >= 3
    assert len(re.findall(r"rank \d on host \S+ (?:died|has sent)", output)) == 1
    assert "Training continues at step 20 with 2 ranks (before: 3 ranks); 3 updates are repeated" in output
    assert re.search(r"hosts were added or removed. Training continues at step \d+ with 3 ranks \(before: 2 ranks\)",
                     output)
    weights = assert_same_weights(workspace, 3)
    losses, ids = alone(workspace, updates, *NO_DROPOUT)
    assert ids == [update[-1]["ids"] for update in updates]
    np.testing.assert_allclose([update[0]["loss"] for update in updates], losses, rtol=1e-3)
    np.testing.assert_allclose([update[0]["loss"] for update in updates][:20], losses[:20], rtol=1e-5)
    for name, array in dict(np.load(workspace / "weights-0.npz")).items():
        np.testing.assert_allclose(weights[name], array, rtol=1e-2, atol=2e-3, err_msg=name)


def test_the_last_process_goes_on_when_the_first_is_killed(workspace):
    with started(workspace, HOSTS[:2], "--max_steps=30", "--save_checkpoint_steps=10",
                 hook="Record.hold_at = 12\n") as job:
        job.wait_for(lambda: [r["step"] for r in job.last().values()] == [12] * 2)
        job.kill(0)
        (workspace / "go").touch()
        assert job.finish() == 0, job.output[-6000:]
        output, records = job.output, job.records()
    updates = history(records)
    assert_gapless(updates, 30)
    assert [update[0]["world"] for update in updates] == [2] * 10 + [1] * 20
    assert len(records) == 2 and "Finished training" in output
    # The new first process prints and writes what the old one did.
    assert "Training continues at step 10 with 1 rank (before: 2 ranks); 2 updates are repeated" in output
    assert {path.name for path in (workspace / "run").glob("model.ckpt-*")} >= {"model.ckpt-10", "model.ckpt-30"}


@pytest.mark.slow
def test_an_error_of_one_process_ends_all(workspace):
    with started(workspace, HOSTS[:2], "--max_steps=100000", hook='base_params["hooks"] = [Bad]\n') as job:
        job.wait_for(lambda: "cannot be read" in job.output)
        assert job.finish(30.0) != 0
        print(job.output)
        assert "rank 1 on host" in job.output and "train.src:18 cannot be read" in job.output
        assert "Training continues" not in job.output


def test_elastic_needs_its_launcher(command):
    code, _, errors = command("--use_horovod=True", "--elastic")
    assert code == 2 and "Start it like this: horovodrun --gloo" in errors
    code, _, errors = command("--use_horovod=True", "--elastic", "--mode=eval")
    assert code == 2 and "not with the mode eval" in errors
