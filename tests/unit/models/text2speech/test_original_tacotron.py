"""Speech synthesis computes what NVIDIA's OpenSeq2Seq computes, with the weights of two tiny models of it.

The files have the weights, inputs, outputs, loss and gradients of models with random weights that the original has
run under TensorFlow 1.15 on a CPU: in training without dropout (``eval.``), and free-running (``free.``); and of one
of them, the sums of the updates of three training steps (``moved.``), those of kernels in float16.
"""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.checkpoints.original import Conventions, convert
from open_seq2seq.decoders import Tacotron2Decoder
from open_seq2seq.encoders import Tacotron2Encoder, tacotron2_encoder
from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.optimizers import MixedPrecisionOptimizer, make_optimizer, make_schedule
from open_seq2seq.parts import tacotron
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.forward_pass import forward_pass

FOLDER = Path(__file__).parent
TOLERANCE = 1e-4


class Unmasked:
    """TensorFlow, but with masks that are True everywhere: the original's convolutions read padding."""

    def __getattr__(self, name):
        return getattr(tf, name) if name != "sequence_mask" else \
            lambda lengths, size: tf.ones([tf.shape(lengths)[0], size], tf.bool)


def tensorflow_pads(self, length):
    """The padding of TensorFlow's SAME convolutions, which is not symmetric."""
    total = tf.maximum((-(-length // self.stride) - 1) * self.stride + self.span - length, 0)
    return [total // 2, total - total // 2]


def converted(arrays, prefix, variables, forget_bias):
    """Returns the original's weights or gradients under our names."""
    values = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    conversion = convert(values, {name: tuple(variable.shape) for name, variable in variables.items()},
                         Conventions({"encoder": forget_bias, "decoder": forget_bias}))
    assert conversion.unused == []
    return conversion.weights


def make_parts(arrays, monkeypatch):
    """Returns the encoder, the decoder and their variables by name, set to compute what the original computes."""
    params = json.loads(str(arrays["params"]))
    data = params["data_layer_params"]
    left_out = {"dtype", "regularizer", "regularizer_params"}
    common = {"num_audio_features": data["num_audio_features"]}
    encoder = Tacotron2Encoder({
        **{key: value for key, value in params["encoder_params"].items() if key not in left_out}, **common,
        "src_vocab_size": 30, "bn_epsilon": 1.001e-5})
    decoder = Tacotron2Decoder({
        **{key: value for key, value in params["decoder_params"].items() if key not in left_out}, **common,
        "output_type": data["output_type"], "exp_mag": data["exp_mag"], "postnet_bn_epsilon": 1.001e-5,
        "mask_decoder_sequence": False, "prenet_dropout_prob": 0.0}, types.SimpleNamespace(encoder=encoder))
    monkeypatch.setattr(tacotron2_encoder, "tf", Unmasked())
    monkeypatch.setattr(tacotron, "tf", Unmasked())
    for block in [*encoder.blocks, *(encoder.style.blocks if encoder.style else [])]:
        block._settings = (*block._settings[:2], False)  # mask_padding
    if encoder.style:
        monkeypatch.setattr(Window, "pads", tensorflow_pads)
    variables = {f"{part}/{name}": variable for part, module in (("encoder", encoder), ("decoder", decoder))
                 for name, variable in named_variables(module).items()}
    weights = converted(arrays, "weight.", variables, 1.0)
    assert {*variables} == {*weights}
    for name, variable in variables.items():
        variable.assign(weights[name])
    return encoder, decoder, Text2SpeechLoss(params["loss_params"]), variables


def mean_loss(loss, decoded, targets):
    return tf.add_n([term.weight * term.sum / term.units for term in loss.compute_loss(
        {"decoder_output": decoded, "target_tensors": targets})])


def assert_close(values, expected):
    np.testing.assert_allclose(np.asarray(values), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["mel", "gst"])
def test_outputs_loss_and_gradients_are_those_of_the_original(kind, monkeypatch):
    arrays = dict(np.load(FOLDER / f"original_tacotron_{kind}.npz"))
    encoder, decoder, loss, variables = make_parts(arrays, monkeypatch)
    ids, symbols, *targets = (tf.constant(arrays[f"in.{name}"]) for name in (
        "text", "text_len", "spec", "stop", "spec_len"))
    source = [ids, symbols, *([targets[0], targets[2]] if encoder.style else [])]

    def check(prefix, encoded, decoded, total):
        assert_close(encoded["outputs"], arrays[prefix + "encoder.outputs"])
        for index in range(5):
            assert_close(decoded["outputs"][index], arrays[f"{prefix}decoder.outputs.{index}"])
        assert_close(decoded["stop_token_prediction"], arrays[prefix + "decoder.stop_token_prediction"])
        assert_close(total, arrays[prefix + "loss"])

    encoded = encoder.encode({"source_tensors": source})  # before training changes the moving statistics
    decoded = decoder.decode({"encoder_output": encoded})
    check("free.", encoded, decoded, mean_loss(loss, decoded, targets))
    with forward_pass(0, 0), tf.GradientTape() as tape:
        encoded = encoder.encode({"source_tensors": source}, True)
        decoded = decoder.decode({"encoder_output": encoded, "target_tensors": targets}, True)
        total = mean_loss(loss, decoded, targets)
    check("eval.", encoded, decoded, total)
    trained = {name: variable for name, variable in variables.items() if variable.trainable}
    gradients = dict(zip(trained, tape.gradient(total, [*trained.values()]), strict=True))
    expected = converted(arrays, "grad.", variables, 0.0)
    assert {*expected} == {*gradients}
    for name, gradient in gradients.items():
        assert_close(tf.convert_to_tensor(gradient), expected[name])


def is_regularized(name):
    """Whether the original regularises a variable: embeddings and the score vector, too.

    On a CPU, it misses the forward layers of the encoder, whose variables do not exist yet when it collects them.
    """
    return not name.endswith(("bias", "beta")) and not name.startswith("encoder/layer_0/forward/")


@pytest.mark.long
def test_three_training_steps_are_those_of_the_original(monkeypatch):
    """The moving variance of batch norm is left out: there, it is that of an infinite population."""
    arrays = dict(np.load(FOLDER / "original_tacotron_mel.npz"))
    params = json.loads(str(arrays["params"]))
    encoder, decoder, loss, variables = make_parts(arrays, monkeypatch)
    ids, symbols, *targets = (tf.constant(arrays[f"in.{name}"]) for name in (
        "text", "text_len", "spec", "stop", "spec_len"))
    trained = {name: variable for name, variable in variables.items() if variable.trainable}
    schedule = make_schedule(params["lr_policy"], params["lr_policy_params"], params["max_steps"])
    optimizer = MixedPrecisionOptimizer(make_optimizer("Adam"), schedule, max_grad_norm=params["max_grad_norm"])
    optimizer.build(trained)
    scale = params["regularizer_params"]["scale"]
    losses, penalties = [], []
    for _ in range(3):
        with forward_pass(0, 0), tf.GradientTape() as tape:
            encoded = encoder.encode({"source_tensors": [ids, symbols]}, True)
            decoded = decoder.decode({"encoder_output": encoded, "target_tensors": targets}, True)
            total = mean_loss(loss, decoded, targets)
            penalty = tf.add_n([scale * tf.nn.l2_loss(trained[name]) for name in trained if is_regularized(name)])
            objective = total + penalty
        losses.append(float(total))
        penalties.append(float(penalty))
        gradients = tape.gradient(objective, [*trained.values()])
        optimizer.update(dict(zip(trained, gradients, strict=True)), trained)
    np.testing.assert_allclose(losses, arrays["losses"], rtol=1e-6)
    assert penalties[0] == pytest.approx(float(arrays["regularization_before"]), rel=1e-6)
    moved = {f"weight.{name.removeprefix('moved.')}": arrays[name.replace("moved.", "weight.")] + np.float32(value)
             for name, value in arrays.items() if name.startswith("moved.")}
    expected = converted({**arrays, **moved}, "weight.", variables, 1.0)
    for name, variable in trained.items():
        assert np.abs(variable.numpy() - expected[name]).max() < 1e-4 * np.abs(expected[name]).max(), name
