"""One of several ranks fails: all end in seconds, with a non-zero status and a sentence that names it."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT
from tests.integration.ranks import NEEDS_HOROVOD

pytestmark = NEEDS_HOROVOD

BIN = Path(sys.executable).parent
SECONDS = 40.0  # on a busy machine; without a sign of life, ranks wait for a minute
# Each rank says which process it is, and may have trouble of its own at its third step.
TROUBLE = '''
import os, pathlib
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.launcher import launched_as

rank = launched_as()[0]
pathlib.Path(root + f"/pid-{rank}").write_text(str(os.getpid()))

class TroubledLayer(ParallelTextDataLayer):
    def make_batch(self, examples):
        self.made = getattr(self, "made", 0) + 1
        if rank == 1 and self.made == 20:
            raise DataError(f"{self.describe_example(examples[0])} cannot be read: record it again.")
        return super().make_batch(examples)

from open_seq2seq.training.hooks import Hook

class Trouble(Hook):
    error = RuntimeError("a rank of its own mind")
    def after_step(self, trainer, results):
        if trainer.step == 3 and trainer.runner.process_rank == 1:
            raise self.error

class NoMemory(Trouble):
    error = MemoryError("unable to allocate 9 GiB")
'''


@pytest.fixture
def workspace(workspace: Path) -> Path:
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write(TROUBLE)
    return workspace


class Ranks:
    """The command on some ranks, on its way."""

    def __init__(self, workspace: Path, launcher: str, *arguments: str, ranks: int = 2, before: str = "") -> None:
        self.workspace, self.log = workspace, workspace / "output"
        for path in workspace.glob("pid-*"):
            path.unlink()
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        launch = {"mpiexec": ["mpiexec", *root, "--oversubscribe", "--bind-to", "none"],
                  "gloo": ["horovodrun", "--gloo"]}[launcher]
        command = [sys.executable, str(ROOT / "run.py"), f"--config_file={workspace}/config.py", "--use_horovod=True",
                   "--max_steps=1000000", "--print_loss_steps=1", *arguments]
        shell = ["bash", "-c", f'RANK=${{OMPI_COMM_WORLD_RANK:-$HOROVOD_RANK}}; {before}; exec "$0" "$@"']
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TF_NUM_INTRAOP_THREADS": "1"}
        with open(self.log, "w", encoding="utf-8") as log:
            self.launcher = subprocess.Popen([*launch, "-np", str(ranks), *(shell if before else []), *command],
                                             stdout=log, stderr=subprocess.STDOUT, cwd=workspace, env=environment)

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, condition: Callable[[], object], seconds: float = 240.0, every: float = 0.1) -> None:
        """Waits until something holds, or all is over; looks ``every`` so many seconds, at the ranks' expense."""
        end = time.monotonic() + seconds
        while not condition() and self.launcher.poll() is None and time.monotonic() < end:
            time.sleep(every)

    def pids(self) -> dict[int, int]:
        found = {}
        for path in self.workspace.glob("pid-*"):
            with contextlib.suppress(ValueError):  # about to be written
                found[int(path.name.partition("-")[2])] = int(path.read_text(encoding="utf-8"))
        return found

    def alive(self) -> list[int]:
        return [rank for rank, pid in self.pids().items() if state(pid) not in ("", "Z", "X")]

    def end(self, seconds: float) -> float:
        """Waits until the launcher and all ranks are gone, with a non-zero status; returns how long that took."""
        began = time.monotonic()
        while (self.launcher.poll() is None or self.alive()) and time.monotonic() < began + 3 * seconds:
            time.sleep(0.01)
        took = time.monotonic() - began
        status = self.launcher.poll()
        print(f"ended after {took:.2f} s with status {status}, left: {self.alive()}\n{self.output[-3000:]}")
        assert status not in (None, 0) and not self.alive()
        assert took < seconds
        return took

    def clean_up(self) -> None:
        for pid in self.pids().values():
            if str(self.workspace) in command_of(pid):
                os.kill(pid, signal.SIGKILL)
        self.launcher.kill()
        self.launcher.wait()


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except OSError:
        return ""


