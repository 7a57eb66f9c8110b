import itertools

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.ctc import CtcDecoder, Symbols, align, words_of
from open_seq2seq.decoding.ctc.frames import Alignment
from open_seq2seq.decoding.ctc.greedy import greedy_decode


def plain_greedy(logits):
    """(symbol, first frame, frame after the last, highest probability) of each run."""
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    found, time = [], 0
    for symbol, group in itertools.groupby(probs.argmax(1)):
        count = len(list(group))
        if symbol != logits.shape[1] - 1:
            found.append((symbol, time, time + count, probs[time:time + count, symbol].max()))
        time += count
    return found


def test_greedy_equals_run_lengths():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 30, 4)).astype(np.float32)
    logits[3] = np.array([0, 0, 0, 9])  # nothing but blanks
    lengths = np.array([30, 7, 1, 30, 0, 12])
    run = tf.function(greedy_decode, autograph=False)
    result = [value.numpy() for value in run(tf.constant(logits), tf.constant(lengths))]
    for row, length in enumerate(lengths):
        want = plain_greedy(logits[row, :length])
        assert result[1][row] == len(want)
        columns = [value[row, :len(want)] for value in (result[0], *result[2:])]
        for ours, theirs in zip(columns, zip(*want, strict=True), strict=False):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert not result[0][row, len(want):].any()
    nothing = greedy_decode(tf.zeros([2, 0, 4]), tf.constant([0, 0]))
    assert nothing.lengths.numpy().tolist() == [0, 0]


@pytest.mark.parametrize("label", [[0], [0, 0], [0, 1], [2, 2, 1], [1, 0, 1]])
def test_alignment_is_the_best_of_all_paths(label):
    for seed in range(3):
        logits = np.random.default_rng(seed).normal(size=(6, 4))
        log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        best = max((path for path in itertools.product(range(4), repeat=6)
                    if [s for s, _ in itertools.groupby(path) if s != 3] == label),
                   key=lambda path: log_probs[np.arange(6), path].sum())
        begins = [t for t in range(6) if best[t] != 3 and (t == 0 or best[t - 1] != best[t])]
        ends = [t + 1 for t in range(6) if best[t] != 3 and (t == 5 or best[t + 1] != best[t])]
        found = align(logits, label)
        assert found.starts.tolist() == begins and found.ends.tolist() == ends
        np.testing.assert_allclose(found.confidences, [
            np.exp(log_probs[b:e, s].max()) for s, b, e in zip(label, begins, ends, strict=True)])


def test_alignment_of_nothing_and_of_too_much():
    assert len(align(np.zeros([3, 4]), []).starts) == 0
    with pytest.raises(ValueError, match="does not fit into 2 frames"):
        align(np.zeros([2, 4]), [1, 1])


@pytest.mark.parametrize("labels, ids, want", [
    (["a", "b", " "], [2, 0, 1, 2, 2, 1], [("ab", 1, 3), ("b", 5, 6)]),
    (["\u2581a", "b", "\u2581"], [0, 1, 0, 2, 1], [("ab", 0, 2), ("a", 2, 3), ("b", 4, 5)]),
    (["a", " "], [1, 1], []),
    (["a", "b"], [0, 1, 1], [("a", 0, 1), ("b", 1, 2), ("b", 2, 3)]),
    (["\u0e01", "\u0e35"], [0, 1, 0], [("\u0e01\u0e35", 0, 2), ("\u0e01", 2, 3)])])  # a vowel above its consonant
def test_words_of_symbols(labels, ids, want):
    symbols = Symbols(labels)
    assert symbols.words(ids) == want
    assert symbols.text(ids) == (" " if " " in labels or "\u2581" in labels else "").join(word for word, _, _ in want)
    places = np.arange(len(ids))
    words = words_of(symbols, ids, Alignment(10 * places, 10 * places + 5, np.full(len(ids), 0.25)))
    assert [word[:4] for word in words] == [(text, 10 * begin, 10 * end - 5, pytest.approx(0.25))
                                            for text, begin, end in want]


def test_pieces_of_scripts_without_spaces_are_words_that_give_the_text_again():
    labels = ["\u2581", "\u2581\u4e00", "\u4e01\u4e03", "\u3002", "\u3042", "\u30fc", "\u0e01", "\u0e35", "\u2581py",
              "thon", "", "<0xE4>", "\uac00"]
    symbols, rng = Symbols(labels), np.random.default_rng(0)

    def words(ids):
        places = np.arange(len(ids))
        return words_of(symbols, ids, Alignment(places, places + 1, np.ones(len(ids))))

    assert [(word.text, word.has_space) for word in words([1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 0, 2, 12, 12])] == [
        ("\u4e00", False), ("\u4e01\u4e03\u3002", False), ("\u3042\u30fc", False), ("\u0e01\u0e35", False),
        ("python", True), ("\u4e01\u4e03", False), ("\u4e01\u4e03\uac00\uac00", True)]
    for _ in range(200):
        ids = rng.integers(len(labels), size=10).tolist()
        assert "".join(" " * word.has_space + word.text for word in words(ids)).lstrip() == symbols.text(ids)


def test_words_of_a_transcript():
    logits = np.full([9, 4], -9.0)
    for frame, symbol in enumerate([3, 0, 0, 3, 1, 2, 3, 1, 1]):
        logits[frame, symbol] = 9.0
    decoder = CtcDecoder(["a", "b", " "])
    (best,) = decoder.decode(logits)
    words = decoder.words(logits, best)
    assert best.text == "ab b"
    assert [(word.text, word.start, word.end) for word in words] == [("ab", 1, 5), ("b", 7, 9)]
    assert all(word.confidence > 0.99 for word in words)
