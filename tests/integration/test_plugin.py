"""The plugin of the documentation: built, installed in a folder of its own, trained with, and trusted or not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT

pytestmark = pytest.mark.long
NAMES = ["--encoder=open-seq2seq-reversed:ReversedEncoder", "--lr_policy=open-seq2seq-reversed:triangular",
         "--lr_policy_params/warmup_steps=50"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder that the plugin is installed in."""
    root = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "docs/examples/plugin", root / "source")
    subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "-q",
                    f"--target={root / 'site'}", root / "source"], check=True, timeout=300)
    return root / "site"


def run(workspace: Path, plugins: Path | None, *words: str) -> tuple[int, str]:
    path = os.pathsep.join(str(one) for one in (ROOT, plugins) if one is not None)
    done = subprocess.run([sys.executable, str(ROOT / "run.py"), *words], cwd=workspace, timeout=300, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": path})
    return done.returncode, done.stdout


def test_a_plugin_trains_and_its_logdir_needs_it_and_trust(workspace: Path, installed: Path):
    config = f"--config_file={workspace}/config.py"
    code, output = run(workspace, installed, config, "--mode=train", "--max_steps=4", *NAMES)
    assert code == 0, output
    saved = (workspace / "run/model.ckpt-4/config.yaml").read_text(encoding="utf-8")
    assert "open-seq2seq-reversed:ReversedEncoder" in saved and "open-seq2seq-reversed:triangular" in saved
    infer = ["--mode=infer", "--logdir=run", "--infer_files", "dev.src"]
    for plugins in (installed, None):  # the config is refused before it is known whether the package is there
        code, output = run(workspace, plugins, *infer)
        assert code == 2 and "which is code of the package open-seq2seq-reversed" in output, output
    code, output = run(workspace, None, *infer, "--trust_code")
    assert code == 2 and "no package open-seq2seq-reversed with plugins is installed" in output, output
    code, output = run(workspace, installed, *infer, "--trust_code")
    assert code == 0 and len((workspace / "infer-out.txt").read_text(encoding="utf-8").splitlines()) == 20, output


def test_the_doctor_lists_the_plugin(workspace: Path, installed: Path):
    code, output = run(workspace, installed, "doctor")
    assert code == 0 and "  open-seq2seq-reversed 1.0: ReversedEncoder, triangular" in output
