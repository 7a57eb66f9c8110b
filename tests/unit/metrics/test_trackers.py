"""Trackers: what they get and when, failures, slow servers, and what is said of unknown names and missing libraries."""

from __future__ import annotations

import importlib.util
import posixpath
import re
import sys
import threading
from types import SimpleNamespace

import pytest

import open_seq2seq.models  # noqa: F401 (it registers the kinds of names)
from open_seq2seq.config.names import resolve_name
from open_seq2seq.metrics import trackers
from open_seq2seq.metrics.trackers import TRACKERS, Tracker, close_trackers, flattened, missing_libraries
from open_seq2seq.runners.horovod.elastic import HostsChanged
from open_seq2seq.training.recovery.recovery import PrecisionLowered
from open_seq2seq.training.train import tracked
from open_seq2seq.utils.errors import ConfigError


class Recorder(Tracker):
    """Records its calls; those whose name is in ``failing`` fail."""

    failing: tuple[str, ...] = ()

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.calls = []

    def _call(self, name, *arguments):
        self.calls.append((name, *arguments))
        if name in self.failing:
            raise RuntimeError("the server is gone\nsecond line")

    def begin(self):
        self._call("begin")

    def send(self, step, values):
        self._call("send", step, values)

    def close(self, outcome):
        self._call("close", outcome)


def test_a_run_begins_with_its_first_metrics():
    tracker = Recorder("0" * 32, "title", {})
    close_trackers([tracker], "finished")
    assert tracker.calls == []
    tracker.write(4, 0.5, {"val_loss": 1.0})
    tracker.write(8, 1.0, {"val_loss": 0.5})
    close_trackers([tracker], "stopped")
    assert tracker.calls == [("begin",), ("send", 4, {"val_loss": 1.0, "epoch": 0.5}),
                             ("send", 8, {"val_loss": 0.5, "epoch": 1.0}), ("close", "stopped")]


def test_a_server_that_does_not_answer_does_not_stop_the_training(monkeypatch, capsys):
    answer = threading.Event()
    monkeypatch.setattr(Recorder, "send", lambda self, step, values: answer.wait())
    slow = Recorder("0" * 32, "title", {})
    slow.write(1, 0.0, {})  # does not return if it waits
    close_trackers([slow], "finished", 0.01)
    assert capsys.readouterr().out == ("*** WARNING: the tracker Recorder does not answer; the last metrics are missing"
                                       " there.\n")
    answer.set()
    assert slow.wait(60) and slow.calls == [("begin",), ("close", "finished")]


def test_one_slow_tracker_takes_no_time_from_the_others(monkeypatch):
    first, second = Recorder("0" * 32, "slow", {}), Recorder("0" * 32, "quick", {})
    answer = threading.Event()
    monkeypatch.setattr(first, "send", lambda step, values: answer.wait())
    for tracker in (first, second):
        tracker.write(1, 0.0, {})
    close_trackers([first, second], "finished", 0.01)
    assert second.wait(60) and second.calls[-1] == ("close", "finished")
    answer.set()


@pytest.mark.parametrize(("error", "outcome"), [
    (RuntimeError("a bug"), "failed"), (SystemExit(3), "failed"), (KeyboardInterrupt(), "stopped"),
    (HostsChanged("a host joined"), "stopped"), (PrecisionLowered(None, "float32"), "stopped")])
def test_trackers_are_told_how_the_training_ended(error, outcome):
    tracker = Recorder("0" * 32, "title", {})
    tracker.write(1, 0.0, {})
    with pytest.raises(type(error)), tracked(SimpleNamespace(trackers=[tracker])):
        raise error
    assert tracker.wait(60) and tracker.calls[-1] == ("close", outcome)


@pytest.mark.parametrize("failing", ["begin", "send"])
def test_a_tracker_that_fails_warns_once_and_gets_no_more(failing, capsys, monkeypatch):
    monkeypatch.setattr(Recorder, "failing", (failing,))
    tracker = Recorder("0" * 32, "title", {})
    for step in range(3):
        tracker.write(step, 0.0, {})
    close_trackers([tracker], "finished")
    assert [name for name, *_ in tracker.calls] == ["begin", "send"][:1 + (failing == "send")]
    assert capsys.readouterr().out == ("*** WARNING: the tracker Recorder failed and gets no more metrics: the server "
                                       "is gone\n")


def test_mlflow_gets_names_and_numbers_of_values_that_it_accepts(monkeypatch):
    requests = []
    pair = SimpleNamespace(Metric=lambda name, *_: name, Param=lambda name, _: name)
    monkeypatch.setitem(sys.modules, "mlflow.entities", pair)
    params = {"lr_factors/encoder/(layer_0|layer_1)/": 0.5, "max_steps": 3}
    tracker = trackers.MLflowTracker("0" * 32, "title", params)
    tracker._id = "1"
    tracker._client = SimpleNamespace(log_batch=lambda run, metrics=(), params=(): requests.append([*metrics, *params]))
    tracker._log_params()
    tracker.send(1, {f"larc_final_lr/encoder/layer_{number}/kernel": 0.1 for number in range(1200)} | {"acc@5": 0.5})
    names = [name for request in requests for name in request]
    assert len(names) == 1203 and "max_steps" in names and "larc_final_lr/encoder/layer_7/kernel" in names
    # MLflow's own conditions
    assert max(map(len, requests)) <= 1000
    assert all(re.fullmatch(r"[/\w.\- ]+", name) and posixpath.normpath(name) == name for name in names)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_library_names_the_extra(name, monkeypatch):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda library: None)
    assert [*missing_libraries([TRACKERS[name], Recorder, "unknown"])] == [
        f"'trackers' contains {TRACKERS[name].__name__}, but the library {name} is not installed: run `pip install "
        f"'open-seq2seq[{name}]'`."]
    assert importlib.util.find_spec is trackers.importlib.util.find_spec


def test_names_are_resolved_and_unknown_ones_are_told_the_known():
    assert resolve_name("mlflow", "tracker", "trackers/0") is trackers.MLflowTracker
    with pytest.raises(ConfigError, match="'trackers/0' is 'comet', but there is no such tracker. The known names are "
                                          "mlflow, wandb."):
        resolve_name("comet", "tracker", "trackers/0")
    with pytest.raises(ConfigError, match="Did you mean 'wandb'?"):
        resolve_name("wanddb", "tracker", "trackers/0")


def test_nested_parameters_have_paths():
    assert flattened({"a": 1, "b": {"c": [2], "d": {}}}) == {"a": 1, "b/c": [2], "b/d": {}}
