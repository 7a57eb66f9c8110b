"""A run killed at any file event, and started again by deploy/resume.sh, ends with the weights of one that was not.

The judge is ckpt-chaos (https://pypi.org/project/ckpt-chaos), which kills a training before each file event, or in the
middle of a write.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHAOS = Path(sys.executable).parent / "ckpt-chaos"
ONE_RANK = 'exec "$@"\n'
# ckpt-chaos sets RANK and MASTER_PORT for each process, as torchrun does.
TWO_RANKS = """next=$((MASTER_PORT + 1))
export TF_CONFIG='{"cluster": {"worker": ["127.0.0.1:'$MASTER_PORT'", "127.0.0.1:'$next'"]},
 "task": {"type": "worker", "index": '$RANK'}}'
exec "$@"
"""


def verdicts(workspace, launcher, *options):
    """Returns the number of crash points of each verdict, and the whole output of the judge."""
    (workspace / "launch.sh").write_text(launcher)
    command = ["sh", workspace / "launch.sh", "sh", ROOT / "deploy/resume.sh", "{out}/logdir", sys.executable,
               ROOT / "run.py", f"--config_file={workspace}/config.py", "--mode=train_eval", "--logdir={out}/logdir",
               "--max_steps=4", "--save_checkpoint_steps=2", "--eval_steps=2", "--save_summaries_steps=2"]
    judge = subprocess.run([CHAOS, "run", "--work", workspace / "points", "--timeout", "300", "--result-file",
                            "{out}/logdir/model.ckpt-4/weights.safetensors", *options, "--", *command],
                           cwd=workspace, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    counts = re.findall(r"^([A-Z_]+): (\d+)$", judge.stdout, re.MULTILINE)
    return {name: int(count) for name, count in counts}, judge.stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_few_crash_points(workspace):
    counts, output = verdicts(workspace, ONE_RANK, "--max-points=4")
    assert counts == {"PASS": 5}, output  # with a run that is not killed


@pytest.mark.outside
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("launcher", "options"), [(ONE_RANK, ["--jobs=2"]), (TWO_RANKS, ["--ranks=2"])],
                         ids=["one rank", "two ranks"])
def test_all_crash_points(workspace, launcher, options):
    counts, output = verdicts(workspace, launcher, "--max-points=1000", *options)  # it tries 40 by default
    print(output)
    assert set(counts) == {"PASS"}, output