@contextlib.contextmanager
def started(workspace: Path, launcher: str, *arguments: str, **settings) -> Iterator[Ranks]:
    ranks = Ranks(workspace, launcher, *arguments, **settings)
    try:
        yield ranks
    finally:
        ranks.clean_up()


def both_launchers(*default: tuple[str, int]) -> list:
    """(launcher, rank) in all combinations; those not named are slow tests."""
    return [pytest.param(launcher, rank, marks=[] if (launcher, rank) in default else pytest.mark.slow)
            for launcher in ("mpiexec", "gloo") for rank in (0, 1)]


@pytest.mark.parametrize(("launcher", "victim"), both_launchers(("mpiexec", 1)))
def test_a_killed_rank_ends_all(workspace, launcher, victim):
    with started(workspace, launcher, "--save_checkpoint_steps=null") as ranks:
        ranks.wait_for(lambda: "Step 10:" in ranks.output)
        os.kill(ranks.pids()[victim], signal.SIGKILL)
        ranks.end(SECONDS)
        said = re.findall(rf"Error: rank {victim} on host \S+ died\. Its last heartbeat came at step \d+, on examples",
                          ranks.output)
        assert len(said) == 1
        assert "open_seq2seq/cli.py" not in ranks.output


@pytest.mark.parametrize(("launcher", "victim"), both_launchers(("mpiexec", 0)))
def test_a_stopped_rank_ends_all_and_is_killed(workspace, launcher, victim):
    with started(workspace, launcher, "--save_checkpoint_steps=null", "--watchdog_seconds=8") as ranks:
        ranks.wait_for(lambda: "Step 10:" in ranks.output)
        os.kill(ranks.pids()[victim], signal.SIGSTOP)
        assert ranks.end(SECONDS) > 5.0  # the last heartbeat came a second before, or earlier
        said = re.findall(rf"Error: rank {victim} on host \S+ has sent no heartbeat for 8 s\. Its last heartbeat came "
                          r"at step \d+, on examples", ranks.output)
        assert len(said) == 1
        assert "open_seq2seq/cli.py" not in ranks.output


@pytest.mark.parametrize("launcher", [pytest.param("mpiexec", marks=pytest.mark.slow), "gloo"])
def test_bad_data_on_one_rank_are_named(workspace, launcher):
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write('base_params["data_layer"] = TroubledLayer\n')
    with started(workspace, launcher, "--save_checkpoint_steps=null") as ranks:
        ranks.wait_for(lambda: "cannot be read" in ranks.output)
        ranks.end(SECONDS)
        assert re.search(r"Error \(rank 1 on host \S+\): \S+train\.src:\d+ cannot be read: record it again\. Training "
                         r"ended after step \d+\. This rank was at step \d+, on examples", ranks.output)
        assert "open_seq2seq/cli.py" not in ranks.output


@pytest.mark.parametrize(("launcher", "hook"), [
    ("mpiexec", "NoMemory"), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("gloo", "NoMemory"), ("mpiexec", "Trouble"), ("gloo", "Trouble")))])
def test_an_error_on_one_rank_is_reported_by_that_rank(workspace, launcher, hook):
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write(f'base_params["hooks"] = [{hook}]\n')
    with started(workspace, launcher, "--save_checkpoint_steps=null") as ranks:
        ranks.wait_for(lambda: "Step 3:" in ranks.output)
        ranks.end(SECONDS)
        output = ranks.output
    what = {"NoMemory": "The process ran out of memory (unable to allocate 9 GiB)",
            "Trouble": "see the lines above"}[hook]
    assert re.search(rf"Error \(rank 1 on host \S+\): {re.escape(what)}.* This rank was at step 3, on examples", output)
    assert ("open_seq2seq/cli.py" in output) == (hook == "Trouble")


