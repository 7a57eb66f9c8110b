"""Rules, groups, coverage and prefixes of the search, against plain searches with lists and against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders.autoregressive import Prefix, with_prefix
from open_seq2seq.decoding.beam_search import BeamResult, SearchSettings, beam_search
from open_seq2seq.decoding.diverse_search import diverse_beam_search
from open_seq2seq.decoding.sampling import Sampling, greedy_search, sample
from tests.unit.decoding.test_beam_search import EOS, START, STATES, RandomModel, hypothesis
from tests.unit.decoding.test_sampling import stepped

Scored = list[tuple[float, tuple[int, ...]]]
LIMITS = [3, 7, 5, 1, 6]


def cache_of(limits: list[int], beam: int) -> tf.Tensor:
    return tf.zeros([len(limits), beam], tf.int32)


def extended(model: RandomModel, row: int, alive: Scored) -> Scored:
    """All continuations of some hypotheses, best first: (log probability, ids)."""
    return sorted(((total + lp, (*ids, token)) for total, ids in alive
                   for token, lp in enumerate(model.log_probs(row, ids))), reverse=True)


def assert_equal(result: BeamResult, row: int, expected: Scored) -> None:
    assert [hypothesis(result, row, rank) for rank in range(len(expected))] == [ids for _, ids in expected]
    scores = result.scores[row][:len(expected)]
    np.testing.assert_allclose(scores, [score for score, _ in expected], rtol=1e-4, atol=1e-5)


def by_ctranslate2(model: RandomModel, row: int, beam: int, alpha: float, limit: int, n_best: int) -> Scored:
    """The search of CTranslate2 with lists, as its documentation and source describe it."""
    alive: Scored = [(0.0, ())]
    finished: Scored = []
    top_finished = False
    for number in range(1, limit + 1):
        candidates = extended(model, row, alive)[:2 * beam]
        for place, (total, ids) in enumerate(candidates[:beam]):
            if ids[-1] == EOS or number == limit:
                finished.append((total / number ** alpha, ids))
                top_finished |= place == 0
        if len(finished) >= n_best and top_finished if alpha == 0 else len(finished) >= beam:
            break
        alive = [(total, ids) for total, ids in candidates if ids[-1] != EOS][:beam]
    return sorted(finished, reverse=True)[:n_best]


@pytest.mark.parametrize(("beam", "alpha", "n_best", "bonus"), [(3, 0.0, 1, 1.0), (3, 1.0, 3, 1.0), (2, 0.6, 2, -1.0)])
def test_the_rules_of_ctranslate2(beam: int, alpha: float, n_best: int, bonus: float):
    model = RandomModel(5, 6, seed=3, eos_bonus=bonus)
    settings = SearchSettings(6, START, EOS, alpha, beam, n_best, rules="ctranslate2")
    result = beam_search(stepped(model), cache_of(LIMITS, beam), tf.constant(LIMITS), settings)
    for row, limit in enumerate(LIMITS):
        assert_equal(result, row, by_ctranslate2(model, row, beam, alpha, limit, n_best))


def test_greedy_scores_follow_the_rules_too():
    model = RandomModel(2, 6, seed=3, eos_bonus=2.0)
    settings = SearchSettings(6, START, EOS, 1.0, rules="ctranslate2")
    result = greedy_search(stepped(model), cache_of([6, 1], 1), tf.constant([6, 1]), settings)
    for row in range(2):
        ids = hypothesis(result, row)
        np.testing.assert_allclose(result.scores[row, 0], model.score(row, ids, 0.0) / len(ids), rtol=1e-4)


def in_groups(model: RandomModel, row: int, settings: SearchSettings, limit: int) -> Scored:
    """Diverse beam search with lists."""
    width, groups = settings.beam_size // settings.groups, settings.groups
    n_best = min(width, settings.n_best)
    alive: list[Scored] = [[(0.0, ())] for _ in range(groups)]
    finished: list[Scored] = [[] for _ in range(groups)]
    done = [False] * groups

    def divisor(length: int) -> float:
        return ((5 + length) / 6) ** settings.alpha

    for number in range(1, limit + 1):
        used = np.zeros(settings.vocab_size)
        were_done = list(done)
        for group in range(groups):
            if were_done[group]:
                continue
            ranked = sorted(((total - settings.diversity * used[ids[-1]], total, ids)
                             for total, ids in extended(model, row, alive[group])), reverse=True)
            ranked = ranked[:2 * width if width > 1 else 1]
            ended = [(total / divisor(number), ids) for _, total, ids in ranked if ids[-1] == EOS]
            finished[group] = sorted(finished[group] + ended, reverse=True)[:width]
            alive[group] = [(total, ids) for _, total, ids in ranked if ids[-1] != EOS][:width]
            for _, ids in alive[group]:
                used[ids[-1]] += 1
            best = max((total for total, _ in alive[group]), default=-np.inf)
            bound = max(best / divisor(number + 1), best / divisor(limit))
            done[group] = len(finished[group]) >= n_best and finished[group][n_best - 1][0] >= bound
    ended = [found for group in range(groups) for found in finished[group][:n_best]]
    others = [(total / divisor(limit), ids) for group in range(groups)
              for total, ids in alive[group][:max(0, n_best - len(finished[group]))]]
    return (sorted(ended, reverse=True) + sorted(others, reverse=True))[:settings.n_best]


@pytest.mark.parametrize(("beam", "groups", "diversity", "n_best"), [(4, 2, 0.7, 4), (6, 3, 5.0, 3), (3, 3, 1.0, 3)])
def test_groups_avoid_one_anothers_ids(beam: int, groups: int, diversity: float, n_best: int):
    model = RandomModel(5, 7, seed=4, eos_bonus=1.0)
    settings = SearchSettings(7, START, EOS, 0.6, beam, n_best, groups=groups, diversity=diversity)
    result = diverse_beam_search(stepped(model), cache_of(LIMITS, beam), tf.constant(LIMITS), settings)
    for row, limit in enumerate(LIMITS):
        assert_equal(result, row, in_groups(model, row, settings, limit))


def test_one_group_is_beam_search():
    model = RandomModel(5, 7, seed=4, eos_bonus=1.0)
    settings = SearchSettings(7, START, EOS, 0.6, 3, 3, diversity=2.0)
    results = [run(stepped(model), cache_of(LIMITS, 3), tf.constant(LIMITS), settings)
               for run in (diverse_beam_search, beam_search)]
    np.testing.assert_array_equal(results[0].ids, results[1].ids)
    np.testing.assert_allclose(results[0].scores, results[1].scores, rtol=1e-5)


def covering(model: RandomModel, attention: np.ndarray, bias: Any = 0.0) -> Any:
    """The step of a search whose cache has the attention that each source position has received."""
    def step(ids: tf.Tensor, number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        state, coverage = cache
        logits, state = stepped(model)(ids, number, state)
        return logits + bias, (state, coverage + tf.gather(tf.constant(attention), state))

    return step


def test_unfinished_hypotheses_are_also_best_first():
    attention = np.random.default_rng(0).dirichlet([0.3] * 4, STATES).astype(np.float32)
    step = covering(RandomModel(3, 5, seed=6), attention, tf.one_hot(EOS, 5, -np.inf, 0.0))
    settings = SearchSettings(5, START, EOS, 0.6, 4, 4, coverage=0.8)
    result = beam_search(step, (cache_of([3] * 3, 4), tf.zeros([3, 4, 4])), tf.constant([3] * 3), settings,
                         coverage_of=lambda both: both[1])
    assert np.isfinite(result.scores).all() and (np.diff(result.scores, axis=1) <= 0.0).all()


def test_the_coverage_penalty_equals_brute_force():
    model = RandomModel(3, 3, seed=6)
    attention = np.random.default_rng(0).dirichlet([0.3] * 4, STATES).astype(np.float32)
    limit, weight, alpha = 4, 0.8, 0.6
    lengths = [4, 2, 3]  # of the sources; no attention goes to padding

    def brute_force(row: int) -> Scored:
        found = []
        for _, ids in model.brute_force(row, alpha, limit):
            state, coverage = 0, np.zeros(4)
            for token in (START, *ids[:-1]):
                state = (state * 31 + token + 1) % STATES
                coverage += attention[state]
            penalty = np.log(np.minimum(coverage[:lengths[row]], 1)).sum()
            found.append((model.score(row, ids, alpha) + weight * penalty, ids))
        return sorted(found, reverse=True)

    beam = 2 ** limit
    padding = tf.cast(~tf.sequence_mask(lengths, 4), tf.float32)
    cache = (cache_of([limit] * 3, beam), tf.tile(padding[:, tf.newaxis], [1, beam, 1]))
    settings = SearchSettings(3, START, EOS, alpha, beam, 4, coverage=weight)
    result = beam_search(covering(model, attention), cache, tf.constant([limit] * 3), settings,
                         coverage_of=lambda both: both[1])
    for row in range(3):
        assert_equal(result, row, brute_force(row)[:4])


PREFIXES = [(3, 0), (), (4,), (0,), (2, 2, 2)]


def prefix_of(prefixes: list[tuple[int, ...]]) -> Prefix:
    longest = max(map(len, prefixes), default=0)
    padded = [[*ids, *[0] * (longest - len(ids))] for ids in prefixes]
    return Prefix(tf.reshape(tf.constant(padded, tf.int32), [len(prefixes), longest]),
                  tf.constant([len(ids) for ids in prefixes]))


def test_a_prefix_is_kept_and_scored():
    model = RandomModel(5, 5, seed=8)
    limit = 4
    settings = SearchSettings(5, START, EOS, 0.6, 4 ** 4, 3, are_log_probs=True)
    result = beam_search(with_prefix(stepped(model), prefix_of(PREFIXES), False), cache_of([limit] * 5, 4 ** 4),
                         tf.constant([limit] * 5), settings)
    for row, prefix in enumerate(PREFIXES):
        expected = [found for found in model.brute_force(row, 0.6, limit) if found[1][:len(prefix)] == prefix]
        assert_equal(result, row, expected[:3])


def test_greedy_search_and_samples_begin_with_the_prefix():
    model = RandomModel(5, 1000, seed=9)
    forced = with_prefix(stepped(model), prefix_of(PREFIXES), False)
    settings = SearchSettings(1000, START, EOS, n_best=3, are_log_probs=True)
    greedy = greedy_search(forced, cache_of(LIMITS, 1), tf.constant(LIMITS), settings)
    drawn = sample(forced, cache_of(LIMITS, 3), tf.constant(LIMITS), settings, Sampling(2.0, 50, 0.9), range(5))
    for row, prefix in enumerate(PREFIXES):
        for found in [hypothesis(greedy, row), *(hypothesis(drawn, row, rank) for rank in range(3))]:
            assert found[:len(prefix)] == prefix[:LIMITS[row]]
        found = hypothesis(drawn, row, 1)
        np.testing.assert_allclose(drawn.scores[row, 1], model.score(row, found, 0.0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"groups": 2, "diversity": 0.7}, {"rules": "ctranslate2"}])
def test_results_do_not_depend_on_the_batch(options: dict[str, Any]):
    model = RandomModel(5, 7, seed=4, eos_bonus=1.0)
    settings = SearchSettings(7, START, EOS, 0.6, 4, 4, **options)
    run = diverse_beam_search if "groups" in options else beam_search
    together = run(stepped(model), cache_of(LIMITS, 4), tf.constant(LIMITS), settings)
    tables = model.tables
    for row in (0, 1, 3):
        model.tables = tables[row:row + 1]
        alone = run(stepped(model), cache_of([0], 4), tf.constant(LIMITS[row:row + 1]), settings)
        assert [hypothesis(together, row, rank) for rank in range(4)] == [hypothesis(alone, 0, r) for r in range(4)]


def test_groups_have_to_divide_the_beam():
    with pytest.raises(ValueError, match="groups .3. must divide beam_size .4."):
        diverse_beam_search(stepped(RandomModel(1, 4)), cache_of([3], 4), tf.constant([3]),
                            SearchSettings(4, START, EOS, beam_size=4, groups=3))
