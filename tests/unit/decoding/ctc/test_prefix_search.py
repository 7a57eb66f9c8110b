import numpy as np
import pytest

from open_seq2seq.decoding.ctc import PrefixSearch, Pruning
from tests.unit.decoding.ctc import exhaustive

EVERYTHING = Pruning(10**6, np.inf, -np.inf, 10**6)


def search(logits, pruning=EVERYTHING, count=10**6):
    found = PrefixSearch(logits.shape[1], pruning)
    found.advance(logits)
    return found.best(count)


@pytest.mark.parametrize("steps, vocab, seed", [(1, 2, 0), (6, 3, 1), (5, 4, 2), (7, 3, 3)])
def test_equals_all_paths(steps, vocab, seed):
    logits = exhaustive.random_logits(steps, vocab, seed)
    want = exhaustive.label_probabilities(logits)
    found = search(logits)
    assert {tuple(h.ids): h.score for h in found} == pytest.approx(want, abs=1e-9)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    assert np.logaddexp.reduce([h.score for h in found]) == pytest.approx(0.0, abs=1e-9)


def test_prefixes_that_were_dropped_and_come_back_are_added_up():
    """A narrow beam never holds a label twice."""
    for seed in range(20):
        found = search(exhaustive.random_logits(12, 4, seed), Pruning(5, np.inf, -np.inf, 9))
        assert len({tuple(h.ids) for h in found}) == len(found)


def peaked(steps, vocab, seed):
    """Logits of which most frames have one symbol worth considering, as a trained model's have."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(steps, vocab))
    path = rng.integers(0, vocab, steps)
    sure = rng.random(steps) < 0.7
    logits[sure, path[sure]] += 15.0
    return logits


@pytest.mark.parametrize("seed", range(8))
def test_stretches_of_single_symbols_equal_frame_by_frame(seed):
    logits = peaked(60, 4, seed)
    pruning = Pruning(50, 30.0, -5.0, 10)
    together = search(logits, pruning)
    apart = PrefixSearch(4, pruning)
    for frame in logits:
        apart._take_run = lambda *_: False
        apart.advance(frame[np.newaxis])
    want = {tuple(h.ids): h.score for h in apart.best(50)}
    assert {tuple(h.ids): h.score for h in together[:10]} == pytest.approx(
        {tuple(h.ids): want[tuple(h.ids)] for h in together[:10]}, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_pieces_of_an_utterance_equal_the_whole(seed):
    logits = peaked(50, 5, seed)
    pruning = Pruning(20, 15.0, -8.0, 10)
    whole = search(logits, pruning)
    pieces = PrefixSearch(5, pruning)
    for piece in np.split(logits, [1, 2, 20, 20, 43]):
        pieces.advance(piece)
        pieces.best()
    assert [tuple(h.ids) for h in pieces.best(20)] == [tuple(h.ids) for h in whole[:20]]


def test_the_beam_is_as_wide_as_asked_and_finds_the_best_of_a_clear_case():
    logits = peaked(40, 6, 1)
    narrow, wide = search(logits, Pruning(4, 12.0)), search(logits, Pruning(2000, 40.0, -30.0))
    assert len(narrow) <= 4
    assert narrow[0].score <= wide[0].score + 1e-9
    assert tuple(narrow[0].ids) == tuple(wide[0].ids)


def test_top_symbols_leaves_out_the_rest():
    logits = exhaustive.random_logits(5, 5, 4)
    kept = np.full_like(logits, -1e3)
    best = np.argsort(logits, 1)[:, -2:]
    np.put_along_axis(kept, best, np.take_along_axis(logits, best, 1), 1)
    found = search(logits, Pruning(10**6, np.inf, -np.inf, 2))
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    lost = np.take_along_axis(log_probs, best, 1)
    scale = np.logaddexp.reduce(lost, axis=1).sum()  # the two symbols' share of the probability
    want = exhaustive.label_probabilities(kept)
    for hypothesis in found:
        assert hypothesis.score == pytest.approx(want[tuple(hypothesis.ids)] + scale, abs=1e-6)


def test_no_frames():
    (empty,) = search(np.zeros([0, 3]))
    assert (len(empty.ids), empty.score) == (0, 0.0)


@pytest.mark.parametrize("logits, what", [
    (np.zeros([4, 3]), "shape"), (np.zeros([4]), "shape")])
def test_logits_that_do_not_fit(logits, what):
    with pytest.raises(ValueError, match=what):
        PrefixSearch(4).advance(logits)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_frames_of_a_diverged_model_are_blanks(bad):
    logits = peaked(30, 4, 2)
    blanks, broken = logits.copy(), logits.copy()
    blanks[10:15] = [0.0, 0.0, 0.0, 1e3]
    broken[10:15, 1] = bad
    want, found = search(blanks, Pruning()), search(broken, Pruning())
    assert [tuple(h.ids) for h in found] == [tuple(h.ids) for h in want]
    assert [h.score for h in found] == pytest.approx([h.score for h in want])
    for nothing in (bad, -np.inf):
        assert len(search(np.full([5, 4], nothing), Pruning())[0].ids) == 0


def test_symbols_of_probability_0_are_never_found():
    logits = exhaustive.random_logits(5, 4, 3)
    logits[:, 1] = -np.inf
    want = exhaustive.label_probabilities(np.maximum(logits, -1e4))
    likely = {label: log_prob for label, log_prob in want.items() if log_prob > -100.0}
    assert {tuple(h.ids): h.score for h in search(logits) if h.score > -1e9} == pytest.approx(likely, abs=1e-9)
