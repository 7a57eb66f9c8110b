"""Training over two hosts, with the commands of docs/distributed.md; the hosts are network namespaces."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.integration.conftest import ROOT
from tests.integration.hosts import two_hosts, why_not
from tests.integration.ranks import (
    BIN,
    NEEDS_HOROVOD,
    NO_DROPOUT,
    add_hooks,
    alone,
    assert_identical,
    losses,
    weights,
)

pytestmark = NEEDS_HOROVOD

FEW = [*NO_DROPOUT, "--max_steps=6", "--save_checkpoint_steps=null", "--max_grad_norm=1.0"]


# Each rank writes where it finds itself: its host, and how many ranks that has.
WHERE = '''
import socket

class Where(Hook):
    def begin(self, trainer):
        with open(root + f"/where-{trainer.runner.process_rank}", "w") as file:
            file.write(f"{socket.gethostname()} {getattr(trainer.runner, 'local_size', 1)}")

base_params["hooks"] = [Keep, Where]
'''


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with two_hosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


@pytest.fixture
def workspace(workspace):
    add_hooks(workspace)
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write(WHERE)
    return workspace


def on_both(hosts, workspace, launcher: str, *arguments: str) -> tuple[int, str]:
    """Runs the command with a rank on each host, launched from the first: (exit code, stdout and stderr)."""
    where = ",".join(f"{name}:1" for name in hosts.names)
    launch = {"mpiexec": ["mpiexec", *(["--allow-run-as-root"] if os.getuid() == 0 else []), "--bind-to", "none",
                          "-np", "2", "-H", where, "-x", "PATH", "-x", "PYTHONPATH", "-x", "TF_NUM_INTRAOP_THREADS"],
              "horovodrun": ["horovodrun", "--gloo", "-np", "2", "-H", where]}[launcher]
    environment = {**os.environ, "PATH": f"{hosts.root}:{BIN}:{os.environ['PATH']}", "TF_NUM_INTRAOP_THREADS": "1"}
    done = subprocess.run(hosts.login(0, *launch, sys.executable, str(ROOT / "run.py"),
                                      f"--config_file={workspace}/config.py", "--use_horovod=True", *arguments),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=workspace,
                          env=environment, timeout=240, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("launcher", ["mpiexec", pytest.param("horovodrun", marks=pytest.mark.slow)])
def test_two_hosts_are_one_process_with_iter_size_2(hosts, workspace, launcher):
    single = losses(alone(workspace, *FEW, "--iter_size=2"))
    one = weights(workspace, 0)
    before = hosts.sent(1)
    code, output = on_both(hosts, workspace, launcher, *FEW, f"--logdir={workspace}/two")
    assert code == 0, output
    assert [(workspace / f"where-{rank}").read_text() for rank in (0, 1)] == [f"{name} 1" for name in hosts.names]
    assert f"2 ranks on 2 hosts ({', '.join(hosts.names)})" in output
    assert len(losses(output)) == 6, output
    np.testing.assert_allclose(losses(output)[:5], single[:5], rtol=1e-5)
    assert_identical(weights(workspace, 0), weights(workspace, 1))
    for name, array in weights(workspace, 0).items():
        np.testing.assert_allclose(array, one[name], rtol=1e-3, atol=1e-4, err_msg=name)
    # What is kept holds each weight and its two moments; the gradients of six updates went over the cable.
    assert hosts.sent(1) - before > 6 * sum(array.nbytes for array in one.values()) / 4


def test_a_failure_on_the_other_host_is_named_and_ends_all(hosts, workspace):
    with open(workspace / "config.py", "a", encoding="utf-8") as config:
        config.write('base_params["hooks"] = [FailingHook]\n')
    code, output = on_both(hosts, workspace, "mpiexec", "--max_steps=1000000")
    assert code != 0
    assert "a rank of its own mind" in output
    assert re.search(rf"rank 1 on host {hosts.names[1]}", output), output
