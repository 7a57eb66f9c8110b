"""Trackers: what they get and when, what a failure does, and what is said of unknown names and missing libraries."""

from __future__ import annotations

import importlib.util

import pytest

import open_seq2seq.models  # noqa: F401 (it registers the kinds of names)
from open_seq2seq.config.names import resolve_name
from open_seq2seq.metrics import trackers
from open_seq2seq.metrics.trackers import TRACKERS, Tracker, flattened, missing_libraries
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

    def close(self, finished):
        self._call("close", finished)


def test_a_run_begins_with_its_first_metrics():
    tracker = Recorder("0" * 32, "title", {})
    tracker.end(True)
    assert tracker.calls == []
    tracker.write(4, 0.5, {"val_loss": 1.0})
    tracker.write(8, 1.0, {"val_loss": 0.5})
    tracker.end(False)
    assert tracker.calls == [("begin",), ("send", 4, {"val_loss": 1.0, "epoch": 0.5}),
                             ("send", 8, {"val_loss": 0.5, "epoch": 1.0}), ("close", False)]


@pytest.mark.parametrize("failing", ["begin", "send"])
def test_a_tracker_that_fails_warns_once_and_gets_no_more(failing, capsys, monkeypatch):
    monkeypatch.setattr(Recorder, "failing", (failing,))
    tracker = Recorder("0" * 32, "title", {})
    for step in range(3):
        tracker.write(step, 0.0, {})
    tracker.end(True)
    assert [name for name, *_ in tracker.calls] == ["begin", "send"][:1 + (failing == "send")]
    assert capsys.readouterr().out == ("*** WARNING: the tracker Recorder failed and gets no more metrics: the server "
                                       "is gone\n")


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
