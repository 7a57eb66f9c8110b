"""The causal Transformer: no token sees later ones, and generation with a cache reads the same as without."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import TransformerLMEncoder, language_encoder
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders.generation import compiled_generation

VOCAB, LENGTHS = 11, [7, 3, 1]


def make(**params):
    given = {"encoder_layers": 2, "hidden_size": 8, "num_heads": 2, "filter_size": 12, "vocab_size": VOCAB, **params}
    with creating_variables(1):
        encoder = TransformerLMEncoder(given, mode="infer")
    rng = np.random.default_rng(0)
    for variable in named_variables(encoder).values():
        variable.assign(variable + rng.normal(0.0, 0.3, variable.shape))
    return encoder


def batch():
    ids = np.random.default_rng(1).integers(0, VOCAB, (3, 7)).astype(np.int32)
    return tf.constant(ids), tf.constant(LENGTHS, tf.int32)


def logits_of(encoder, ids, lengths):
    return encoder.encode({"source_tensors": [ids, lengths]})["logits"].numpy()


def test_a_token_depends_on_earlier_tokens_only():
    encoder, (ids, _) = make(), batch()
    whole = logits_of(encoder, ids, tf.constant([7, 7, 7]))
    for end in (1, 4):
        found = logits_of(encoder, ids[:, :end], tf.fill([3], end))
        np.testing.assert_allclose(found, whole[:, :end], atol=1e-5)
    padded = logits_of(encoder, ids, tf.constant(LENGTHS))
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(padded[row, :length], whole[row, :length], atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("tied", [True, False])
def test_generation_with_a_cache_reads_the_same_as_without(tied):
    encoder, (ids, lengths) = make(weight_tied=tied, num_tokens_gen=5), batch()
    found = tf.function(encoder.generate)(ids, lengths, tf.range(3)).numpy()
    for row, length in enumerate(LENGTHS):
        text = ids[row, :length].numpy().tolist()
        for _ in range(5):
            text.append(int(logits_of(encoder, tf.constant([text]), tf.constant([len(text)]))[0, -1].argmax()))
        assert found[row].tolist() == text[length:]


@pytest.mark.parametrize("kind", [{}, {"position_encoding": "alibi"}, {"position_encoding": "alibi",
                                                                        "memory_length": 3}], ids=len)
def test_long_prompts_are_read_in_pieces(kind, monkeypatch):
    monkeypatch.setattr(language_encoder, "_READ_AT_ONCE", 2)
    encoder, (ids, _) = make(num_tokens_gen=3, **kind), batch()
    lengths = [7, 6, 6]  # five tokens are read in three pieces, and one in the loop
    pieces = []
    monkeypatch.setattr(encoder, "read", lambda ids, *rest: pieces.append(ids.shape) or type(encoder).read(
        encoder, ids, *rest))
    found = encoder.generate(ids, tf.constant(lengths), tf.range(3)).numpy()
    assert [shape[1] for shape in pieces] == [2, 2, 1]
    np.testing.assert_array_equal(compiled_generation(encoder)(ids, tf.constant(lengths), tf.range(3)), found)
    for row, length in enumerate(lengths):
        text = ids[row, :length].numpy().tolist()
        for _ in range(3):
            text.append(int(logits_of(encoder, tf.constant([text]), tf.constant([len(text)]))[0, -1].argmax()))
        assert found[row].tolist() == text[length:]


def test_a_batch_without_prompts_has_no_continuations():
    """Towers without examples get such batches."""
    none = tf.zeros([0], tf.int32)
    found = compiled_generation(make(num_tokens_gen=3))(tf.zeros([0, 7], tf.int32), none, none)
    assert found.shape == (0, 3)


BAD = {"heads": ({"num_heads": 3}, "multiple of num_heads"), "norm": ({"norm_params": {"type": "batch_norm"}}, "later"),
       "carry": ({"carry_state": True}, "set .*memory_length"),
       "memory": ({"memory_length": 3}, "set position_encoding to alibi")}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_named(name):
    params, expected = BAD[name]
    with pytest.raises(ConfigError, match=expected):
        make(**params)
