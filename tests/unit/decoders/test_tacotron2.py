"""Tacotron 2: decoding step by step against teacher forcing, gradients, batches, style tokens, loss and mistakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import betabinom

from open_seq2seq.decoders import Tacotron2Decoder
from open_seq2seq.encoders import Tacotron2Encoder
from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.rnn.attention import DynamicConvolutionAttention, dynamic_scores, location_windows
from open_seq2seq.utils.errors import ConfigError

MELS, BINS, VOCAB = 5, 7, 11
CONV = {"kernel_size": [5], "stride": [1], "num_channels": 6, "padding": "SAME"}
ENCODER = {"src_vocab_size": VOCAB, "src_emb_size": 6, "conv_layers": [CONV, CONV], "cnn_dropout_prob": 0.0,
           "activation_fn": "relu", "num_rnn_layers": 1, "rnn_cell_dim": 4, "rnn_type": "tf.nn.rnn_cell.LSTMCell",
           "rnn_unidirectional": False, "rnn_dropout_prob": 0.0, "use_cudnn_rnn": False, "num_audio_features": MELS}
STYLE = {"conv_layers": [{"kernel_size": [3, 3], "stride": [2, 2], "num_channels": 2, "padding": "SAME"}] * 2,
         "num_rnn_layers": 1, "rnn_cell_dim": 3, "rnn_unidirectional": True, "rnn_type": "GRUCell", "emb_size": 4,
         "attention_layer_size": 6, "num_tokens": 3, "num_heads": 2}
STYLED = {"style_embedding_enable": True, "style_embedding_params": STYLE}
DECODER = {"attention_layer_size": 4, "attention_type": "location", "attention_bias": True, "decoder_cell_units": 6,
           "decoder_cell_type": "LSTMCell", "decoder_layers": 2, "prenet_units": 4, "dropout_prob": 0.0,
           "postnet_conv_layers": [{**CONV, "activation_fn": "tanh"}, {**CONV, "num_channels": -1}],
           "num_audio_features": MELS, "max_frames_per_symbol": 2.0}
BOTH = {"output_type": "both", "num_audio_features": {"mel": MELS, "magnitude": BINS}, "exp_mag": True}
SYMBOLS, FRAMES = [7, 3, 5], [9, 12, 4]


def stirred(module: Any) -> Any:
    """Changes all weights, so that biases and statistics are not at their initial values."""
    for number, variable in enumerate(module.trainable_variables):
        variable.assign(variable + np.random.default_rng(number).normal(0.0, 0.3, variable.shape))
    return module


def make_encoder(mode: str = "train", **params: Any) -> Tacotron2Encoder:
    with creating_variables(1):
        return stirred(Tacotron2Encoder({**ENCODER, **params}, mode=mode))


def make(size: int = 8, **params: Any) -> Tacotron2Decoder:
    with creating_variables(3):
        model = SimpleNamespace(encoder=SimpleNamespace(output_size=size))
        decoder = stirred(Tacotron2Decoder({**DECODER, **params}, model))
    decoder.stop_token.bias.assign(decoder.stop_token.bias - 1.0)  # longer spectrograms
    return decoder


def encoded(padding: int = 0) -> dict[str, tf.Tensor]:
    outputs = np.random.default_rng(0).normal(size=[3, max(SYMBOLS) + padding, 8]).astype(np.float32)
    return {"outputs": tf.constant(outputs), "src_length": tf.constant(SYMBOLS)}


def targets(padding: int = 0, features: int = MELS) -> list[tf.Tensor]:
    mask = np.arange(max(FRAMES) + padding) < np.array(FRAMES)[:, np.newaxis]
    values = np.random.default_rng(1).normal(size=[3, 12, features])
    values = np.pad(values, [[0, 0], [0, padding], [0, 0]]) * mask[..., np.newaxis]
    return [tf.constant(values, tf.float32), tf.constant(~mask, tf.float32), tf.constant(FRAMES)]


def decoded(decoder: Tacotron2Decoder, source: Any, target: Any = None) -> dict[str, Any]:
    return decoder.decode({"encoder_output": source, "target_tensors": target})


def compiled(decoder: Tacotron2Decoder) -> Any:
    """Returns ``decoded`` without targets for this decoder, traced once for batches of any shape."""
    shapes = {"outputs": tf.TensorSpec([None, None, 8]), "src_length": tf.TensorSpec([None], tf.int32)}
    return tf.function(lambda source: decoded(decoder, source), input_signature=[shapes], autograph=False)


@pytest.mark.parametrize(("params", "ending"), [({"most_end_frames": 2, "attention_window": 1}, 2),
                                                ({"most_repeated_frames": 4}, 3)])
def test_guards_end_texts_alike_in_every_batch(params: Any, ending: int) -> None:
    guarded, free = make(prenet_dropout_prob=0.0, max_frames_per_symbol=20.0, **params), make(
        prenet_dropout_prob=0.0, max_frames_per_symbol=20.0)
    for decoder in (guarded, free):
        decoder.stop_token.bias.assign(decoder.stop_token.bias - 100.0)
        decoder.projection.kernel.assign(decoder.projection.kernel * 0.1)  # soon, frames hardly change
    search, source = compiled(guarded), encoded()
    searched = search(source)
    lengths, endings = searched["outputs"][4].numpy(), searched["endings"].numpy()
    assert (compiled(free)(source)["endings"].numpy() == 1).all() and ending in endings
    for row in range(3):
        alone = search({name: value[row:row + 1] for name, value in source.items()})
        assert alone["outputs"][4][0] == lengths[row] and alone["endings"][0] == endings[row]
        assert lengths[row] < SYMBOLS[row] * 20 or endings[row] == 1


def test_symbols_of_padding_do_not_count_as_the_end_of_a_text() -> None:
    own = np.array([4, 2, 3])
    source = {**encoded(), "encoder_input": tf.constant((np.arange(7) < own[:, np.newaxis]) * 5)}
    params = {"prenet_dropout_prob": 0.0, "attention_window": 1}
    free, guarded = make(**params), make(**params, most_end_frames=2)
    for decoder in (free, guarded):
        decoder.stop_token.bias.assign(decoder.stop_token.bias - 100.0)
    peaks = decoded(free, source)["outputs"][2].numpy().argmax(2)
    is_late = peaks >= own[:, np.newaxis] - 2
    is_over = is_late[:, 1:] & is_late[:, :-1]
    ends = np.where(is_over.any(1), 2 + is_over.argmax(1), 2 * np.array(SYMBOLS))
    np.testing.assert_array_equal(decoded(guarded, source)["outputs"][4], ends)


@pytest.mark.parametrize("params", [
    {}, BOTH, {"reduction_factor": 2}, {"attention_type": "bahdanau", "attention_bias": False, "zoneout_prob": 0.2},
    {"stop_token_input": "decoder", "reduction_factor": 3, "enable_prenet": False, "enable_postnet": False},
    {"reduction_factor": [[0, 3], [1, 2]], "attention_type": "dynamic_convolution"}])
def test_predictions_given_as_targets_are_predicted_again(params: Any) -> None:
    decoder = make(**params)
    searched = decoded(decoder, encoded())
    spectrogram, _, weights, stops, lengths, magnitude = searched["outputs"]
    features = tf.concat([spectrogram, magnitude], -1)
    forced = decoded(decoder, encoded(), [features, stops[..., 0], lengths])
    for one, other in zip(searched["outputs"], forced["outputs"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-4)
    assert weights.shape[1] == max(lengths)
    np.testing.assert_allclose(tf.reduce_sum(weights[0, :lengths[0]], -1), 1.0, atol=1e-5)


def test_an_example_does_not_depend_on_its_batch_or_padding() -> None:
    search = compiled(make(**BOTH))
    together = search(encoded(padding=3))["outputs"]
    for row, size in enumerate(SYMBOLS):
        source = encoded(padding=3)
        alone = {"outputs": source["outputs"][row:row + 1, :size], "src_length": source["src_length"][row:row + 1]}
        outputs = search(alone)["outputs"]
        length = int(outputs[4][0])
        assert length == int(together[4][row])
        for one, other in zip(outputs, together, strict=True):
            if one.shape.rank > 1:
                largest = float(tf.reduce_max(tf.abs(one)))  # magnitudes are exponentials
                np.testing.assert_allclose(one[0], other[row, :length, :one.shape[2]], atol=1e-5 * max(1.0, largest))
                assert not np.any(other[row, length:])


def test_spectrograms_end_with_the_first_stop_token_or_at_the_limit() -> None:
    decoder = make(max_frames_per_symbol=2.5, stop_token_input="decoder")
    decoder.stop_token.kernel.assign(tf.zeros_like(decoder.stop_token.kernel))
    decoder.stop_token.bias.assign([-1.0])
    np.testing.assert_array_equal(decoded(decoder, encoded())["outputs"][4], [18, 8, 13])
    decoder.stop_token.bias.assign([1.0])
    np.testing.assert_array_equal(decoded(decoder, encoded())["outputs"][4], [1, 1, 1])


def test_a_window_restricts_the_attention() -> None:
    weights = decoded(make(attention_window=1), encoded())["outputs"][2].numpy()
    lengths = decoded(make(attention_window=1), encoded())["outputs"][4].numpy()
    for row, length in zip(weights, lengths, strict=True):
        peak = 0
        for now in row[:length]:
            assert now[max(peak - 1, 0):peak + 2].sum() == pytest.approx(1.0, abs=1e-5)
            peak = int(now.argmax())


def test_the_prenet_drops_in_inference_by_seed() -> None:
    first = decoded(make(), encoded(), targets())["outputs"][0]
    np.testing.assert_array_equal(first, decoded(make(), encoded(), targets())["outputs"][0])
    for params in ({"inference_seed": 1}, {"prenet_dropout_prob": 0.0}):
        other = decoded(make(**params), encoded(), targets())["outputs"][0]
        assert np.abs(first - other).max() > 1e-3


def test_location_windows_are_centred() -> None:
    windows = location_windows(tf.constant([[1.0, 2.0, 3.0]]), 4)
    np.testing.assert_array_equal(windows[0], [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 0]])


def test_dynamic_convolution_scores_are_those_of_numpy() -> None:
    rng = np.random.default_rng(2)
    weights = DynamicConvolutionAttention(6, 4)
    for variable in weights.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    state, before = rng.normal(size=[2, 6]).astype(np.float32), rng.dirichlet(np.ones(30), 2).astype(np.float32)
    kernel, bias, vector = (one.numpy() for one in weights.weights(tf.float32))
    found = dynamic_scores(state @ kernel + bias, tf.constant(before), vector, weights.dynamic())
    for row in range(2):
        filters = (np.tanh(state[row] @ kernel + bias) @ weights.filter_kernel.numpy()).reshape(21, 8)

        def convolved(taps: np.ndarray, row: int = row) -> np.ndarray:
            return np.stack([np.correlate(before[row], one, "full")[10:40] for one in taps.T], 1)

        inside = (convolved(weights.filters.numpy()[:, 0]) @ weights.location_kernel
                  + convolved(filters) @ weights.dynamic_kernel + weights.inner_bias)
        prior = np.convolve(before[row], betabinom.pmf(np.arange(11), 10, 0.1, 0.9))[:30]
        expected = np.tanh(inside) @ vector + np.log(np.maximum(prior, 1e-6))
        np.testing.assert_allclose(found[row], expected, atol=2e-4)


@pytest.mark.parametrize("kind", ["location", "bahdanau", "dynamic_convolution"])
def test_gradients_are_those_of_numerical_differences(kind: str) -> None:
    decoder = make(attention_type=kind, attention_bias=kind == "location", prenet_dropout_prob=0.0,
                   enable_postnet=False)
    source, target = encoded(), targets()
    factors = np.random.default_rng(5).normal(size=[3, 12, MELS])
    variables = [source["outputs"], *decoder.trainable_variables]

    @tf.function(autograph=False)
    def loss(outputs: tf.Tensor) -> tf.Tensor:
        result = decoded(decoder, {**source, "outputs": outputs}, target)
        return tf.reduce_sum(result["outputs"][0] * factors) + tf.reduce_sum(result["stop_token_prediction"])

    with tf.GradientTape() as tape:
        tape.watch(source["outputs"])
        total = loss(source["outputs"])
    gradients = tape.gradient(total, variables)
    for number, (variable, gradient) in enumerate(zip(variables, gradients, strict=True)):
        direction = np.random.default_rng(number).normal(size=variable.shape).astype(np.float32)
        step = 3e-3 / np.linalg.norm(direction)
        sums = []
        for sign in (1.0, -1.0):
            moved = variable + sign * step * direction
            if number == 0:
                sums.append(float(loss(moved)))
                continue
            before = tf.identity(variable)
            variable.assign(moved)
            sums.append(float(loss(source["outputs"])))
            variable.assign(before)
        expected = float(tf.reduce_sum(gradient * direction)) * step * 2.0
        assert sums[0] - sums[1] == pytest.approx(expected, rel=0.02, abs=2e-4)


def test_frames_of_a_step_have_one_alignment() -> None:
    weights = decoded(make(reduction_factor=3), encoded(), targets())["outputs"][2].numpy()
    np.testing.assert_array_equal(weights[1, ::3], weights[1, 2::3])


def test_a_schedule_of_frames_uses_the_first_frames_of_the_largest_step() -> None:
    scheduled = make(reduction_factor=[[0, 3], [10, 2]], prenet_dropout_prob=0.0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
    def trained(update: Any) -> Any:
        with forward_pass(0, 5, update=update):
            return decoded(scheduled, encoded(), targets())["outputs"][:4]

    for update, frames in ((9, 3), (10, 2), (99, 2), (0, 3)):
        fixed = make(reduction_factor=frames, prenet_dropout_prob=0.0)
        for variable, source in zip(fixed.trainable_variables, scheduled.trainable_variables, strict=True):
            variable.assign(source.numpy()[tuple(slice(size) for size in variable.shape)])
        for one, other in zip(trained(update), decoded(fixed, encoded(), targets())["outputs"], strict=False):
            np.testing.assert_allclose(one, other, atol=1e-5)
        # Outside of training, the number of the last update applies.
        for one, other in zip(decoded(scheduled, encoded())["outputs"], decoded(fixed, encoded())["outputs"],
                              strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    assert trained.experimental_get_tracing_count() == 1 and scheduled.reduction.update == 0.0


def test_training_is_repeatable_and_drops() -> None:
    decoder, losses = make(dropout_prob=0.3, zoneout_prob=0.1), []
    for seed in (1, 1, 2):
        with forward_pass(seed, 0):
            losses.append(decoder.decode({"encoder_output": encoded(), "target_tensors": targets()}, True))
    first, again, other = (result["outputs"][0].numpy() for result in losses)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def source_tensors(padding: int = 0, style_padding: int = 0) -> list[tf.Tensor]:
    ids = np.random.default_rng(2).integers(0, VOCAB, [3, 7])
    style = np.pad(targets()[0], [[0, 0], [0, style_padding], [0, 0]], constant_values=9.0)
    ids = np.pad(ids, [[0, 0], [0, padding]], constant_values=3)
    return [tf.constant(ids, tf.int32), tf.constant(SYMBOLS), tf.constant(style), tf.constant(FRAMES)]


@pytest.mark.parametrize("training", [False, True])
def test_padding_does_not_change_the_encoder(training: bool) -> None:
    encoder = make_encoder(**STYLED)
    outputs = encoder.encode({"source_tensors": source_tensors()}, training)["outputs"]
    padded = encoder.encode({"source_tensors": source_tensors(2, 4)}, training)["outputs"]
    assert outputs.shape[-1] == encoder.output_size == 8 + 6
    np.testing.assert_allclose(outputs, padded[:, :7], atol=1e-5)
    assert not np.any(padded[:, 7:]) and not np.any(outputs[1, 3:])


def test_styles_are_mixtures_of_fixed_tokens() -> None:
    encoder = make_encoder(**STYLED)
    tokens = encoder.style.attention.tokens
    assert all(variable is not tokens for variable in encoder.trainable_variables)
    styles = [make_encoder("infer", **STYLED, style_weights=weights).encode(
        {"source_tensors": source_tensors()[:2]})["outputs"][0, 0, 8:].numpy()
        for weights in ([1, 0, 0], [0, 0, 1], [0.5, 0, 0.5])]
    np.testing.assert_allclose(styles[2], (styles[0] + styles[1]) / 2, atol=1e-6)
    outputs = encoder.encode({"source_tensors": source_tensors()})["outputs"][..., 8:]
    np.testing.assert_array_equal(outputs[0, 0], outputs[0, 6])
    assert np.abs(outputs[0, 0] - outputs[1, 0]).max() > 1e-6


def loss_terms(output: Any, target: Any, ids: Any = None, **params: Any) -> list[Any]:
    return Text2SpeechLoss(params).compute_loss({"decoder_output": output, "target_tensors": target, "ids": ids})


def total(terms: list[Any]) -> float:
    return sum(float(term.weight * term.sum / term.units) for term in terms)


def test_the_loss_is_the_weighted_mean_over_frames() -> None:
    target = targets(features=MELS + BINS)
    output = decoded(make(**{**BOTH, "exp_mag": False}), encoded(), target)
    before, after, _, _, _, magnitude = (np.asarray(tensor) for tensor in output["outputs"])
    logits, spectrogram = output["stop_token_prediction"].numpy()[..., 0], target[0].numpy()
    mask = np.arange(12) < np.array(FRAMES)[:, np.newaxis]
    entropy = np.log1p(np.exp(logits)) - target[1].numpy() * logits
    errors = [np.abs(values - wanted)[mask].mean() for values, wanted in (
        (before, spectrogram[..., :MELS]), (after, spectrogram[..., :MELS]), (magnitude, spectrogram[..., MELS:]))]
    expected = 3.0 * (2.0 * (errors[0] + errors[1]) + 0.5 * errors[2] + 5.0 * entropy[mask].mean())
    terms = loss_terms(output, target, l1_norm=True, scale=3.0, mel_weight=2.0, mag_weight=0.5, stop_token_weight=5.0)
    assert total(terms) == pytest.approx(expected, rel=1e-5)
    squared = total(loss_terms(output, target, mag_weight=0.0, stop_token_weight=0.0))
    assert squared == pytest.approx(sum(
        np.square(values - spectrogram[..., :MELS])[mask].mean() for values in (before, after)), rel=1e-5)


def test_magnitudes_do_not_overflow_in_half_precision() -> None:
    net = make(**BOTH).magnitude
    assert net is not None
    net.blocks = []
    loud = tf.fill([1, 2, 512], tf.constant(12.0, tf.float16))  # the exponential is infinite in float16
    assert np.isfinite(net(loud, tf.constant([2]), False)).all()


def test_halves_of_a_batch_add_up_and_padding_does_not_count() -> None:
    output, target = decoded(make(), encoded(), targets()), targets(padding=5)
    whole = loss_terms(output, target)

    def part(rows: Any) -> list[Any]:
        half = {"outputs": [tensor[rows] for tensor in output["outputs"]],
                "stop_token_prediction": output["stop_token_prediction"][rows]}
        return loss_terms(half, [tensor[rows] for tensor in targets()])

    for one, first, second in zip(whole, part(slice(0, 1)), part(slice(1, 3)), strict=True):
        assert float(first.sum + second.sum) == pytest.approx(float(one.sum), rel=1e-5)
        assert float(first.units + second.units) == float(one.units) == sum(FRAMES)
    without = loss_terms(output, target, tf.constant([0, -1, 2]))
    assert float(without[0].units) == FRAMES[0] + FRAMES[2]


@pytest.mark.parametrize(("create", "message"), [
    (lambda: make(postnet_conv_layers=None), "postnet_conv_layers' is missing"),
    (lambda: make(postnet_conv_layers=[{**CONV, "stride": [2]}]), "stride"),
    (lambda: make(output_type="both"), "dict with mel and magnitude"),
    (lambda: make(size=None), "encoder_size"),
    (lambda: make(bahdanau_normalize=True), "bahdanau_normalize"),
    (lambda: make(reduction_factor=0), "reduction_factor' is 0 but has to be a number of frames"),
    (lambda: make(reduction_factor=[[5, 2]]), "increasing updates from 0"),
    (lambda: make_encoder(conv_layers=[{**CONV, "kernel_size": [3, 3]}]), "list of 1 positive integer"),
    (lambda: make_encoder(**STYLED, style_weights=[1.0]), "list of 3 numbers"),
    (lambda: make_encoder(style_weights=[1.0]), "style_embedding_enable"),
    (lambda: make_encoder(style_embedding_enable=True, style_embedding_params={**STYLE, "num_heads": 4}), "num_heads"),
    (lambda: make_encoder(**STYLED).encode({"source_tensors": source_tensors()[:2]}), "style_input")])
def test_mistakes_are_explained(create: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create()
