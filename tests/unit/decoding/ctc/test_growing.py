"""Transcripts that grow: the same in pieces as in one, and copies that go their own ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.ctc import CtcDecoder
from open_seq2seq.decoding.ctc.greedy import greedy_decode
from open_seq2seq.decoding.ctc.growing import GreedyTranscript, GrowingTranscript, SearchedTranscript
from open_seq2seq.decoding.ngram import read_arpa
from tests.unit.decoding.ctc.test_language_models import WORDS

LABELS = list("ab ")


def cut(logits: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    rng, begin = np.random.default_rng(seed), 0
    while begin < len(logits):
        length = int(rng.integers(0, 5))
        yield logits[begin:begin + length]
        begin += length


def logits_of(seed: int, steps: int = 60, scale: float = 2.0) -> np.ndarray:
    return (scale * np.random.default_rng(seed).normal(size=(steps, len(LABELS) + 1))).astype(np.float32)


def to_text(ids: Any) -> str:
    return "".join(LABELS[i] for i in ids)


@pytest.fixture(params=["greedy", "search", "words"])
def start(request, tmp_path) -> GrowingTranscript:
    (tmp_path / "words.arpa").write_text(WORDS)
    if request.param == "greedy":
        return GreedyTranscript(to_text)
    model = read_arpa(str(tmp_path / "words.arpa")) if request.param == "words" else None
    return SearchedTranscript(CtcDecoder(LABELS, {"beam_width": 16}, model))


def whole(start: GrowingTranscript, logits: np.ndarray) -> str:
    fresh = start.fork()
    fresh.advance(logits)
    return fresh.text()


@pytest.mark.parametrize("seed", range(8))
def test_pieces_give_what_the_whole_gives(start: GrowingTranscript, seed: int):
    logits, growing = logits_of(seed), start.fork()
    for piece in cut(logits, seed):
        growing.advance(piece)
        growing = growing.fork() if seed % 2 else growing
    assert growing.text() == whole(start, logits)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_is_that_of_the_graph(seed: int):
    logits = logits_of(seed)
    ids, lengths = greedy_decode(tf.constant(logits[np.newaxis]), tf.constant([len(logits)]))[:2]
    assert whole(GreedyTranscript(to_text), logits) == to_text(ids[0, :lengths[0]].numpy())


@pytest.mark.parametrize("seed", range(4))
def test_copies_go_their_own_ways(start: GrowingTranscript, seed: int):
    first, one_end, other_end = logits_of(seed), logits_of(seed + 10), logits_of(seed + 20)
    growing = start.fork()
    growing.advance(first)
    other = growing.fork()
    for one_piece, other_piece in zip(cut(one_end, seed), cut(other_end, seed), strict=True):
        growing.advance(one_piece)
        other.advance(other_piece)
    assert growing.text() == whole(start, np.concatenate([first, one_end]))
    assert other.text() == whole(start, np.concatenate([first, other_end]))


def test_a_symbol_that_goes_on_over_a_border_is_one():
    logits = np.full([4, 4], -9.0, np.float32)
    logits[[0, 1, 2, 3], [0, 0, 3, 0]] = 9.0
    growing = GreedyTranscript(to_text)
    for step in logits:
        growing.advance(step[np.newaxis])
    assert growing.text() == "aa"


def test_a_search_keeps_no_more_than_its_prefixes_need():
    decoder = CtcDecoder(LABELS, {"beam_width": 16})
    growing, sizes = SearchedTranscript(decoder), []
    for seed in range(40):
        growing.advance(logits_of(seed, 50, 4.0))
        growing.decide()
        growing = growing.fork()
        sizes.append(growing._search._tree._count)
    assert len(growing.text()) > 500 and max(sizes) < 16 * 64


def test_deciding_keeps_the_best_reading_and_drops_what_differs_far_back():
    search = CtcDecoder(LABELS, {"beam_width": 16}).search()
    search.advance(logits_of(0, 80))
    best = search.best()[0]
    readings = [tuple(found.ids) for found in search.best(16)]
    search.decide(5)
    left = [tuple(found.ids) for found in search.best(16)]
    known = tuple(best.ids[:-5])
    assert left == [ids for ids in readings if ids[:len(known)] == known] and 0 < len(left) < len(readings)
    assert search.best()[0].score == best.score
    search.decide(0)
    assert all(tuple(found.ids)[:len(best.ids)] == tuple(best.ids) for found in search.best(16))
