"""Several speakers in encoders: batches, padding, one speaker, and the names."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.speakers import Speakers
from open_seq2seq.utils.errors import ConfigError, DataError
from tests.unit.decoders import test_centaur, test_tacotron2

MAKERS = {"tacotron": (test_tacotron2.make_encoder, {}), "styled": (test_tacotron2.make_encoder, test_tacotron2.STYLED),
          "centaur": (test_centaur.make_encoder, {})}
LENGTHS, SPEAKERS = [7, 3, 5], [1, 0, 1]


def source(rows=slice(None), padding=0, speakers=SPEAKERS):
    """Returns texts in which only padding has the id 0, with recordings of their style."""
    longest = max(LENGTHS[rows])
    ids = np.random.default_rng(0).integers(3, 11, [3, 7]) * (np.arange(7) < np.array(LENGTHS)[:, np.newaxis])
    ids = np.pad(ids[rows, :longest], [[0, 0], [0, padding]])
    style = np.random.default_rng(1).normal(size=[3, 6, 5]).astype(np.float32)[rows]
    return {"source_tensors": [tf.constant(ids, tf.int32), tf.constant(LENGTHS[rows]), tf.constant(style),
                               tf.constant([6, 4, 5][rows])], "speakers": tf.constant(speakers[rows])}


@pytest.mark.parametrize("kind", MAKERS)
def test_an_example_does_not_depend_on_its_batch_or_padding(kind):
    make, params = MAKERS[kind]
    encoder = make(**params, num_speakers=3)
    together = encoder.encode(source(padding=4))["outputs"].numpy()
    for row, size in enumerate(LENGTHS):
        alone = encoder.encode(source(slice(row, row + 1)))["outputs"].numpy()[0]
        np.testing.assert_allclose(together[row, :size], alone, atol=1e-5)
        assert not together[row, size:].any()


@pytest.mark.parametrize("kind", MAKERS)
def test_speakers_differ_by_their_embeddings(kind):
    make, params = MAKERS[kind]
    encoder = make(**params, num_speakers=3)
    table = encoder.speakers.table.numpy()
    one, other = (encoder.encode(source(speakers=[speaker] * 3))["outputs"].numpy() for speaker in (0, 2))
    for row, size in enumerate(LENGTHS):
        np.testing.assert_allclose(other[row, :size] - one[row, :size], np.tile(table[2] - table[0], [size, 1]),
                                   atol=1e-5)


@pytest.mark.parametrize("kind", MAKERS)
def test_one_speaker_is_a_model_without_speakers(kind):
    make, params = MAKERS[kind]
    with_one, without = make(**params, num_speakers=1), make(**params)
    assert named_variables(with_one).keys() == named_variables(without).keys()
    given = source()
    outputs = [encoder.encode(given)["outputs"].numpy() for encoder in (with_one, without)]
    np.testing.assert_array_equal(*outputs)
    del given["speakers"]
    np.testing.assert_array_equal(without.encode(given)["outputs"], outputs[1])


@pytest.mark.parametrize("names", [["a", "a"], [""], ["a|b"], [" a"], [3], ["a]"]])
def test_names_that_cannot_be_told_apart_are_refused(names):
    with pytest.raises(ConfigError, match="data/speakers' has the name"):
        Speakers(names, "data/speakers")


def test_an_unknown_speaker_is_told_the_known_ones():
    with pytest.raises(DataError, match=r"^There is no speaker 'carl': the model has anna, bob\.$"):
        Speakers(["anna", "bob"], "").number("carl")
    with pytest.raises(DataError, match="has one voice without a name: leave it out"):
        Speakers([], "").number("carl")
    many = Speakers([f"speaker {number}" for number in range(300)], "")
    assert many.number("speaker 299") == 299
    with pytest.raises(DataError, match="speaker 19 and 280 more"):
        many.number("carl")
