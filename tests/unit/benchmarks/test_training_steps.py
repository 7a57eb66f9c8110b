"""The benchmark of training steps on toy sizes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measuring.keras_resnet import make_network
from benchmarks.measuring.settings import make_trainer
from benchmarks.measuring.small_models import base_params, write_config
from benchmarks.training_steps import gnmt, lm, main, parse_arguments, resnet, tacotron, wavenet
from open_seq2seq.encoders import ResNetEncoder, WavenetEncoder
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.utils.errors import UserError

SMALL = ["--hidden=4", "--layers=2", "--ids=20", "--batch=2", "--length=3", "--blocks=1", "--images=6",
         "--frames=5"]


@pytest.mark.parametrize("network", [pytest.param("lm", marks=pytest.mark.long),
                                     *(pytest.param(name, marks=pytest.mark.slow)
                                       for name in ("gnmt", "resnet", "tacotron", "wavenet"))])
def test_the_table_has_a_row_for_each_dtype(capsys, network):
    main([network, *SMALL, "--rounds=1", "--steps=1", "--threads=1", "--dtypes=float32,mixed_bfloat16"])
    output = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in output.splitlines() if line.startswith(("| Keras", "| ours"))] == [
        *(["| Keras' fit"] if network == "resnet" else []), "| ours, float32", "| ours, mixed_bfloat16 (bfloat16)"]
    assert "input wait of ours, float32: " in output and "raw products in float32" in output
    assert "PyTorch is not measured" in output


def multiplications(network):
    return sum(product.multiplications for product in network.products)


def test_the_products_of_the_language_model_are_those_of_all_weights(tmp_path):
    """Each weight matrix is multiplied with every position once."""
    network = lm(tmp_path, parse_arguments(["lm", *SMALL]))
    assert multiplications(network) == network.objects * (2 * (4 + 4) * 4 * 4 + 4 * 20)


@pytest.mark.parametrize("feeds", [False, True])
def test_the_products_of_gnmt_are_those_of_all_weights(tmp_path, feeds):
    options = parse_arguments(["gnmt", *SMALL, "--layers=3", *(["--input_feeding"] if feeds else [])])
    network, hidden, layers = gnmt(tmp_path, options), 4, 3
    lstm = [(hidden, 2), (2 * hidden, 1), (hidden, layers - 2), (hidden * (2 if feeds else 1), 1),
            (2 * hidden, layers - 1)]
    weights = sum(count * (size + hidden) * 4 * hidden for size, count in lstm) + 2 * hidden ** 2 + hidden * 20
    assert multiplications(network) == network.objects * weights
    assert sum(count * rows * inner * columns for product in network.products
               for count, rows, inner, columns in product.with_gradients()) == 3 * multiplications(network)


def test_the_products_of_the_resnet_are_those_of_all_convolutions(tmp_path):
    """A multiplication for each weight and output pixel; the network of Keras knows the sizes."""
    options = parse_arguments(["resnet", "--blocks=2", "--batch=3", "--images=6"])
    expected = 0
    for layer in make_network(options.blocks).layers:
        kernel = getattr(layer, "kernel", None)
        if kernel is not None:
            expected += options.batch * int(np.prod(layer.output.shape[1:-1])) * int(np.prod(kernel.shape))
    assert multiplications(resnet(tmp_path, options)) == expected


@pytest.mark.slow
def test_the_products_of_tacotron_are_those_of_all_matrices(tmp_path):
    """A weight of the encoder, or of the keys, is multiplied once for each symbol, any other once for each frame."""
    options = parse_arguments(["tacotron", *SMALL, "--hidden=8"])
    network = tacotron(tmp_path, options)
    config = write_config(tmp_path / "config.py", network.base_model, {
        "base_params": {**base_params(tmp_path, options.batch), **network.params}})
    expected = 0
    for name, variable in named_variables(make_trainer(str(config), []).model).items():
        if len(variable.shape) > 1 and not any(word in name for word in ("embedding", "attention/", "stop_token")):
            repeats = options.length if name.startswith("encoder") else options.frames
            expected += options.batch * repeats * int(np.prod(variable.shape))
    attention = options.batch * 128 * (4 * options.length + 8 * options.frames)  # keys and queries
    assert multiplications(network) == expected + attention


def test_the_products_of_wavenet_are_those_of_all_kernels(tmp_path):
    """The first kernel is read like a table, and the last two are multiplied only with samples that are predicted."""
    options = parse_arguments(["wavenet", *SMALL, "--blocks=2"])
    network = wavenet(tmp_path, options)
    with creating_variables(1):
        encoder = WavenetEncoder({**network.params["encoder_params"], "num_audio_features": 80})
    rows = options.batch * (options.frames * 256 - 1)
    repeats = {"output": network.objects, "filter_condition": 10, "gate_condition": 10, "preprocess": 0}
    assert network.objects == options.batch * (options.frames * 256 - encoder.receptive_field)
    assert multiplications(network) == sum(
        next((count for part, count in repeats.items() if name.startswith(part)), rows) * int(np.prod(variable.shape))
        for name, variable in named_variables(encoder).items() if len(variable.shape) > 1)


@pytest.mark.parametrize("blocks", [1, 3])
def test_keras_has_the_network_of_the_toolkit(blocks):
    with creating_variables(1):
        encoder = ResNetEncoder({"block_sizes": [blocks] * 3, "version": 1, "first_num_filters": 16,
                                 "first_kernel_size": 3, "first_conv_stride": 1, "first_pool_size": 0})
    ours = sorted(tuple(variable.shape) for variable in named_variables(encoder).values())
    theirs = sorted(tuple(weight.shape) for weight in make_network(blocks).weights)
    for shape in ((64, 10), (10,)):  # the layer of the decoder
        theirs.remove(shape)
    assert ours == theirs


@pytest.mark.parametrize("options, message", [
    (["gnmt", "--layers=1"], "--layers"), (["lm", "--ids=2"], "--ids"), (["resnet", "--images=100"], "--batch"),
    (["resnet", "--images=4", "--batch=2"], "least 5"), (["tacotron", "--hidden=6"], "multiple of 4"),
    (["wavenet", "--hidden=5"], "multiple of 2"), (["wavenet", "--torch_python=python3"], "cannot be used"),
    (["wavenet", "--layers=10", "--frames=2"], "--frames has to be larger")])
def test_bad_options_are_named(options, message):
    with pytest.raises(UserError, match=message):
        main(options)
