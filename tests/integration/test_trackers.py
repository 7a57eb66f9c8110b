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
from typing import Any

import pytest

from open_seq2seq.metrics.trackers import MLflowTracker, close_trackers
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


def needs(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}: pip install 'open-seq2seq[{library}]'")


@pytest.fixture
def losses(workspace: Path, request: pytest.FixtureRequest) -> dict[int, float]:
    """The validation losses of a run of 8 updates that was resumed after 4, by step; the marker names the tracker."""
    needs(tracker := request.param)
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


def test_mlflow_is_told_how_a_training_ended(tmp_path: Path, monkeypatch):
    needs("mlflow")
    from mlflow import MlflowClient

    monkeypatch.chdir(tmp_path)
    for number, outcome in enumerate(("finished", "stopped", "failed")):
        tracker = MLflowTracker(f"{number:032x}", outcome, {"a": 1})
        tracker.write(1, 0.5, {"train_loss": 2.0})
        close_trackers([tracker], outcome, 300)
        assert tracker.wait(0)
    client = MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("open_seq2seq").experiment_id])
    assert {run.info.run_name: run.info.status for run in runs} == {"finished": "FINISHED", "stopped": "KILLED",
                                                                    "failed": "FAILED"}


@pytest.mark.parametrize("losses", ["wandb"], indirect=True)
def test_wandb_has_one_identifier_with_the_metrics_of_both(workspace: Path, losses):
    folders = sorted((workspace / "wandb").glob("offline-run-*"))
    assert len(folders) == 2 and len({folder.name.rpartition("-")[2] for folder in folders}) == 1
    assert _wandb_history(folders) == losses


OWN_RUN = """
import wandb
import open_seq2seq
own = wandb.init(project="mine", mode="offline")
open_seq2seq.Run("config.py", {"max_steps": 2, "eval_steps": 2, "trackers": ["wandb"]}).train(evaluate=True)
assert wandb.run is own
own.log({"val_loss": 7.0, "step": 1})
own.finish()
"""


def test_wandb_leaves_the_run_of_the_program_alone_and_gets_no_private_data(workspace: Path):
    needs("wandb")
    for command in ("init --quiet", "add config.py", "-c user.name=a -c user.email=a@b.c commit --quiet -m first"):
        subprocess.run(["git", *command.split()], cwd=workspace, check=True)
    (workspace / "own.py").write_text(OWN_RUN, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run([sys.executable, "own.py"], cwd=workspace, text=True, timeout=300, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**environment, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0 and "WARNING: the tracker" not in done.stdout, done.stdout
    histories = {folder: _wandb_history([folder]) for folder in (workspace / "wandb").glob("offline-run-*")}
    (own,) = [folder for folder, history in histories.items() if history == {1: 7.0}]
    (ours,) = histories.keys() - {own}
    assert histories[ours].keys() == {2}
    assert not (ours / "files" / "output.log").exists() and not list(ours.rglob("code/*"))
    records = [*_wandb_records(ours)]
    assert not any(record.HasField("output_raw") or record.HasField("output") for record in records)
    assert not any(record.run.git.commit or record.run.git.remote_url for record in records)


def _wandb_history(folders: list[Path]) -> dict[int, float]:
    """Returns the validation losses in the files that ``wandb sync`` uploads, by step."""
    found = {}
    for record in (record for folder in folders for record in _wandb_records(folder)):
        items = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
        if "val_loss" in items:
            found[json.loads(items["step"])] = json.loads(items["val_loss"])
    return found


def _wandb_records(folder: Path) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    return map(Record.FromString, _records(next(folder.glob("*.wandb")).read_bytes()))


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
