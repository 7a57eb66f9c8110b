"""The tables of benchmarks that time single kernels, on toy sizes."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import ctc_decoding, kernels
from open_seq2seq.utils.errors import UserError


def rows(output):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in output.splitlines()
            if line.startswith("|")]


def test_decoding(capsys):
    ctc_decoding.main(["--frames", "40", "--repeats", "1", "--beam_width", "4", "--vocabulary", "50"])
    table = rows(capsys.readouterr().out)[2:]
    assert [row[0] for row in table] == 2 * ["clear", "noisy", "flat"]
    assert all(float(row[3]) > 0 for row in table)


def measure(kernel, shapes, **options):
    return kernels.MEASURE[kernel](shapes, argparse.Namespace(rounds=1, threads=1, **options))


def test_losses():
    table = rows(measure("ctc_loss", [(3, 20, 5, 4)]))
    assert [row[0] for row in table[2:]] == ["tf.raw_ops.CTCLoss", "here"]


def test_convolutions():
    table = rows(measure("convolution", [(3, 2, 4, 1, 2, 9), (4, 3, 2, 2, 1, 8)], dtypes=["float32"]))
    assert [row[1:3] for row in table[2:]] == [["3, 2 → 4", "1"], ["4, 3 → 2", "2"]]
    assert all(float(row[7]) < 1e-4 for row in table[2:])


@pytest.mark.long
@pytest.mark.parametrize(("cell", "python", "peers"), [("gru", "", ["Keras, float32"]), ("classic_gru", "/none", [])])
def test_recurrences(cell, python, peers):
    """Other toolkits have no layers with the other cells, with which these could be compared."""
    text = measure("recurrence", [(2, 5, 3)], dtypes=["float32", "bfloat16"], cell=cell, layers=1, hidden=4,
                   unidirectional=False, torch_python=python)
    assert [row[0] for row in rows(text)[2:]] == ["ours, float32", "ours, bfloat16", *peers]
    assert "raw products in bfloat16" in text


@pytest.mark.parametrize("cell, gates", [("lstm", 4), ("gru", 3)])
def test_the_products_of_a_recurrence_are_those_of_all_weights(cell, gates):
    options = argparse.Namespace(cell=cell, layers=3, hidden=4, unidirectional=False, batch=2, length=5, input=6)
    done = sum(product.multiplications for product in kernels.recurrent_products(options))
    assert done == 2 * 5 * 2 * gates * 4 * (6 + 4 + 2 * (8 + 4))  # rows, directions, columns, rows of the matrices


def test_all_gradients_are_computed():
    weight, computed = tf.Variable(2.0), []

    @tf.custom_gradient
    def identity(value):
        def grad(dy):
            return tf.numpy_function(lambda slope: computed.append(float(slope)) or slope, [dy], tf.float32)

        return tf.identity(value), grad

    squares = kernels.with_gradients(lambda x: identity(weight) * x, [tf.ones([3, 1])], [weight])()
    assert computed == [6.0]  # three outputs of 2, which are their own gradients, times inputs of 1
    np.testing.assert_allclose(squares, [3 * 4.0 ** 2, 6.0 ** 2])


@pytest.mark.parametrize("shape", ["3,2,4,1,2", "3,2,four,1,2,9", "3,2,4,0,2,9", ""])
def test_a_shape_that_is_none_is_named(shape):
    with pytest.raises(UserError, match="--shapes"):
        kernels.main(["convolution", "--shapes", shape])
