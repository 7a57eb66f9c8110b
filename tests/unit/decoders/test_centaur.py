"""Centaur: decoding step by step against teacher forcing, batches, padding, the attention's window, and mistakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import CentaurDecoder
from open_seq2seq.encoders import CentaurEncoder
from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.parts.attention_record import recording_attention
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError

MELS, BINS, VOCAB, SIZE = 5, 7, 11, 8
LAYER = {"kernel_size": [3], "stride": [1], "num_channels": SIZE, "padding": "SAME", "activation_fn": "relu"}
CAUSAL = {**LAYER, "padding": "VALID", "is_causal": True}
ENCODER = {"src_vocab_size": VOCAB, "embedding_size": SIZE, "output_size": 6, "conv_layers": [LAYER, LAYER]}
DECODER = {"prenet_layers": 2, "prenet_hidden_size": 6, "hidden_size": SIZE, "conv_layers": [CAUSAL],
           "mag_conv_layers": [CAUSAL, CAUSAL], "attention_dropout": 0.1, "layer_postprocess_dropout": 0.1,
           "attention_layers": 2, "self_attention_conv_params": CAUSAL, "reduction_factor": 2,
           "num_audio_features": {"mel": MELS, "magnitude": BINS}, "output_type": "both",
           "max_frames_per_symbol": 2.0}
MEL = {"num_audio_features": MELS, "output_type": "mel", "mag_conv_layers": []}
SYMBOLS, FRAMES = [7, 3, 5], [9, 12, 4]


def stirred(module: Any) -> Any:
    """Changes all weights and statistics, so that none is at its initial value."""
    for number, variable in enumerate(named_variables(module).values()):
        change = np.random.default_rng(number).normal(0.0, 0.3, variable.shape)
        variable.assign(variable + (change if variable.trainable else np.abs(change)))
    return module


def make_encoder(**params: Any) -> CentaurEncoder:
    with creating_variables(1):
        return stirred(CentaurEncoder({**ENCODER, **params}))


def make(**params: Any) -> CentaurDecoder:
    with creating_variables(3):
        model = SimpleNamespace(encoder=SimpleNamespace(output_size=6))
        decoder = stirred(CentaurDecoder({**DECODER, **params}, model))
    decoder.stop_token.bias.assign(decoder.stop_token.bias - 1.5)  # longer spectrograms
    return decoder


def encoded(padding: int = 0) -> dict[str, tf.Tensor]:
    outputs = np.random.default_rng(0).normal(size=[3, 10, 6]).astype(np.float32)[:, :max(SYMBOLS) + padding]
    return {"outputs": tf.constant(outputs), "outputs_length": tf.constant(SYMBOLS)}


def targets(padding: int = 0, features: int = MELS + BINS) -> list[tf.Tensor]:
    mask = np.arange(max(FRAMES) + padding) < np.array(FRAMES)[:, np.newaxis]
    values = np.pad(np.random.default_rng(1).normal(size=[3, 12, features]), [[0, 0], [0, padding], [0, 0]])
    return [tf.constant(values * mask[..., np.newaxis], tf.float32), tf.constant(~mask, tf.float32),
            tf.constant(FRAMES)]


def decoded(decoder: CentaurDecoder, source: Any, target: Any = None, training: bool = False) -> dict[str, Any]:
    return decoder.decode({"encoder_output": source, "target_tensors": target}, training)


def compiled(decoder: CentaurDecoder) -> Any:
    """Returns ``decoded`` without targets for this decoder, traced once for batches of any shape."""
    shapes = {"outputs": tf.TensorSpec([None, None, 6]), "outputs_length": tf.TensorSpec([None], tf.int32)}
    return tf.function(lambda source: decoded(decoder, source), input_signature=[shapes], autograph=False)


@pytest.mark.parametrize("params", [
    {"prenet_use_inference_dropout": True},
    pytest.param({**MEL, "reduction_factor": 3, "attention_heads": 2, "force_layers": [1]}, marks=pytest.mark.long),
    pytest.param({"self_attention_conv_params": None, "conv_layers": []}, marks=pytest.mark.long)])
def test_predictions_given_as_targets_are_predicted_again(params: Any) -> None:
    decoder = make(**params)
    searched = decoded(decoder, encoded())
    frames, _, _, stops, lengths, magnitudes, _ = searched["outputs"]
    assert len(set(lengths.numpy())) > 1 and max(lengths) > 4
    forced = decoded(decoder, encoded(), [tf.concat([frames, magnitudes], -1), stops[..., 0], lengths])
    for one, other in zip(searched["outputs"], forced["outputs"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


def test_an_example_does_not_depend_on_its_batch_or_padding() -> None:
    search = compiled(make(window_size=3))
    source = encoded(padding=3)
    together = search(source)
    for row, size in enumerate(SYMBOLS):
        alone = search({"outputs": source["outputs"][row:row + 1, :size],
                        "outputs_length": source["outputs_length"][row:row + 1]})
        length = int(alone["outputs"][4][0])
        assert length == together["outputs"][4][row] and alone["endings"][0] == together["endings"][row]
        for one, other in zip(alone["outputs"], together["outputs"], strict=True):
            if one.shape.rank > 1:
                np.testing.assert_allclose(one[0], other[row, :length, ..., :one.shape[-1]], atol=1e-5, rtol=1e-5)
                assert not np.any(other[row, length:])


@pytest.mark.parametrize("training", [False, True])
def test_padding_does_not_change_the_outputs(training: bool) -> None:
    rates = {"attention_dropout": 0.0, "layer_postprocess_dropout": 0.0, "prenet_dropout": 0.0,
             "cnn_dropout_prob": 0.0, "attention_cnn_dropout_prob": 0.0}
    outputs = [decoded(make(**rates), encoded(padding), targets(2 * padding), training)["outputs"]
               for padding in (0, 3)]
    for one, other in zip(*outputs, strict=True):
        if one.shape.rank > 1:
            for row, length in enumerate(FRAMES):
                np.testing.assert_allclose(one[row, :length], other[row, :length, ..., :one.shape[-1]], atol=1e-5,
                                           rtol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_symbols_of_padding_do_not_change_the_encoder(training: bool) -> None:
    encoder = make_encoder(cnn_dropout_prob=0.0)
    ids = np.random.default_rng(2).integers(1, VOCAB, [3, 7]) * (np.arange(7) < np.array(SYMBOLS)[:, np.newaxis])
    plain, padded, longer = (encoder.encode({"source_tensors": [tf.constant(values, tf.int32), tf.constant(lengths)]},
                                            training)
                             for values, lengths in ((ids, SYMBOLS), (np.pad(ids, [[0, 0], [0, 2]]), SYMBOLS),
                                                     (np.pad(ids, [[0, 0], [0, 2]]), [9, 4, 9])))
    for other in (padded, longer):
        np.testing.assert_allclose(plain["outputs"], other["outputs"][:, :7], atol=1e-6)
        np.testing.assert_array_equal(plain["outputs_length"], other["outputs_length"])
        assert not np.any(other["outputs"][:, 7:])


def test_a_text_without_symbols_has_one() -> None:
    encoded_nothing = make_encoder().encode({"source_tensors": [tf.zeros([2, 4], tf.int32), tf.constant([4, 0])]})
    np.testing.assert_array_equal(encoded_nothing["outputs_length"], [1, 1])
    assert np.isfinite(decoded(make(), encoded_nothing)["outputs"][0]).all()


def test_a_window_lets_forced_layers_go_only_forward() -> None:
    decoder = make(window_size=2, force_layers=[1], attention_heads=2)
    result = decoded(decoder, encoded())
    for row, length in enumerate(result["outputs"][4].numpy()):
        weights = result["alignments"][row, :length:2].numpy()  # [steps, blocks · heads, text]
        for head in (2, 3):
            peak = 0
            for step in weights[:, head]:
                assert step[peak:peak + 2].sum() == pytest.approx(1.0, abs=1e-5)
                peak = int(step.argmax())
        assert any((step > 1e-3).sum() > 2 for step in weights[:, 0])
    np.testing.assert_allclose(result["outputs"][2], tf.reduce_mean(result["alignments"][:, :, 2:], 2), atol=1e-6)
    back = decoded(make(window_size=3, back_step_size=1), encoded())["alignments"].numpy()[0, ::2, 0]
    assert all(after[max(0, before.argmax() - 1):before.argmax() + 2].sum() == pytest.approx(1.0, abs=1e-5)
               for before, after in zip(back[:-1], back[1:], strict=True) if after.any())


def test_spectrograms_end_with_the_first_stop_token_or_at_a_limit() -> None:
    decoder = make(max_frames_per_symbol=2.5)
    decoder.stop_token.kernel.assign(tf.zeros_like(decoder.stop_token.kernel))
    for biases, lengths, ending in (([-1.0, -1.0], [18, 8, 13], 1), ([-1.0, 1.0], [2, 2, 2], 0),
                                    ([1.0, -1.0], [1, 1, 1], 0)):
        decoder.stop_token.bias.assign(biases)
        result = decoded(decoder, encoded())
        np.testing.assert_array_equal(result["outputs"][4], lengths)
        np.testing.assert_array_equal(result["endings"], [ending] * 3)


def test_the_loss_reaches_all_weights_and_training_drops() -> None:
    encoder, decoder, results = make_encoder(), make(), []
    ids = tf.constant([[3, 4, 5, 6, 7, 8, 9], [3, 4, 5, 0, 0, 0, 0], [3, 4, 5, 6, 7, 0, 0]])
    for seed in (1, 1, 2):
        with forward_pass(seed, 0), tf.GradientTape() as tape:
            source = encoder.encode({"source_tensors": [ids, tf.constant(SYMBOLS)]}, True)
            result = decoded(decoder, source, targets(), True)
            terms = Text2SpeechLoss({"guided_attention_weight": 1.0}).compute_loss(
                {"decoder_output": result, "target_tensors": targets()})
            total = tf.add_n([term.weight * term.sum / term.units for term in terms])
        results.append(result["outputs"][0].numpy())
    variables = [*encoder.trainable_variables, *decoder.trainable_variables]
    assert all(gradient is not None for gradient in tape.gradient(total, variables))
    assert [term.name for term in terms] == ["decoder", "postnet", "magnitude", "stop_token", "guided_attention"]
    np.testing.assert_array_equal(results[0], results[1])
    assert np.abs(results[0] - results[2]).max() > 1e-3


def test_all_blocks_record_their_attention() -> None:
    with recording_attention() as record:
        decoded(make(), encoded(), targets())
    assert [tuple(one.shape) for one in record] == [(3, 1, 6, 7)] * 2


@pytest.mark.parametrize(("params", "message"), [
    ({"conv_layers": [{**CAUSAL, "num_channels": 9}]}, r"conv_layers/0/num_channels' is 9, but must be 8"),
    ({"conv_layers": [{**CAUSAL, "stride": [2]}]}, r"conv_layers/0/stride' is \[2\], but must be \[1\]"),
    ({"conv_layers": [LAYER]}, r"conv_layers/0/is_causal' must be True: no frame may depend on later ones"),
    ({"self_attention_conv_params": {**CAUSAL, "padding": "SAME"}},
     r"self_attention_conv_params/padding' is SAME, but must be VALID with is_causal True"),
    ({"conv_layers": [{**CAUSAL, "kernel_size": [0]}]},
     "conv_layers/0/kernel_size' is .0. but each of its values has to be from 1"),
    ({"attention_heads": 3}, "attention_heads' is 3 but has to divide hidden_size, which is 8"),
    ({"force_layers": [1, 2]}, r"force_layers' is \[1, 2\], but has to be a list .* from 0 to 1"),
    ({"force_layers": []}, r"force_layers' is \[\], but has to be"),
    ({"force_layers": ["a"]}, r"force_layers' is \['a'\], but has to be"),
    ({"window_size": 2, "back_step_size": 2}, "back_step_size' is 2, but has to be below window_size, which is 2"),
    ({"output_type": "mel", "num_audio_features": MELS},
     r"mag_conv_layers' has to be \[\], because output_type is mel"),
    ({"num_audio_features": MELS}, "num_audio_features' is 5 but has to be a dict with mel and magnitude"),
    ({"prenet_activation_fn": "rellu"}, "rellu"),
    ({"reduction_factor": 0}, "reduction_factor' is 0 but has to be from 1 to 1000"),
    ({"postnet_conv_layers": []}, "postnet_conv_layers"),
])
def test_mistakes_are_one_sentence(params: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        make(**params)
    assert len(error.value.problems) == 1


def test_sizes_of_layers_may_be_tuples() -> None:
    layer = {**CAUSAL, "kernel_size": (3,), "stride": (1,)}
    decoder = make(conv_layers=[layer], self_attention_conv_params=layer, mag_conv_layers=[layer])
    assert [one.reach for one in decoder.convolutions] == [2]
    with pytest.raises(ConfigError, match=r"conv_layers/0/stride' is \[2\], but must be \[1\]"):
        make(conv_layers=[{**layer, "stride": (2,)}])


def test_mistakes_of_the_encoder() -> None:
    with pytest.raises(ConfigError, match="conv_layers/0/num_channels' is 8, but must be 9"):
        make_encoder(embedding_size=9, conv_layers=[LAYER])
    with pytest.raises(ConfigError, match="conv_layers/0/padding' is VALID, but must be SAME with is_causal False"):
        make_encoder(conv_layers=[{**LAYER, "padding": "VALID"}])
