"""Which process this one is, and how one of several processes ends (each case in a process of its own)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from open_seq2seq.utils import launcher
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.launcher import cluster_task, launched_as

ROOT = Path(__file__).parents[3]
# The command as rank 0 or 1 of 2, with a run that raises; what the others would be told is printed.
COMMAND = '''
import sys
from open_seq2seq import cli
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.launcher import announce_by
from open_seq2seq.utils.trail import TRAIL
announce_by(lambda problem, code: print("told:", problem, code, flush=True))
TRAIL.note("step", 5, [[3, 17]])
def run(arguments):
    {action}
cli._run = run
cli.main([])
print("not ended")
'''


def end(action: str, rank: int = 0) -> tuple[int, str, str, float]:
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", COMMAND.format(action=action)], capture_output=True, text=True,
                          env=environment, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


@pytest.mark.parametrize(("action", "code", "told", "said"), [
    ("raise DataError('line 7 is bad')", 2, "told: line 7 is bad 2", "): line 7 is bad This rank was at step 5, on ex"),
    ("raise MemoryError('9 GiB')", 2, "told: The process ran out of memory (9 GiB)", "The process ran out of memory"),
    ("raise KeyError('x')", 1, "told: KeyError: 'x' 1", "lines above. This rank was at step 5, on examples 3, 17."),
    ("raise KeyboardInterrupt", 130, "told: it was interrupted 130", "Interrupted."),
    ("sys.exit(9)", 9, "told: it called sys.exit(9) 9", ""),
    ("sys.exit('enough')", 1, "told: it called sys.exit('enough') 1", "enough\n")])
def test_an_error_is_said_and_told_and_ends_the_process(action, code, told, said):
    status, out, err, _ = end(action)
    assert status == code and told in out and "not ended" not in out and said in err
    assert "rank 0 on host" in err or code == 130 or "sys.exit" in action


def test_other_ranks_let_the_first_one_speak():
    status, out, _, took = end("raise DataError('line 7 is bad')", rank=1)
    assert status == 2 and "told" in out and took > launcher._GRACE_SECONDS


def test_an_end_is_not_held_up_by_a_pipe_that_nobody_reads():
    code = ("import sys\nfrom open_seq2seq.utils.launcher import end_all, say\n"
            "say('x' * 10_000_000)\nend_all(3)")
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        assert process.wait(100) == 3


def test_one_process_of_an_elastic_job_is_not_alone(monkeypatch):
    for name in ("OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK", "HOROVOD_ELASTIC", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert launcher.is_alone()
    for name, value in (("HOROVOD_RANK", "0"), ("HOROVOD_SIZE", "1"), ("HOROVOD_ELASTIC", "1")):
        monkeypatch.setenv(name, value)
    assert not launcher.is_alone()


WORKERS = {"worker": ["a:1", "b:2"]}


def told(monkeypatch, cluster, kind, index):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
    return cluster_task()


def test_ranks_count_the_chief_first(monkeypatch):
    with_chief = {"chief": ["c:3"], **WORKERS}
    assert told(monkeypatch, WORKERS, "worker", 1)[:2] == (1, ["a:1", "b:2"])
    assert launched_as() == (1, 2)
    assert told(monkeypatch, with_chief, "chief", 0)[:2] == (0, ["c:3", "a:1", "b:2"])
    assert told(monkeypatch, with_chief, "worker", 1).rank == 2


def test_one_process_is_no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert cluster_task() is None
    assert told(monkeypatch, {"worker": ["a:1"]}, "worker", 0) is None
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert cluster_task() is None


@pytest.mark.parametrize("kind, index", [("ps", 0), ("evaluator", 0), ("worker", 2), ("worker", -1)])
def test_roles_that_do_not_train_are_refused(monkeypatch, kind, index):
    with pytest.raises(UserError, match="are not supported"):
        told(monkeypatch, {**WORKERS, "ps": ["d:4"]}, kind, index)


@pytest.mark.parametrize("text", ["worker", "[1]", '{"cluster": 3}', '{"cluster": {"worker": 1}}'])
def test_what_cannot_be_read_is_named(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match="TF_CONFIG"):
        cluster_task()
    assert launched_as()[1] >= 1  # whoever asks first does not stumble over it
