from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import FullyConnectedDecoder, FullyConnectedSCDecoder, FullyConnectedTimeDecoder
from open_seq2seq.utils.errors import ConfigError

HIDDEN = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
MODEL = SimpleNamespace(encoder=SimpleNamespace(output_size=4))


def decode(decoder, outputs):
    return decoder.decode({"encoder_output": {"outputs": tf.constant(outputs), "outputs_length": tf.constant([3, 2])}})


def test_classes_are_a_linear_function_of_the_features():
    decoder = FullyConnectedDecoder({"num_classes": 5}, MODEL)
    result = decode(decoder, HIDDEN[:, 0])
    np.testing.assert_allclose(result["logits"], HIDDEN[:, 0] @ decoder.kernel.numpy() + decoder.bias.numpy(),
                               atol=1e-6)
    assert result["outputs"][0] is result["logits"]


def test_all_positions_count_for_a_command():
    decoder = FullyConnectedSCDecoder({"num_classes": 5, "time_steps": 3}, MODEL)
    np.testing.assert_allclose(decode(decoder, HIDDEN)["logits"], HIDDEN.reshape(2, 12) @ decoder.kernel.numpy(),
                               atol=1e-6)
    flat = FullyConnectedSCDecoder({"output_dim": 5, "hidden_size": 12})
    assert decode(flat, HIDDEN.reshape(2, 12))["logits"].shape == (2, 5)


def test_symbols_at_each_position():
    decoder = FullyConnectedTimeDecoder({"tgt_vocab_size": 6}, MODEL)
    result = decode(decoder, HIDDEN)
    np.testing.assert_allclose(result["logits"], HIDDEN @ decoder.kernel.numpy(), atol=1e-6)
    np.testing.assert_array_equal(result["outputs"][0], result["logits"].numpy().argmax(-1))
    own = FullyConnectedTimeDecoder({"tgt_vocab_size": 6, "logits_to_outputs_func": lambda logits, inputs: [
        tf.reduce_max(logits, -1)]}, MODEL)
    np.testing.assert_allclose(decode(own, HIDDEN)["outputs"][0], decode(own, HIDDEN)["logits"].numpy().max(-1))


@pytest.mark.parametrize("kind,params,words", [
    (FullyConnectedDecoder, {"num_classes": 5, "output_dim": 4}, "output_dim' is 4, but the data layer has 5 classes"),
    (FullyConnectedDecoder, {}, "output_dim' is missing.*\n.*hidden_size' is missing"),
    (FullyConnectedTimeDecoder, {"tgt_vocab_size": 3}, "hidden_size' is missing"),
])
def test_mistakes_are_explained(kind, params, words):
    with pytest.raises(ConfigError, match=words):
        kind(params)


@pytest.mark.parametrize("kind,hidden_size,outputs,words", [
    (FullyConnectedDecoder, 5, HIDDEN[:, 0], "hidden_size' is 5, but the encoder's outputs have 4 channels"),
    (FullyConnectedDecoder, 8, HIDDEN[:, 0], "hidden_size' is 8, but the encoder's outputs have 4 channels"),
    (FullyConnectedSCDecoder, 13, HIDDEN, "hidden_size' is 13, but the encoder's outputs have 4 channels"),
    (FullyConnectedDecoder, 4, HIDDEN, "outputs are 3-dimensional: choose FullyConnectedSCDecoder"),
])
def test_outputs_that_do_not_fit_are_explained(kind, hidden_size, outputs, words):
    decoder = kind({"num_classes": 5, "hidden_size": hidden_size}, MODEL)
    with pytest.raises(ConfigError, match=words):
        decode(decoder, outputs)
