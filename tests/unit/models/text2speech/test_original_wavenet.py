"""WaveNet computes what NVIDIA's OpenSeq2Seq computes, with the weights of a tiny model of it.

The file has the weights, inputs, logits, loss and gradients of a model with random weights that the original has run
under TensorFlow 1.15 on a CPU, in training. Its convolutions and statistics read padding, so no clip is padded here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints.original import Conventions, convert
from open_seq2seq.encoders import WavenetEncoder
from open_seq2seq.losses import WavenetLoss
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass

FILE = Path(__file__).parent / "original_wavenet.npz"
PARAMS = {"layer_type": "conv1d", "kernel_size": 3, "strides": 1, "padding": "VALID"}


def converted(arrays, prefix, variables):
    values = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    conversion = convert(values, {name: tuple(variable.shape) for name, variable in variables.items()}, Conventions())
    assert conversion.unused == []
    return conversion.weights


def test_logits_loss_and_gradients_are_those_of_the_original():
    arrays = dict(np.load(FILE))
    encoder = WavenetEncoder({**PARAMS, "blocks": 2, "layers_per_block": 3, "filters": 8, "quantization_channels": 32,
                              "num_audio_features": 6})
    trained = {f"encoder/{name}": variable for name, variable in named_variables(encoder).items() if variable.trainable}
    weights = converted(arrays, "weight.", trained)
    assert {*weights} == {*trained}
    for name, variable in trained.items():
        variable.assign(weights[name])
    audio, lengths = tf.constant(arrays["in.audio"]), tf.constant([64, 64])
    with forward_pass(0, 0), tf.GradientTape() as tape:
        encoded = encoder.encode({"source_tensors": [audio, lengths, tf.constant(arrays["in.spec"]), lengths]}, True)
        (term,) = WavenetLoss({}).compute_loss({"decoder_output": encoded, "target_tensors": [audio, lengths]})
        loss = term.sum / term.units
    np.testing.assert_allclose(encoded["logits"], arrays["logits"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss, arrays["loss"], rtol=1e-6)
    gradients = dict(zip(trained, tape.gradient(loss, [*trained.values()]), strict=True))
    for name, expected in converted(arrays, "grad.", trained).items():
        np.testing.assert_allclose(tf.convert_to_tensor(gradients[name]), expected, rtol=1e-4, atol=1e-6)


def test_the_published_network_has_the_weights_and_the_receptive_field_of_the_original():
    encoder = WavenetEncoder({**PARAMS, "blocks": 3, "layers_per_block": 10, "filters": 64,
                              "quantization_channels": 256, "num_audio_features": 80})
    assert sum(variable.shape.num_elements() for variable in named_variables(encoder).values()
               if variable.trainable) == 696_960
    assert encoder.receptive_field == 6139
