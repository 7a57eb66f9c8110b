"""Tests of functions compiled by runners."""

import logging

import pytest
import tensorflow as tf

from open_seq2seq.runners.runner import Runner


class Doubling:
    def __init__(self) -> None:
        self.step = Runner().compile(self.double, [tf.TensorSpec([], tf.float32)])

    def double(self, number: tf.Tensor) -> tf.Tensor:
        return 2.0 * number


def test_many_objects_of_a_class_do_not_count_as_retracing(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        tf.get_logger().addHandler(caplog.handler)
        try:
            results = [Doubling().step([number])[0].numpy() for number in range(12)]
        finally:
            tf.get_logger().removeHandler(caplog.handler)
    assert results == [2.0 * number for number in range(12)]
    assert "retracing" not in caplog.text


def test_compiled_functions_keep_their_names():
    assert "double" in str(Doubling().step._function.get_concrete_function().name)
