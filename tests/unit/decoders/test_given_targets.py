"""Scores and attention of given targets, prefixes and coverage, with every decoder for translation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.beam_search import length_penalty
from open_seq2seq.parts.attention_record import mean_attention, recording_attention
from open_seq2seq.utils.errors import ConfigError
from tests.unit.decoders import test_rnn_decoder as recurrent
from tests.unit.decoders.test_convs2s_decoder import GO, Translator, side, transformer_decoder, transformer_encoder

LENGTHS = [5, 2, 4]
BEAM = {"alpha": 0.6, "n_best": 3, "beam_size": 3}


def convolutional(**params: Any) -> tuple[Any, Any]:
    translator = Translator(**{**BEAM, **params})
    return translator.decoder, translator.encoder.encode({"source_tensors": side(LENGTHS, 1)}, False)


def transformer(**params: Any) -> tuple[Any, Any]:
    translator = Translator(transformer_encoder, transformer_decoder, begin_with_start=False, **{**BEAM, **params})
    return translator.decoder, translator.encoder.encode({"source_tensors": side(LENGTHS, 1)}, False)


def rnn(**params: Any) -> tuple[Any, Any]:
    names = {"alpha": "length_penalty", "beam_size": "beam_width"}
    params = {names.get(name, name): value for name, value in {**BEAM, **params}.items()}
    return recurrent.make(attention_type="gnmt_v2", **params), recurrent.encoded(LENGTHS)


@pytest.fixture(params=[convolutional, transformer, rnn])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_scores_of_hypotheses_are_those_of_the_search(kind: Any):
    decoder, encoded = kind()
    found = decoder.search(encoded)
    starts = decoder.reads_start
    for rank in range(3):
        ids, lengths = found["beam_ids"][:, rank], found["beam_lengths"][:, rank]
        given = tf.pad(ids, [[0, 0], [1, 0]], constant_values=GO) if starts else ids
        scores, counts = decoder.score_targets(encoded, [given, lengths + int(starts)])
        np.testing.assert_array_equal(counts, lengths)
        expected = found["beam_scores"][:, rank] * length_penalty(lengths, 0.6)
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_attention_of_a_hypothesis_is_that_of_its_steps(kind: Any):
    decoder, encoded = kind(n_best=1, beam_size=1)
    found = decoder.search(encoded)
    ids, lengths = found["beam_ids"][:, 0], found["beam_lengths"][:, 0]
    attention = decoder.attention_of(encoded, ids, lengths).numpy()
    prepared, cache = decoder.prepare(encoded), decoder.initial_cache(encoded, 1)
    last = tf.fill([3, 1], decoder.start_id)
    for number in range(ids.shape[1]):
        with recording_attention() as record:
            _, cache = decoder.step(last, tf.constant(number), cache, prepared)
        step = mean_attention(record)[:, 0].numpy()
        for row in range(3):
            if number < lengths[row]:
                np.testing.assert_allclose(attention[row, number], step[row], atol=1e-5)
                np.testing.assert_allclose(attention[row, number].sum(), 1.0, atol=1e-5)
                assert not attention[row, number, LENGTHS[row]:].any()
        last = ids[:, number:number + 1]


def test_one_layer_and_some_heads():
    decoder, encoded = transformer()
    ids, lengths = side([3, 4, 2], 2)
    heads = [decoder.attention_of(encoded, ids, lengths, -1, [head]) for head in range(2)]
    np.testing.assert_allclose(decoder.attention_of(encoded, ids, lengths, 0), (heads[0] + heads[1]) / 2, atol=1e-6)
    for wrong, message in (((1, None), "has 1 layers"), ((0, [2]), "there are 2 heads")):
        with pytest.raises(ConfigError, match=message):
            decoder.attention_of(encoded, ids, lengths, *wrong)


def test_prefixes_begin_the_hypotheses(kind: Any):
    decoder, encoded = kind()
    prefix = [tf.constant([[4, 3], [0, 0], [5, 0]]), tf.constant([2, 0, 1])]
    inputs = {"encoder_output": encoded, "prefix_tensors": prefix}
    found, free = decoder.decode(inputs), decoder.decode({"encoder_output": encoded})
    np.testing.assert_array_equal(found["beam_ids"][0, :, :2], [[4, 3]] * 3)
    np.testing.assert_array_equal(found["beam_ids"][2, :, :1], [[5]] * 3)
    np.testing.assert_allclose(found["beam_scores"][1], free["beam_scores"][1], rtol=1e-5)


def test_the_coverage_penalty_of_each_hypothesis(kind: Any):
    decoder, encoded = kind(coverage_penalty=0.7)
    found = decoder.search(encoded)
    for rank in range(3):
        ids, lengths = found["beam_ids"][:, rank], found["beam_lengths"][:, rank]
        attention = decoder.attention_of(encoded, ids, lengths).numpy()
        starts = int(decoder.reads_start)
        given = tf.pad(ids, [[0, 0], [1, 0]], constant_values=GO) if starts else ids
        scores = decoder.score_targets(encoded, [given, lengths + starts])[0] / length_penalty(lengths, 0.6)
        for row, length in enumerate(lengths.numpy()):
            coverage = attention[row, :length, :LENGTHS[row]].sum(0)
            expected = scores[row] + 0.7 * np.log(np.minimum(coverage, 1.0)).sum()
            np.testing.assert_allclose(found["beam_scores"][row, rank], expected, rtol=1e-3, atol=1e-4)


def test_groups_and_rules_and_limits(kind: Any):
    decoder, encoded = kind(beam_groups=3, max_length_factor=0.5)
    found = decoder.search(encoded)
    assert (found["beam_lengths"].numpy() <= np.ceil(np.array(LENGTHS) / 2)[:, None]).all()
    assert len(set(found["beam_ids"][0, :, 0].numpy().tolist())) > 1
    decoder, encoded = kind(beam_rules="ctranslate2", alpha=1.0)
    found = decoder.search(encoded)
    ids, lengths = found["beam_ids"][:, 0], found["beam_lengths"][:, 0]
    starts = int(decoder.reads_start)
    given = tf.pad(ids, [[0, 0], [1, 0]], constant_values=GO) if starts else ids
    scores, counts = decoder.score_targets(encoded, [given, lengths + starts])
    np.testing.assert_allclose(found["beam_scores"][:, 0], scores / np.asarray(counts, np.float32), rtol=1e-4)
