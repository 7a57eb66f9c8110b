"""What every autoregressive decoder gets from its base: the searches, by a decoder that has nothing but the hooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders.autoregressive import check_heads
from open_seq2seq.utils.errors import ConfigError
from tests.unit.decoders.toy_decoder import ToyDecoder, decode, hypothesis
from tests.unit.decoding.test_beam_search import RandomModel

LIMITS = [4, 9, 1, 7, 9, 0]


class NormalisedDecoder(ToyDecoder):
    """The same scores as log probabilities."""

    are_log_probs = True

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: tf.Tensor) -> tuple[tf.Tensor, Any]:
        logits, cache = super().step(ids, step, cache, prepared)
        return tf.nn.log_softmax(logits), cache


@pytest.mark.long
@pytest.mark.parametrize("decoder", [ToyDecoder, NormalisedDecoder])
@pytest.mark.parametrize(("vocab", "limit", "alpha"), [(3, 4, 0.6), (4, 3, 2.0), (4, 4, 0.0)])
def test_a_wide_beam_finds_what_brute_force_does(vocab: int, limit: int, alpha: float, decoder: type[ToyDecoder]):
    model = RandomModel(4, vocab, seed=vocab)
    result = decode(model.tables, [limit] * 4, decoder=decoder, beam_size=(vocab - 1) ** limit, n_best=4, alpha=alpha)
    for row in range(4):
        expected = model.brute_force(row, alpha, limit)[:4]
        assert [hypothesis(result, row, rank) for rank in range(4)] == [ids for _, ids in expected]
        np.testing.assert_allclose(result["beam_scores"][row], [score for score, _ in expected], rtol=1e-5, atol=1e-5)
        best, (outputs, lengths) = expected[0][1], result["outputs"]
        assert tuple(outputs[row, :lengths[row] + 1]) == best and lengths[row] == len(best) - 1


@pytest.mark.long
@pytest.mark.parametrize("options", [{"sampling_top_k": 1}, {"sampling_top_p": 1e-9, "n_best": 3}])
def test_samples_of_the_likeliest_alone_are_greedy(options: dict[str, Any]):
    tables = RandomModel(6, 1500, seed=2, eos_bonus=5.0).tables
    greedy = decode(tables, LIMITS, alpha=0.6)
    samples = decode(tables, LIMITS, alpha=0.6, sampling_temperature=3.0, **options)
    for rank in range(samples["beam_ids"].shape[1]):
        np.testing.assert_array_equal(samples["beam_ids"][:, rank], greedy["beam_ids"][:, 0])
        # Three samples are three rows of the softmax, and a row's last bit may follow from how many there are.
        np.testing.assert_allclose(samples["beam_scores"][:, rank], greedy["beam_scores"][:, 0], rtol=1e-6)
    np.testing.assert_array_equal(samples["outputs"][1], greedy["outputs"][1])


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"sampling_top_k": 5}, {"sampling_top_p": 0.9}])
def test_a_sample_depends_on_its_example_and_on_nothing_beside_it(options: dict[str, Any]):
    model = RandomModel(6, 9, seed=5)
    examples = [40, -1, 7, 0, 2**40, 3]
    options = {"sampling_temperature": 1.0, "n_best": 3, **options}
    together = decode(model.tables, LIMITS, examples, **options)
    order = [3, 5, 0, 1, 4, 2]
    turned = decode(model.tables[order], [LIMITS[row] for row in order], [examples[row] for row in order], **options)
    for place, row in enumerate(order):
        for rank in range(3):
            assert hypothesis(together, row, rank) == hypothesis(turned, place, rank)
    for row in (1, 4):
        alone = decode(model.tables[row:row + 1], LIMITS[row:row + 1], examples[row:row + 1], **options)
        for rank in range(3):
            assert hypothesis(together, row, rank) == hypothesis(alone, 0, rank)
    again = decode(model.tables, LIMITS, examples, **options)
    np.testing.assert_array_equal(together["beam_ids"], again["beam_ids"])
    other = decode(model.tables, LIMITS, examples, sampling_seed=1, **options)
    assert other["beam_ids"].shape != together["beam_ids"].shape or (other["beam_ids"] != together["beam_ids"]).any()


@pytest.mark.long
def test_rows_stand_in_for_examples_without_numbers():
    tables = np.repeat(RandomModel(1, 9, seed=5).tables, 8, 0)
    samples = decode(tables, [6] * 8, sampling_temperature=1.0)
    numbered = decode(tables, [6] * 8, range(8), sampling_temperature=1.0)
    np.testing.assert_array_equal(samples["beam_ids"], numbered["beam_ids"])
    assert len({hypothesis(samples, row) for row in range(8)}) > 1


@pytest.mark.parametrize(("params", "message"), [
    ({"n_best": 4, "beam_size": 3}, r"n_best' must be from 1 to beam_size \(3\), got 4"),
    ({"sampling_top_k": 4}, "sampling_top_k' is 4, but sampling is off: set sampling_temperature"),
    ({"sampling_top_p": 0.5, "beam_size": 4}, "sampling_top_p' is 0.5"),
    ({"sampling_temprature": 1.0}, "Did you mean 'sampling_temperature'"),
])
def test_mistakes_are_named(params: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        ToyDecoder({"tgt_vocab_size": 5, **params})


@pytest.mark.parametrize("heads", [[], [2], [-1], [0.5], ["a"], [True]])
def test_heads_that_do_not_exist_are_named(heads: list[Any]):
    check_heads([tf.zeros([1, 2, 1, 3])], None, [0, 1])
    with pytest.raises(ConfigError, match="'alignment_heads' is .*, but there are 2 heads: choose indices from 0 to 1"):
        check_heads([tf.zeros([1, 2, 1, 3])], None, heads)
