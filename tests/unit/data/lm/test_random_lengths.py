"""Chunks of random lengths: their distribution, and rows that continue whatever the division into batches."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data import WKTDataLayer
from open_seq2seq.data.contiguous import ContiguousStream
from open_seq2seq.data.lm.wkt import chunk_offsets, num_random_chunks
from open_seq2seq.utils.errors import ConfigError

BPTT = 20


def make(root, mode="train", **params):
    words = np.random.default_rng(0).integers(0, 50, 1999)
    (root / "train.txt").write_text(" ".join(map(str, words)), encoding="utf-8")
    (root / "valid.txt").write_text("1 2 3", encoding="utf-8")
    layer = WKTDataLayer({"data_root": str(root), "processed_data_folder": str(root / "processed"), "bptt": BPTT,
                          "batch_size": 2, "min_count": 1, "carry_state": True, "random_bptt": True, **params},
                         mode=mode)
    layer.seed = 5
    return layer


def batches(layer, *, world_size=1, iter_size=1, batch_size=2, epoch=0):
    """Returns the batches of the updates of an epoch, each with the rows of all micro-batches."""
    layer.training_rows = batch_size * world_size * iter_size
    stream = ContiguousStream(layer.num_examples, batch_size=batch_size, world_size=world_size, iter_size=iter_size)
    return [layer.make_training_batch(np.concatenate([stream.examples(position * stream.slots + slot)
                                                      for slot in range(stream.slots)]), epoch)
            for position in range(stream.positions)]


def test_the_distribution_is_that_of_the_recipe():
    lengths = np.diff(chunk_offsets(20_000, 70, 10**9, 1, 2))
    halved = lengths < 52
    np.testing.assert_allclose(halved.mean(), 0.05, atol=0.006)
    for found, mean in ((lengths[~halved], 69.5), (lengths[halved], 34.5)):
        np.testing.assert_allclose((found.mean(), found.std()), (mean, 5.0), atol=0.4)
    assert chunk_offsets(2000, 10, 10**9, 1)[1:].min() >= 5 and np.diff(chunk_offsets(2000, 10, 10**9, 1)).min() == 5


@pytest.mark.parametrize("base, tokens", [(10, 10), (10, 1000), (70, 300), (70, 26_112)])
def test_chunks_stay_within_the_text(base, tokens):
    count = num_random_chunks(tokens, base)
    left = []
    for seed in range(30):
        offsets = chunk_offsets(count, base, tokens, seed)
        assert len(offsets) == count + 1 and offsets[0] == 0 and np.diff(offsets).min() > 0
        left.append(tokens - offsets[-1])
    assert min(left) >= 0 and np.mean(left) < 2 * base + 0.02 * tokens


def test_each_chunk_can_be_made_with_the_base_length(tmp_path):
    # --check makes an update of such a batch.
    layer = make(tmp_path)
    source, lengths = layer.make_batch(np.arange(layer.num_examples))["source_tensors"]
    assert source.shape == (layer.num_examples, BPTT) and (lengths == BPTT).all()


@pytest.mark.parametrize("rand_start", [False, True])
def test_rows_continue_and_all_rows_of_an_update_have_one_length(tmp_path, rand_start):
    layer, rows = make(tmp_path, rand_start=rand_start), []
    for batch in batches(layer):
        (source, lengths), (target, _) = batch["source_tensors"], batch["target_tensors"]
        assert (lengths == source.shape[1]).all() and source.shape == target.shape
        assert layer.rate_factor(batch) == source.shape[1] / BPTT
        rows.append((source, target))
    assert len({source.shape[1] for source, _ in rows}) > 5
    text = layer._text.tokens_at(np.arange(2000)).tolist()
    for row in range(2):
        source, target = (np.concatenate([pair[side][row] for pair in rows]).tolist() for side in range(2))
        assert source[1:] == target[:-1]
        begin = next(i for i in range(2000) if text[i:i + len(target)] == target)
        assert (begin - row * (2000 - (BPTT - 1) * rand_start) // 2 < BPTT) if rand_start else begin == row * 1000


def test_batches_depend_on_seed_and_epoch_but_not_on_the_division_into_ranks(tmp_path):
    def ids(layer, **settings):
        return [batch["source_tensors"][0].tolist() for batch in batches(layer, **settings)]

    layer = make(tmp_path)
    whole = ids(layer, batch_size=4)
    assert ids(layer, world_size=2) == ids(layer, iter_size=2) == whole == ids(make(tmp_path), batch_size=4)
    assert ids(layer, batch_size=4, epoch=1) != whole
    layer.seed = 6
    assert ids(layer, batch_size=4) != whole


def test_only_training_has_random_lengths(tmp_path):
    train = make(tmp_path)
    assert train.input_signature["source_tensors"][0].shape.as_list() == [None, None]
    layer = make(tmp_path, "eval")
    batch = layer.make_batch(np.array([0]))
    assert layer.num_examples == 1 and layer.rate_factor(batch) is None
    assert batch["source_tensors"][0].shape == (1, layer._size) and layer._size < BPTT  # not wider than the text
    assert layer.input_signature["source_tensors"][0].shape.as_list() == [None, layer._size]
    assert make(tmp_path, random_bptt=False).rate_factor(batch) is None


@pytest.mark.parametrize("params, expected", [({"carry_state": False}, "set carry_state to True"),
                                              ({"bptt": 9}, "at least 10")])
def test_bad_settings_are_named(tmp_path, params, expected):
    with pytest.raises(ConfigError, match=expected):
        make(tmp_path, **params)
