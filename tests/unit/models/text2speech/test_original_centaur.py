"""Centaur computes what NVIDIA's OpenSeq2Seq computes, with the weights of a tiny model of it.

The file has the weights, inputs, outputs, loss and gradients of a model with random weights that the original has run
under TensorFlow 1.15 on a CPU, in training. The dropout after the convolutions of its attention blocks was on: the file
has its masks, which were found by search, as those that give the original's attention weights to 2e-7.
"""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.checkpoints.original import Conventions, convert
from open_seq2seq.decoders import CentaurDecoder
from open_seq2seq.encoders import CentaurEncoder
from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.parts.centaur import ResidualConvolution
from open_seq2seq.parts.component import named_modules, named_variables
from open_seq2seq.parts.conv_blocks import block
from open_seq2seq.parts.forward_pass import forward_pass

FILE = Path(__file__).parent / "original_centaur.npz"
EPSILON = 1.001e-5  # the least that TensorFlow 1's fused batch norm uses


@pytest.fixture(scope="module")
def arrays():
    return dict(np.load(FILE))


def converted(arrays, prefix, variables):
    values = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    conversion = convert(values, {name: tuple(variable.shape) for name, variable in variables.items()}, Conventions())
    assert conversion.unused == []
    return conversion.weights


def make_parts(arrays):
    """Returns the encoder, the decoder, the loss and the variables by name; convolutions read padding, as there."""
    params = json.loads(str(arrays["params"]))
    data = params["data_layer_params"]
    encoder, decoder = ({key: value for key, value in params[f"{part}_params"].items() if key != "dtype"}
                        for part in ("encoder", "decoder"))
    encoder = CentaurEncoder({**encoder, "bn_epsilon": EPSILON})
    decoder = CentaurDecoder({**decoder, "bn_epsilon": EPSILON, "num_audio_features": data["num_audio_features"],
                              "output_type": data["output_type"]}, types.SimpleNamespace(encoder=encoder))
    for part in (encoder, decoder):
        for module in named_modules(part).values():
            if isinstance(module, ResidualConvolution):
                module._settings = (*module._settings[:2], False)  # mask_padding
    variables = {f"{part}/{name}": variable for part, module in (("encoder", encoder), ("decoder", decoder))
                 for name, variable in named_variables(module).items()}
    weights = converted(arrays, "weight.", variables)
    assert {*variables} == {*weights}
    for name, variable in variables.items():
        variable.assign(weights[name])
    return encoder, decoder, Text2SpeechLoss(params["loss_params"]), variables


def forward(arrays, encoder, decoder, loss):
    ids, symbols, *targets = (tf.constant(arrays[f"in.{name}"]) for name in (
        "text", "text_len", "spec", "stop", "spec_len"))
    encoded = encoder.encode({"source_tensors": [ids, symbols]}, True)
    decoded = decoder.decode({"encoder_output": encoded, "target_tensors": targets}, True)
    terms = loss.compute_loss({"decoder_output": decoded, "target_tensors": targets})
    return encoded, decoded, tf.add_n([term.weight * term.sum / term.units for term in terms])


def assert_close(values, expected):
    np.testing.assert_allclose(np.asarray(values), expected, rtol=1e-4, atol=1e-4)


def test_outputs_loss_and_gradients_are_those_of_the_original(arrays, monkeypatch):
    masks = iter(arrays["masks"])
    monkeypatch.setattr(block, "keep_mask_of", lambda x, rate: tf.constant(next(masks)))
    encoder, decoder, loss, variables = make_parts(arrays)
    with forward_pass(0, 0), tf.GradientTape() as tape:
        encoded, decoded, total = forward(arrays, encoder, decoder, loss)
    assert_close(encoded["outputs"], arrays["eval.encoder.outputs"])
    lengths = arrays["in.spec_len"]
    assert_close(decoded["stop_token_prediction"], arrays["eval.decoder.stop_token_prediction"])
    assert not any(True for _ in masks)
    for row, length in enumerate(lengths):  # ours are zeros after the end
        for index in (0, 1, 3, 5):
            assert_close(decoded["outputs"][index][row, :length], arrays[f"eval.decoder.outputs.{index}"][row, :length])
        expected = np.repeat(arrays[f"eval.decoder.outputs.2.{row}.0"][:, 0], 2, axis=1)
        assert_close(decoded["alignments"][row, :length], expected[:, :length].transpose(1, 0, 2))
    assert_close(decoded["outputs"][2], decoded["alignments"][:, :, 1])  # force_layers is [1]
    assert_close(total, arrays["eval.loss"])
    trained = {name: variable for name, variable in variables.items() if variable.trainable}
    gradients = dict(zip(trained, tape.gradient(total, [*trained.values()]), strict=True))
    expected = converted(arrays, "grad.", variables)
    assert {*expected} == {*gradients}
    for name, gradient in gradients.items():
        assert_close(tf.convert_to_tensor(gradient), expected[name])
