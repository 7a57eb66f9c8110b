"""Sentences whose search has ended leave the batch, and the results are those of a batch that stays whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.beam_search import BeamResult, SearchSettings, beam_search
from open_seq2seq.decoding.sampling import Sampling, greedy_search, sample
from tests.unit.decoding.test_beam_search import EOS, START, STATES, RandomModel

VOCAB = 7
SEARCHES = ("beam", "ctranslate2", "greedy", "sample")


def searched(kind: str, limits: list[int], leaves: bool) -> tuple[BeamResult, int]:
    """Returns the result of a search with a growing cache, and the number of rows that its steps have computed."""
    tables = tf.constant(RandomModel(len(limits), VOCAB, seed=3, eos_bonus=1.5).tables)
    rows = tf.Variable(0)
    hypotheses = {"beam": 3, "ctranslate2": 3, "greedy": 1, "sample": 2}[kind]
    settings = SearchSettings(VOCAB, START, EOS, 0.6, 3 if hypotheses == 3 else 1, 2 if hypotheses > 1 else 1,
                              rules="ctranslate2" if kind == "ctranslate2" else "wu")

    def step_fn(ids: tf.Tensor, step: tf.Tensor, cache: Any, source: tf.Tensor = tables) -> tuple[tf.Tensor, Any]:
        rows.assign_add(tf.shape(ids)[0])
        history = tf.concat([cache, ids[:, :, tf.newaxis]], 2)
        powers = tf.pow(31, tf.range(tf.shape(history)[2]))[::-1] % STATES
        return tf.gather(source, tf.reduce_sum(history * powers, 2) % STATES, batch_dims=1), history

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(limits: tf.Tensor) -> BeamResult:
        cache = tf.zeros(tf.stack([tf.shape(limits)[0], hypotheses, 0]), tf.int32)
        source = tables if leaves else None
        if kind == "greedy":
            return greedy_search(step_fn, cache, limits, settings, source)
        if kind == "sample":
            return sample(step_fn, cache, limits, settings, Sampling(), tf.range(tf.size(limits)) + 5, source=source)
        return beam_search(step_fn, cache, limits, settings, source=source)

    return BeamResult(*(part.numpy() for part in run(tf.constant(limits, tf.int32)))), int(rows.numpy())


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("limits", [[4, 12, 1, 0, 9, 12, 3, 25], [6], [0, 0], [5, 5, 5]])
def test_results_do_not_depend_on_whether_sentences_leave(kind: str, limits: list[int]):
    whole, all_rows = searched(kind, limits, leaves=False)
    left, rows = searched(kind, limits, leaves=True)
    for expected, actual in zip(whole, left, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert rows <= all_rows


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_long_sentence_runs_alone_in_the_end(kind: str):
    _, rows = searched(kind, [1] * 15 + [25], leaves=True)
    _, all_rows = searched(kind, [1] * 15 + [25], leaves=False)
    assert rows == 16 + all_rows // 16 - 1


def test_an_empty_batch_has_an_empty_result():
    result, rows = searched("beam", [], leaves=True)
    assert result.ids.shape == (0, 2, 0) and rows == 0