def test_ranks_that_differ_are_named_before_data_are_read(workspace):
    other = 'test $RANK = 0 || set -- "$@" --encoder_params/hidden_size=32'
    (workspace / "bad.src").write_bytes(b"\xff\n")
    data = [f"--data_layer_params/{name}_file={workspace}/{file}"
            for name, file in (("source", "bad.src"), ("target", "train.tgt"))]
    with started(workspace, "mpiexec", *data, before=other) as ranks:
        ranks.wait_for(lambda: ranks.launcher.poll() is not None)
        ranks.end(SECONDS)
        assert ranks.output.count("Error") == 1
        assert re.search(r"'base_params/encoder_params/hidden_size' is 32 on rank 1 \(host \S+\) and 16 on rank 0",
                         ranks.output)
        assert ranks.launcher.returncode == 2


@pytest.mark.slow
def test_ranks_with_other_data_are_named(workspace):
    (workspace / "other").mkdir()
    for name in ("train.src", "train.tgt", "dev.src", "dev.tgt", "vocab.txt"):
        lines = (workspace / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (workspace / "other" / name).write_text("".join(lines if "." not in name or name.startswith("dev")
                                                        else lines[:-1]), encoding="utf-8")
    text = (workspace / "config.py").read_text(encoding="utf-8")
    for name in ("train.src", "train.tgt", "vocab.txt"):
        text = text.replace(f'root + "/{name}"', f'"{name}"')
    (workspace / "config.py").write_text(text, encoding="utf-8")
    with started(workspace, "mpiexec", before="test $RANK = 0 || cd other") as ranks:
        ranks.wait_for(lambda: ranks.launcher.poll() is not None)
        ranks.end(SECONDS)
        assert re.search(r"Rank 1 on host \S+ differs from rank 0 on host \S+ in the data for train: 199 examples "
                         r"instead of 200\.", ranks.output)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["mpiexec", "gloo"])
def test_a_rank_that_does_not_come_is_not_waited_for_for_ever(workspace, launcher):
    with started(workspace, launcher, "--connect_seconds=8", before="test $RANK = 0 || exec sleep 600") as ranks:
        ranks.wait_for(lambda: "Error" in ranks.output, 120.0)
        ranks.end(SECONDS)
        assert "not all of the 2 ranks joined within 8 s" in ranks.output


@pytest.mark.slow
def test_twenty_kills_end_in_the_same_bits(workspace):
    """Any rank is killed at any time, in a third of the cases while a checkpoint is written; then the run goes on."""
    rng = random.Random(1)
    settings = ("--mode=train", "--max_steps=2400", "--save_checkpoint_steps=60", "--print_loss_steps=400")
    with started(workspace, "mpiexec", *settings, f"--logdir={workspace}/whole") as ranks:
        ranks.wait_for(lambda: False, 600.0)
        assert ranks.launcher.wait() == 0, ranks.output
    logdir, times = workspace / "parts", []
    for number in range(20):
        times.append(killed_run(workspace, logdir, rng, number, *settings))
    print("seconds from kill to end:", sorted(round(seconds, 2) for seconds in times))
    with started(workspace, "mpiexec", *settings, f"--logdir={logdir}", "--continue_learning") as ranks:
        ranks.wait_for(lambda: False, 600.0)
        assert ranks.launcher.wait() == 0, ranks.output
    for name in ("weights.safetensors", "optimizer.safetensors"):
        whole, parts = (workspace / part / "model.ckpt-2400" / name for part in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes()


def checkpoints(logdir: Path) -> set[str]:
    return {path.name for path in logdir.glob("model.ckpt-*") if (path / "state.json").is_file()}


def killed_run(workspace: Path, logdir: Path, rng: random.Random, number: int, *settings: str) -> float:
    """Starts or resumes the run and kills one of its ranks; returns how long it then took to end."""
    before = checkpoints(logdir)
    resume = ["--continue_learning"] if before else []
    with started(workspace, "mpiexec", *settings, f"--logdir={logdir}", *resume) as ranks:
        kind = number % 3
        if kind == 0:
            ranks.wait_for(lambda: any(logdir.glob(".tmp-*")), every=0.002)
        else:
            ranks.wait_for(lambda: checkpoints(logdir) - before, every=0.002)
            time.sleep(rng.random() * (0.05 if kind == 1 else 0.5))
        os.kill(ranks.pids()[rng.randrange(2)], signal.SIGKILL)
        return ranks.end(SECONDS)
