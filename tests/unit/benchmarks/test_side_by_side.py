"""Programs take turns, and their durations are compared with those of the first."""

from __future__ import annotations

import sys

import pytest
import tensorflow as tf

from benchmarks.measuring.processes import Failure
from benchmarks.measuring.side_by_side import comparison_table, gradient_pass, mean_pass, take_turns
from benchmarks.measuring.torch_process import TorchProcess
from open_seq2seq.utils.errors import UserError


def test_the_first_round_is_not_counted():
    calls = []

    def program(name, seconds):
        def one_pass():
            calls.append(name)
            return next(seconds)

        return one_pass

    found = take_turns({"a": program("a", iter([9.0, 1.0, 2.0])), "b": program("b", iter([8.0, 3.0, 4.0]))}, 2)
    assert found == {"a": [1000.0, 2000.0], "b": [3000.0, 4000.0]}
    assert calls == ["a", "b"] * 3


def test_a_gradient_pass_computes_the_gradients_of_weights():
    weight, computed = tf.Variable(2.0), []

    @tf.custom_gradient
    def identity(value):
        def grad(dy):
            return tf.numpy_function(lambda given: computed.append(float(given)) or given, [dy], tf.float32)

        return tf.identity(value), grad

    gradient_pass(lambda x: identity(weight) * x, tf.ones([3, 1]), [weight])()
    assert computed == [12.0]  # of the sum of three times (weight · 1)²


def test_a_round_is_the_mean_of_its_passes():
    assert mean_pass(iter([1.0, 2.0, 6.0]).__next__, 3)() == 3.0


def test_speeds_are_relative_to_the_first_row():
    table = comparison_table({"theirs": [400.0, 200.0, 300.0], "ours": [60.0]}, "images", 30).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert cells[0] == ["", "ms, median", "range", "images/s", "speed by theirs"]
    assert cells[2:] == [["theirs", "300", "200 to 400", "100", "1.00"],
                         ["ours", "60.0", "60.0 to 60.0", "500", "5.00"]]
    assert "images/s" not in comparison_table({"ours": [1.0]})


def test_an_interpreter_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UserError, match="--torch_python=.*no-python cannot be run"):
        TorchProcess(str(tmp_path / "no-python"), "torch_resnet", [])


def test_a_program_that_ends_early_is_a_failure():
    with TorchProcess(sys.executable, "torch_resnet", []) as process, pytest.raises(Failure, match="PyTorch program"):
        process()
