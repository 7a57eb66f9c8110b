"""The real MLflow and Weights & Biases get the metrics of a run, and a resumed run continues theirs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from open_seq2seq.training.loop.metrics_file import read_metrics
from tests.integration.conftest import ROOT

# Few, so that also make test-long runs them where the libraries are installed.
pytestmark = [pytest.mark.long, pytest.mark.outside, pytest.mark.timeout(900)]


def train(workspace: Path, tracker: str, steps: int, *words: str) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "run.py"), "--config_file=config.py", "--mode=train_eval",
                           "--print_loss_steps=2", "--eval_steps=2", f"--max_steps={steps}",
                           f"--trackers=['{tracker}']", *words], cwd=workspace, text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0 and "WARNING: the tracker" not in done.stdout, done.stdout


@pytest.fixture
def losses(workspace: Path, request: pytest.FixtureRequest) -> dict[int, float]:
    """The validation losses of a run of 8 updates that was resumed after 4, by step; the marker names the tracker."""
    tracker = request.param
    if importlib.util.find_spec(tracker) is None:
        pytest.skip(f"needs {tracker}: pip install 'open-seq2seq[{tracker}]'")
    train(workspace, tracker, 4)
    train(workspace, tracker, 8, "--continue_learning")
    return read_metrics(workspace / "run" / "metrics.csv")["val_loss"]


@pytest.mark.parametrize("losses", ["mlflow"], indirect=True)
def test_mlflow_has_one_run_with_the_metrics_of_both(workspace: Path, losses, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.chdir(workspace)
    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("open_seq2seq").experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name == "run"
    assert run.data.params["lr_policy_params/learning_rate"] == "1.0" and run.data.params["random_seed"] == "3"
    history = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, "val_loss")}
    assert history == losses and sorted(history) == [2, 4, 6, 8]
    assert {metric.step for metric in client.get_metric_history(run.info.run_id, "train_loss")} == {2, 4, 6, 8}


@pytest.mark.parametrize("losses", ["wandb"], indirect=True)
def test_wandb_has_one_identifier_with_the_metrics_of_both(workspace: Path, losses):
    folders = sorted((workspace / "wandb").glob("offline-run-*"))
    assert len(folders) == 2 and len({folder.name.rpartition("-")[2] for folder in folders}) == 1
    assert _wandb_history(folders) == losses


def _wandb_history(folders: list[Path]) -> dict[int, float]:
    """Returns the validation losses in the files that ``wandb sync`` uploads, by step."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = {}
    for folder in folders:
        for data in _records(next(folder.glob("*.wandb")).read_bytes()):
            items = {"/".join(item.nested_key) or item.key: item.value_json
                     for item in Record.FromString(data).history.item}
            if "val_loss" in items:
                found[json.loads(items["step"])] = json.loads(items["val_loss"])
    return found


def _records(content: bytes) -> Iterator[bytes]:
    """Yields the records of a file in the format of LevelDB's log, after a header of 7 bytes."""
    place, parts = 7, b""
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:  # no record begins at the end of a block
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7:place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def test_a_tracker_of_ones_own_gets_the_metrics(workspace: Path):
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Lines" in block]
    (workspace / "lines.py").write_text(code, encoding="utf-8")
    train(workspace, "lines.py:Lines", 4)
    lines = (workspace / "run.txt").read_text(encoding="utf-8").splitlines()
    assert [line.partition(" ")[0] for line in lines if "val_loss" in line] == ["2", "4"]
    assert "lines.py:Lines" in (workspace / "run/model.ckpt-4/config.yaml").read_text(encoding="utf-8")
