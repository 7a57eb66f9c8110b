"""The benchmark of image training on a toy size."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.image_training import CLASSES, convolution_products, main, parse_arguments
from benchmarks.measuring.keras_resnet import make_batches, make_network
from open_seq2seq.encoders import ResNetEncoder
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.utils.errors import UserError


@pytest.mark.long
def test_the_table_has_a_row_for_each_program(capsys):
    main(["--blocks=1", "--batch=2", "--images=6", "--rounds=1", "--steps=1", "--threads=1", "--keras=off",
          "--dtypes=float32"])
    output = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in output.splitlines() if "jit_compile" in line or "| ours" in line][1:] == [
        "| Keras' fit, jit_compile off", "| ours, float32"]
    assert "input wait of ours, float32: " in output and "raw products in float32" in output
    assert "PyTorch is not measured" in output


@pytest.mark.parametrize("blocks", [1, 3])
def test_keras_has_the_network_of_the_toolkit(blocks):
    with creating_variables(1):
        encoder = ResNetEncoder({"block_sizes": [blocks] * 3, "version": 1, "first_num_filters": 16,
                                 "first_kernel_size": 3, "first_conv_stride": 1, "first_pool_size": 0})
    ours = sorted(tuple(variable.shape) for variable in named_variables(encoder).values())
    theirs = sorted(tuple(weight.shape) for weight in make_network(blocks, CLASSES).weights)
    for shape in ((64, CLASSES), (CLASSES,)):  # the layer of the decoder
        theirs.remove(shape)
    assert ours == theirs


def test_the_products_are_those_of_all_convolutions():
    """A multiplication for each weight and output pixel; the network of Keras knows the sizes."""
    options = parse_arguments(["--blocks=2", "--batch=3"])
    expected = 0
    for layer in make_network(options.blocks, CLASSES).layers:
        kernel = getattr(layer, "kernel", None)
        if kernel is not None:
            expected += options.batch * int(np.prod(layer.output.shape[1:-1])) * int(np.prod(kernel.shape))
    done = sum(product.multiplications for product in convolution_products(options))
    assert done == expected


def test_batches_are_standardised_and_differ():
    first, second = (images.numpy() for images, _ in make_batches(4, 4, CLASSES).take(2))
    assert first.shape == (4, 32, 32, 3) and not np.array_equal(first, second)
    np.testing.assert_allclose(first.mean((1, 2, 3)), 0.0, atol=1e-4)
    np.testing.assert_allclose(first.std((1, 2, 3)), 1.0, rtol=1e-4)


@pytest.mark.parametrize("options, message", [
    (["--keras=off,fast"], "'fast'"), (["--images=4", "--batch=2"], "least 5"), (["--images=100"], "--batch")])
def test_bad_options_are_named(options, message):
    with pytest.raises(UserError, match=message):
        main(options)
