import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.utils.errors import ConfigError

SIZES = {"tgt_vocab_size": 5, "hidden_size": 6}


def encoded(seed=0, dtype=tf.float32):
    hidden = np.random.default_rng(seed).normal(size=(3, 8, 6))
    return {"outputs": tf.constant(hidden, dtype), "src_length": tf.constant([8, 3, 5])}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_logits_are_float32_of_a_linear_layer(dtype):
    decoder = FullyConnectedCTCDecoder({**SIZES, "dtype": dtype})
    decoder.bias.assign([0.0, 1.0, 2.0, 3.0, 4.0])
    encoder_output = encoded(dtype=tf.as_dtype(dtype))
    result = decoder.decode({"encoder_output": encoder_output})
    assert result["logits"].dtype == tf.float32 and result["logits"].shape == (3, 8, 5)
    want = tf.cast(encoder_output["outputs"], tf.float32) @ decoder.kernel + tf.range(5.0)
    np.testing.assert_allclose(result["logits"], want, atol=1e-5 if dtype == "float32" else 0.05)
    np.testing.assert_array_equal(result["src_length"], [8, 3, 5])
    assert result["outputs"][0].shape[0] == 3 and result["outputs"][1].shape == (3,)


def test_it_learns_with_the_loss():
    decoder, loss = FullyConnectedCTCDecoder(SIZES), CTCLoss({"tgt_vocab_size": 5})
    labels, lengths = tf.constant([[0, 1, 1], [2, 0, 0], [3, 2, 0]]), tf.constant([3, 1, 2])

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            output = decoder.decode({"encoder_output": encoded()}, training=True)
            terms = loss.compute_loss({"decoder_output": output, "target_tensors": [labels, lengths]})
            mean = terms[0].sum / terms[0].units
        for variable, slope in zip(variables, tape.gradient(mean, variables), strict=True):
            variable.assign_sub(0.5 * slope)
        assert output["outputs"] is None  # a training step asks for the loss alone
        return mean, decoder.decode({"encoder_output": encoded()})["outputs"]

    variables = [decoder.kernel, decoder.bias]
    first = float(step()[0])
    for _ in range(300):
        last, (ids, counts, *_) = step()
    assert float(last) < 0.1 * first
    assert [row[:count].tolist() for row, count in zip(ids.numpy(), counts.numpy(), strict=True)] == [
        [0, 1, 1], [2], [3, 2]]


def test_the_encoder_tells_its_size():
    class Model:
        class encoder:
            output_size = 7

    assert FullyConnectedCTCDecoder({"tgt_vocab_size": 3}, Model()).kernel.shape == (7, 3)


def test_beam_decoder_has_the_decoders_options():
    decoder = FullyConnectedCTCDecoder({**SIZES, "beam_width": 7, "n_best": 2})
    beam = decoder.beam_decoder(["a", "b", "c", " "])
    assert (beam.params["beam_width"], beam.params["n_best"]) == (7, 2)
    found = beam(np.random.default_rng(0).normal(size=(2, 9, 5)), np.array([9, 4]))
    assert [len(n_best) for n_best in found] == [2, 2]


@pytest.mark.parametrize("params, what", [
    ({"use_language_model": True, "lm_weight": 0.1}, "'decoder_params/lm_weight' is obsolete: it is called alpha"),
    ({"hidden_size": None}, "hidden_size' is missing"), ({"tgt_vocab_size": 1}, "at least 2")])
def test_mistakes_are_named(params, what):
    with pytest.raises(ConfigError, match=what):
        FullyConnectedCTCDecoder({**SIZES, **params})


def test_old_parameters_without_effect_are_accepted():
    for used in (False, True):
        FullyConnectedCTCDecoder({**SIZES, "decoder_library_path": "x.so", "trie_path": "trie",
                                  "use_language_model": used})
    FullyConnectedCTCDecoder({**SIZES, "lm_binary_path": "lm"})
