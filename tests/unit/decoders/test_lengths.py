"""Every decoder finds the lengths of an encoder's outputs under each of their names, and has exact limits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import FullyConnectedCTCDecoder, TransformerDecoder
from open_seq2seq.decoders.decoder import limits_by_factor
from open_seq2seq.parts import keys
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.transformer.embedding import SharedEmbedding
from open_seq2seq.utils.errors import ConfigError
from tests.unit.decoders.test_las_decoder import SOURCE, VOCAB, encoded, joint, make, targets

SIZES = {"num_hidden_layers": 1, "hidden_size": SOURCE, "num_heads": 1, "filter_size": 8, "attention_dropout": 0.0,
         "relu_dropout": 0.0, "layer_postprocess_dropout": 0.0, "tgt_vocab_size": VOCAB, "EOS_ID": 1, "batch_size": 3,
         "beam_size": 2, "alpha": 0.6, "extra_decode_length": 2}


def transformer() -> TransformerDecoder:
    with creating_variables(1):
        return TransformerDecoder(SIZES)


def fully_connected() -> FullyConnectedCTCDecoder:
    with creating_variables(1):
        return FullyConnectedCTCDecoder({"tgt_vocab_size": VOCAB, "hidden_size": SOURCE})


def results(decoder: Any, name: str) -> list[np.ndarray]:
    """What a decoder gives, freely and for targets, when lengths have this name."""
    with creating_variables(1):
        table = SharedEmbedding(VOCAB, SOURCE)
    source = encoded(padding=2)
    output = {"outputs": source["outputs"], name: source["src_length"], "embedding_softmax_layer": table}
    found = [decoder.decode({"encoder_output": output, **more}) for more in ({}, {"target_tensors": targets()})]
    return [tensor.numpy() for result in found for tensor in [*result["outputs"], result["logits"]]
            if tensor is not None]


@pytest.mark.parametrize("decoder", [transformer, fully_connected, lambda: make(beam_width=2), joint],
                         ids=["transformer", "ctc", "las", "joint"])
def test_every_name_of_the_lengths_will_do(decoder: Any):
    decoder = decoder()
    expected, *others = (results(decoder, name) for name in (keys.LENGTHS, *keys.LENGTHS_ALIASES))
    for other in others:
        for one, another in zip(expected, other, strict=True):
            np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize("decoder", [transformer, fully_connected, make, joint])
def test_keys_of_the_output_are_in_the_list(decoder: Any):
    with creating_variables(1):
        output = {**encoded(), "embedding_softmax_layer": SharedEmbedding(VOCAB, SOURCE)}
    decoder = decoder()
    for more in ({}, {"target_tensors": targets()}):
        assert set(decoder.decode({"encoder_output": output, **more})) <= set(keys.DecoderOutput.__annotations__)


def test_padding_is_hidden_without_the_encoders_bias():
    decoder = transformer()
    with creating_variables(1):
        table = SharedEmbedding(VOCAB, SOURCE)
    logits = []
    for padding in (0, 4):
        source = {**encoded(padding=padding), "embedding_softmax_layer": table}
        source["outputs"] = tf.concat([encoded()["outputs"], tf.ones([3, padding, SOURCE])], 1)
        logits.append(decoder.decode({"encoder_output": source, "target_tensors": targets()})["logits"])
    np.testing.assert_allclose(*logits, atol=1e-5)
    with pytest.raises(ConfigError, match="needs the encoder's embedding table"):
        decoder.decode({"encoder_output": encoded()})


@pytest.mark.parametrize("factor", ["0.3", "0.6", "1.0", "1.2", "2.4", "10.0"])
def test_limits_are_exact_products_rounded_up(factor: str):
    lengths = range(301)
    limits = limits_by_factor(tf.constant([*lengths]), float(factor))
    assert limits.numpy().tolist() == [math.ceil(length * Fraction(factor)) for length in lengths]
