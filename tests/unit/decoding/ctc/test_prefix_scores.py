import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.ctc.prefix_scores import CtcPrefixScorer
from tests.unit.decoding.ctc import exhaustive

PREFIXES = [(0,), (1, 1), (0, 1, 0), (2, 2), (1, 2, 2), (0, 0, 0, 0)]


def begins(probabilities, prefix):
    found = [p for label, p in probabilities.items() if label[:len(prefix)] == prefix]
    return np.logaddexp.reduce(found) if found else -np.inf


@pytest.mark.parametrize("end_id", [3, 4])
def test_equals_all_paths(end_id):
    """Two utterances of different lengths, several prefixes at once, every next symbol and the end."""
    lengths = [6, 4]
    logits = np.stack([exhaustive.random_logits(6, 4, seed) for seed in (1, 2)])
    tables = [exhaustive.label_probabilities(x[:n]) for x, n in zip(logits, lengths, strict=True)]
    logits[1, 4:] = 50.0  # padding
    scorer = CtcPrefixScorer(tf.constant(logits, tf.float32), tf.constant(lengths), end_id)
    for size in range(5):
        prefixes = [p for p in PREFIXES if len(p) >= size]
        if not prefixes:
            continue
        state = scorer.initial_state(len(prefixes))
        for place in range(size):
            state = scorer.follow(state, tf.constant([[p[place] for p in prefixes]] * 2))
        gains = scorer.gains(state).numpy()
        assert gains.shape == (2, len(prefixes), end_id + 1)
        for row, table in enumerate(tables):
            for column, prefix in enumerate(p[:size] for p in prefixes):
                now = begins(table, prefix)
                if now == -np.inf:
                    assert state.score[row, column] < -1e29
                    continue
                np.testing.assert_allclose(state.score[row, column], now, atol=1e-4)
                want = [begins(table, (*prefix, symbol)) - now for symbol in range(3)]
                want += [-np.inf] * (end_id - 3) + [table.get(prefix, -np.inf) - now]
                got = np.where(gains[row, column] < -1e29, -np.inf, gains[row, column])
                np.testing.assert_allclose(got, want, atol=2e-4)


def test_it_runs_in_a_graph_and_as_a_beams_cache():
    logits = tf.random.stateless_normal([2, 9, 5], [1, 2])

    @tf.function(autograph=False)
    def run():
        scorer = CtcPrefixScorer(logits, tf.constant([9, 5]), end_id=4)
        state = scorer.initial_state(3)
        state = scorer.follow(state, tf.constant([[0, 1, 2], [0, 1, 2]]))
        return scorer.gains(tf.nest.map_structure(lambda t: tf.gather(t, [[2, 2, 0], [1, 0, 0]], batch_dims=1), state))

    gains = run().numpy()
    np.testing.assert_array_equal(gains[0, 0], gains[0, 1])
    total = np.logaddexp.reduce(gains, axis=2)  # something follows, or nothing does
    np.testing.assert_allclose(total, 0.0, atol=1e-4)
