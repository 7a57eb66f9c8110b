"""What travels: groups, FP16 with scales, rows or tables; over threads that stand in for Horovod's ranks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers.clipping import UniqueRows
from open_seq2seq.runners.horovod.runner import Reduction, add_rank_by_rank, groups, wire_scales
from tests.unit.runners.horovod.test_runner import FakeHorovod, Meeting


def reduce_on(ranks, tensors_of, compression=None, exact=False):
    """Returns ([what each rank gets], rank 0's stand-in for Horovod)."""
    meeting = Meeting(ranks)
    hvds = [FakeHorovod(meeting, rank) for rank in range(ranks)]
    with ThreadPoolExecutor(ranks) as pool:
        results = list(pool.map(lambda rank: Reduction(hvds[rank], compression)(tensors_of(rank), "g", exact),
                                range(ranks)))
    return results, hvds[0]


def test_groups_are_full_but_not_too_full():
    tensors = {name: tf.zeros([size]) for name, size in (("a", 3), ("b", 2), ("c", 9), ("d", 1), ("e", 0))}
    assert list(groups(tensors, most=20, small=-1)) == [["a", "b"], ["c"], ["d", "e"]]
    assert list(groups({})) == []


def test_small_tensors_lie_side_by_side():
    tensors = {name: tf.zeros([size]) for name, size in (("a", 9), ("b", 1), ("c", 9), ("d", 1), ("e", 1))}
    assert list(groups(tensors, most=72, small=4)) == [["a", "c"], ["b", "d", "e"]]


@pytest.mark.parametrize("bound", [1.0, 0.99, 1.01, 2.0**-20, 3e38, 1e-45, 2.0**-126, 65504.0, 12345.678])
def test_a_scale_is_the_largest_power_of_two_that_fits(bound):
    scale = float(wire_scales(tf.constant([bound]))[0])
    assert np.log2(scale) == round(np.log2(scale))
    assert bound * scale < 2.0**15
    assert bound * scale >= 2.0**14 or scale == 2.0**127


def test_scales_of_what_is_not_finite_and_of_nothing():
    assert wire_scales(tf.constant([np.inf, np.nan, 0.0])).numpy().tolist() == [1.0, 1.0, 2.0**127]


@pytest.mark.parametrize("size", [1e-30, 1e-9, 1.0, 1e5, 1e30])
def test_fp16_keeps_eleven_bits_whatever_the_size(size):
    rng = np.random.default_rng(3)
    values = (rng.standard_normal([3, 500]) * size).astype(np.float32)
    results, hvd = reduce_on(3, lambda rank: {"w": tf.constant(values[rank]), " loss": tf.constant(1e-3 + rank)},
                             "fp16")
    for result in results:
        np.testing.assert_allclose(result["w"], values.sum(0), rtol=0.0, atol=3 * 2.0**-10 * np.abs(values).max())
        np.testing.assert_array_equal(result["w"], results[0]["w"])
        assert float(result[" loss"]) == np.float32(1e-3) + np.float32(1.001) + np.float32(2.001)
    assert hvd.groups == [("g.exact.0", [("float32", 1)]), ("g.0", [("float16", 500)])]


def test_small_values_of_one_tensor_live_beside_large_ones_of_another():
    results, _ = reduce_on(2, lambda rank: {"a": tf.constant([1e6, -1e6]), "b": tf.constant([1e-12, 0.0])}, "fp16")
    np.testing.assert_allclose(results[0]["b"], [2e-12, 0.0], rtol=1e-3)
    np.testing.assert_allclose(results[0]["a"], [2e6, -2e6], rtol=1e-3)


def test_sums_that_fp16_cannot_hold_do_not_overflow():
    results, _ = reduce_on(4, lambda rank: {"w": tf.constant([60000.0, 1.0])}, "fp16")
    np.testing.assert_allclose(results[0]["w"], [240000.0, 4.0], rtol=1e-3)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_on_one_rank_is_not_finite_on_all(bad):
    results, _ = reduce_on(3, lambda rank: {"w": tf.constant([1.0, bad if rank == 1 else 2.0])}, "fp16")
    for result in results:
        assert result["w"].numpy()[0] == 3.0 and not np.isfinite(result["w"].numpy()[1])


def test_exact_is_exact():
    results, hvd = reduce_on(2, lambda rank: {"w": tf.constant([1.0 + 2.0**-20])}, "fp16", exact=True)
    assert results[0]["w"].numpy()[0] == 2.0 + 2.0**-19
    assert hvd.groups == [("g.0", [("float32", 1)])]


ROWS = {0: [5, 1, 5], 1: [1, 0], 2: []}


def lookups(rank, rows):
    values = np.random.default_rng(rank).standard_normal([len(ROWS[rank]), 3]).astype(np.float32)
    return tf.IndexedSlices(tf.constant(values), tf.constant(ROWS[rank], tf.int64), tf.constant([rows, 3], tf.int64))


@pytest.mark.parametrize("compression", [None, "fp16"])
@pytest.mark.parametrize(("rows", "as_rows"), [(100, True), (6, True), (4, False)])
def test_lookups_come_out_as_rows_however_they_travel(rows, as_rows, compression, monkeypatch):
    if not as_rows:
        monkeypatch.setitem(ROWS, 0, [3, 1, 3, 2])
        monkeypatch.setitem(ROWS, 1, [1, 0, 2, 3])
        monkeypatch.setitem(ROWS, 2, [0, 1, 2])
    expected = sum(tf.convert_to_tensor(lookups(rank, rows)).numpy() for rank in range(3))
    results, hvd = reduce_on(3, lambda rank: {"e": lookups(rank, rows)}, compression)
    for result in results:
        assert isinstance(result["e"], UniqueRows)
        assert sorted(result["e"].indices.numpy()) == sorted({i for of_rank in ROWS.values() for i in of_rank})
        np.testing.assert_allclose(tf.convert_to_tensor(result["e"]), expected,
                                   atol=1e-6 if compression is None else 1e-2)
        np.testing.assert_array_equal(result["e"].values, results[0]["e"].values)
    assert ("g.rows.0.values" in hvd.gathered) == as_rows
    assert ("g.rows.0.table" in [name for name, _ in hvd.groups]) != as_rows


def test_nothing_is_asked_of_dense_models_about_rows():
    _, hvd = reduce_on(2, lambda rank: {"w": tf.ones([3])})
    assert hvd.gathered == [] and [name for name, _ in hvd.groups] == ["g.0"]


def test_rows_of_ranks_are_added_in_their_order():
    values, indices = tf.constant([[1.0], [2.0], [4.0], [8.0], [16.0]]), tf.constant([7, 3, 3, 9, 7])
    sums, different = tf.function(add_rank_by_rank)(values, indices, tf.constant([2, 0, 2, 1]))
    assert dict(zip(different.numpy().tolist(), sums.numpy()[:, 0].tolist(), strict=True)) == {7: 17, 3: 6, 9: 8}
