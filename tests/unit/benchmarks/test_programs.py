"""Programs take turns, and their durations are compared with those of the first."""

from __future__ import annotations

import argparse
import sys

import pytest
import tensorflow as tf

from benchmarks.measuring.peer_process import PeerProcess
from benchmarks.measuring.processes import Failure
from benchmarks.measuring.programs import comparison_table, describe_machine, take_turns, with_range
from open_seq2seq.utils.errors import UserError


def test_the_first_round_is_not_counted():
    calls = []

    def program(name, seconds):
        def one_pass():
            calls.append(name)
            return next(seconds)

        return one_pass

    durations = take_turns({"a": program("a", iter([9.0, 1.0, 2.0])), "b": program("b", iter([8.0, 3.0, 4.0]))}, 2)
    assert durations == {"a": [1000.0, 2000.0], "b": [3000.0, 4000.0]}
    assert calls == ["a", "b"] * 3


def test_a_median_comes_with_its_range():
    assert with_range([1.0, 4.0, 2.0], ".1f") == "2.0 (1.0–4.0)"


def test_the_machine_names_its_gpu(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"] if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"device_name": "NVIDIA L4"})
    text, gpus = describe_machine()
    assert gpus == 1 and text.startswith("NVIDIA L4; host: ") and tf.__version__ in text


def test_speeds_are_relative_to_the_first_row():
    table = comparison_table({"theirs": [400.0, 200.0, 300.0], "ours": [60.0]}, "images", 30).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert cells[0] == ["", "ms, median", "range", "images/s", "speed by theirs"]
    assert cells[2:] == [["theirs", "300", "200 to 400", "100", "1.00"],
                         ["ours", "60.0", "60.0 to 60.0", "500", "5.00"]]
    assert "images/s" not in comparison_table({"ours": [1.0]})


def peer(python):
    return PeerProcess("torch_networks", argparse.Namespace(torch_python=str(python)))


def test_an_interpreter_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UserError, match="--torch_python=.*no-python cannot be run"):
        peer(tmp_path / "no-python")


def test_a_program_that_ends_early_is_a_failure():
    with peer(sys.executable) as process, pytest.raises(Failure, match="other toolkit"):
        process()
