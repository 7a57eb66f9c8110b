"""Speech synthesis computes what NVIDIA's OpenSeq2Seq computes, with the weights of two tiny models of it.

The files have the weights, inputs, outputs, loss and gradients of models with random weights that the original has
run under TensorFlow 1.15 on a CPU: in training without dropout (``eval.``), and free-running (``free.``).
"""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import Tacotron2Decoder
from open_seq2seq.encoders import Tacotron2Encoder, tacotron2_encoder
from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.tacotron import style

ENCODER, DECODER = "ForwardPass/tacotron2_encoder/", "ForwardPass/tacotron_2_decoder/"
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


def lstm(kernel, bias, forget):
    """Returns our kernel, recurrent kernel and bias of the original's joined kernel, whose gates are i, j, f, o."""
    size = len(bias) // 4
    i, j, f, o = np.split(np.concatenate([kernel, bias[None]]), 4, -1)
    f = np.concatenate([f[:-1], f[-1:] + forget])  # the original adds 1 to this bias in the cell
    joined = np.concatenate([i, f, o, j], -1)
    return joined[:-size - 1], joined[-size - 1:-1], joined[-1]


def gru(gates, gate_bias, candidate, candidate_bias):
    """Returns our kernel, recurrent kernel, candidate kernel and bias of the original's GRU, whose gates are r, u."""
    size, swap = len(candidate_bias), lambda values: np.concatenate(np.split(values, 2, -1)[::-1], -1)
    gates = swap(gates)
    return (np.concatenate([gates[:-size], candidate[:-size]], -1), gates[-size:], candidate[-size:],
            np.concatenate([swap(gate_bias), candidate_bias]))


class Original:
    """The arrays of the original under our names: of weights, or of gradients."""

    def __init__(self, arrays, prefix):
        self.arrays, self.prefix = arrays, prefix
        self.named = {}
        self._encoder()
        self._decoder()
        if self._has(ENCODER + "style_encoder/conv1/kernel"):
            self._style()

    def _has(self, name):
        return self.prefix + name in self.arrays

    def _get(self, name):
        return self.arrays[self.prefix + name]

    def _put(self, ours, names):
        self.named |= {f"{ours}/{name}": self._get(theirs) for name, theirs in names.items() if self._has(theirs)}

    def _block(self, ours, theirs):
        self._put(f"{ours}/layer_0", {"convolution/kernel": theirs + "/kernel"} | {
            f"norm/{name}": f"{theirs}/bn/{name}" for name in ("gamma", "beta", "moving_mean", "moving_variance")})

    def _cell(self, ours, theirs):
        values = lstm(self._get(theirs + "/kernel"), self._get(theirs + "/bias"), float(self.prefix == "weight."))
        self.named |= {f"{ours}/{name}": value
                       for name, value in zip(("kernel", "recurrent_kernel", "bias"), values, strict=True)}

    def _encoder(self):
        self._put("encoder", {"embedding": ENCODER + "EncoderEmbeddingMatrix"})
        for n in (0, 1):
            self._block(f"encoder/block_{n}", f"{ENCODER}conv{n + 1}")
        for ours, theirs in (("forward", "fw"), ("backward", "bw")):
            self._cell(f"encoder/layer_0/{ours}",
                       f"{ENCODER}bidirectional_rnn/{theirs}/multi_rnn_cell/cell_0/lstm_cell")

    def _style(self):
        theirs, ours = ENCODER + "style_encoder/", "encoder/style"
        for n in range(6):
            self._block(f"{ours}/block_{n}", f"{theirs}conv{n + 1}")
        cell = theirs + "rnn/multi_rnn_cell/cell_0/gru_cell/"
        values = gru(*(self._get(cell + name) for name in (
            "gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")))
        names = ("kernel", "recurrent_kernel", "candidate_kernel", "bias")
        self.named |= {f"{ours}/layer_0/forward/{name}": value for name, value in zip(names, values, strict=True)}
        self._put(ours, {f"reference/{name}": f"{theirs}reference_activation/{name}" for name in ("kernel", "bias")})
        self._put(ours + "/attention", {"tokens": theirs + "token_embeddings",
                                        "score_vector": theirs + "attention/attention_v"} | {
            f"{name}/kernel": f"{theirs}attention/{other}/kernel" for name, other in (
                ("query", "q"), ("key", "k"), ("value", "v"), ("output", "output_transform"))})

    def _decoder(self):
        wrapper, attention = DECODER + "decoder/attention_wrapper/", "decoder/stack/attention/"
        for n in (0, 1):
            self._cell(f"decoder/stack/layer_{n}/direction", f"{wrapper}multi_rnn_cell/cell_{n}/lstm_cell")
            self._put(f"decoder/prenet/layer_{n}", {name: f"{DECODER}decoder/prenet_{n + 1}/{name}"
                                                    for name in ("kernel", "bias")})
            self._block(f"decoder/postnet/block_{n}", f"{DECODER}conv{n + 1}")
        for ours, theirs in (("projection", "output_proj"), ("stop_token", "stop_token_proj")):
            self._put(f"decoder/{ours}", {name: f"{DECODER}decoder/{theirs}/{name}" for name in ("kernel", "bias")})
        location = wrapper + "location_attention/"
        self.named[attention + "memory_kernel"] = self._get(DECODER + "AttentionMechanism/memory_layer/kernel")[0]
        self.named[attention + "location_kernel"] = self._get(location + "location_dense/kernel")[0]
        self.named[attention + "score_vector"] = self._get(location + "attention_v")[:, None]
        self._put(attention[:-1], {
            "query_kernel": location + "query_layer/kernel", "filters": location + "location_conv/kernel",
            "filter_bias": location + "location_conv/bias", "inner_bias": location + "attention_bias"})


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
    monkeypatch.setattr(style, "tf", Unmasked())
    for block in [*encoder.blocks, *(encoder.style.blocks if encoder.style else [])]:
        block._settings = (*block._settings[:2], False)  # mask_padding
    if encoder.style:
        monkeypatch.setattr(Window, "pads", tensorflow_pads)
    variables = {f"{part}/{name}": variable for part, module in (("encoder", encoder), ("decoder", decoder))
                 for name, variable in named_variables(module).items()}
    weights = Original(arrays, "weight.").named
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
    expected = Original(arrays, "grad.").named
    assert {*expected} == {*gradients}
    for name, gradient in gradients.items():
        assert_close(tf.convert_to_tensor(gradient), expected[name])
