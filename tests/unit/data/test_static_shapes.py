"""The choice of few shapes for all batches, and how examples are cut into them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from open_seq2seq.data.batching import BatchStream, EpochPlanner
from open_seq2seq.data.static_shapes import (
    StaticShape,
    arrange,
    assign_shapes,
    choose_shapes,
    planned_positions,
)
from open_seq2seq.utils.errors import ConfigError


def like_text(count: int, columns: int = 2, seed: int = 0, longest: int = 60) -> np.ndarray:
    """Lengths that are spread as those of sentences, targets near their sources."""
    rng = np.random.default_rng(seed)
    sides = [rng.lognormal(2.6, 0.4, count)]
    sides += [sides[0] * rng.lognormal(0.0, 0.2, count) for _ in range(columns - 1)]
    return np.clip(np.stack(sides, 1), 2, longest).astype(np.int32)


def costs_of(lengths: np.ndarray, unit: str) -> np.ndarray | None:
    return None if unit == "sentences" else lengths.max(axis=1)


def planned(lengths: np.ndarray, shapes: list[StaticShape]) -> int:
    counts = np.bincount(assign_shapes(lengths, shapes), minlength=len(shapes))
    return planned_positions(arrange(counts.tolist(), shapes), shapes)


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize(("unit", "batch_size"), [("sentences", 32), ("tokens", 500)])
@pytest.mark.parametrize("limit", [1, 2, 5, 16])
def test_shapes_are_few_keep_the_batch_size_and_hold_everything(columns, unit, batch_size, limit):
    lengths = like_text(3000, columns)
    shapes = choose_shapes(lengths, limit, batch_size, costs_of(lengths, unit))
    assert 1 <= len(shapes) <= limit and shapes == sorted(shapes, key=lambda shape: shape.width)
    assert shapes[-1].edges == tuple(lengths.max(axis=0))
    for shape in shapes:
        expected = batch_size if unit == "sentences" else batch_size // max(shape.edges)
        assert shape.rows == expected
    owners = assign_shapes(lengths, shapes)
    for row, owner in zip(lengths, owners, strict=True):
        assert owner == next(n for n, shape in enumerate(shapes) if all(row <= shape.edges))


@pytest.mark.parametrize("columns", [1, 2])
def test_rows_of_any_costs_keep_the_budget_and_fill_it(columns):
    lengths = like_text(3000, columns)
    costs = lengths[:, 0].astype(np.int64) ** 2  # as of attention
    shapes = choose_shapes(lengths, 6, 20000, costs)
    assert len(shapes) > 2
    for shape in shapes:
        dearest = costs[(lengths <= shape.edges).all(axis=1)].max()
        assert shape.rows * dearest <= 20000 < (shape.rows + 1) * dearest


def least_in_one_column(lengths: np.ndarray, limit: int) -> float:
    """Dynamic programming over the sorted lengths: the least padded length with so many edges."""
    values, counts = np.unique(lengths, return_counts=True)
    ends = np.append(0, np.cumsum(counts))
    best = np.append(0.0, np.full(len(values), np.inf))
    for _ in range(limit):
        best = np.array([0.0] + [min(best[j] + (ends[i] - ends[j]) * values[i - 1] for j in range(i))
                                 for i in range(1, len(values) + 1)])
    return best[-1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limit", [2, 4, 8, 16])
def test_one_column_is_near_the_least_possible(seed, limit):
    lengths = like_text(20000, 1, seed, 200)[:, 0]
    shapes = choose_shapes(lengths, limit, 1)
    padded = sum(shapes[owner].width for owner in assign_shapes(lengths, shapes))
    assert padded <= 1.02 * least_in_one_column(lengths, limit)


def test_two_columns_are_near_the_least_possible_of_small_cases():
    rng = np.random.default_rng(0)
    for _ in range(5):
        lengths = rng.integers(1, 6, (40, 2))
        grid = [np.array([a, b]) for a in range(1, 6) for b in range(1, 6)]
        cover = lengths.max(axis=0)
        fits = [(lengths <= box).all(axis=1) for box in grid]
        cost = np.full(len(lengths), cover.sum())
        one = [np.where(f, np.minimum(cost, box.sum()), cost) for f, box in zip(fits, grid, strict=True)]
        least = min(np.minimum(one[i], one[j]).sum() for i in range(len(grid)) for j in range(i, len(grid)))
        shapes = choose_shapes(lengths, 3, 1)
        padded = sum(shapes[owner].width for owner in assign_shapes(lengths, shapes))
        assert padded <= 1.02 * least


def test_more_shapes_never_pad_more():
    lengths = like_text(5000)
    for unit, batch_size in (("sentences", 64), ("tokens", 1024)):
        costs = costs_of(lengths, unit)
        positions = [planned(lengths, choose_shapes(lengths, n, batch_size, costs)) for n in (1, 2, 4, 8, 16, 32)]
        assert all(more <= 1.005 * fewer for fewer, more in zip(positions, positions[1:], strict=False))
        assert positions[3] < 0.45 * positions[0]


def test_source_and_target_have_edges_of_their_own():
    lengths = np.array([[5, 40]] * 50 + [[40, 5]] * 50)
    shapes = choose_shapes(lengths, 3, 10)
    assert {shape.edges for shape in shapes} >= {(5, 40), (40, 5)}
    assert planned(lengths, shapes) == lengths.sum()


@pytest.mark.parametrize("lengths", [np.array([7]), np.full((30, 2), 9), np.array([[1, 1], [200000, 3]])])
def test_degenerate_lengths(lengths):
    shapes = choose_shapes(lengths, 4, 4)
    assert shapes[-1].edges == tuple(np.atleast_2d(lengths.T).max(axis=1))


def test_what_is_left_over_moves_to_a_wider_shape():
    shapes = [StaticShape(10, (4,)), StaticShape(10, (5,)), StaticShape(10, (50,))]
    result = arrange([12, 18, 3], shapes)
    assert result.batches == [1, 2, 1] and result.sizes.tolist() == [10, 10, 10, 3]
    assert sum(end - begin for begin, end in result.pieces) == 33
    assert result.pieces == [(0, 10), (10, 12), (12, 30), (30, 33)]


@pytest.mark.parametrize("counts", [[0, 0, 1], [1, 1, 1], [9, 11, 0], [25, 0, 8], [100, 7, 13]])
def test_every_example_is_in_one_batch_that_holds_it(counts):
    shapes = [StaticShape(8, (3, 3)), StaticShape(6, (3, 5)), StaticShape(4, (6, 6))]
    result = arrange(counts, shapes)
    joined = np.concatenate([np.arange(begin, end) for begin, end in result.pieces])
    assert sorted(joined) == list(range(sum(counts))) and result.sizes.sum() == len(joined)
    owners, start = np.repeat(np.arange(3), counts), 0
    for shape, size in zip(np.repeat(np.arange(3), result.batches), result.sizes, strict=True):
        assert 0 < size <= shapes[shape].rows and (owners[joined[start:start + size]] <= shape).all()
        start += size


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("unit", ["sentences", "tokens"])
def test_the_plan_covers_the_data_in_batches_that_fit(shuffle, unit):
    lengths = like_text(2000)
    planner = EpochPlanner(lengths, batch_size=40 if unit == "sentences" else 600, costs=costs_of(lengths, unit),
                           max_shapes=6)
    assert 1 < len(planner.shapes) <= 6
    plans = [planner.plan(epoch, shuffle=shuffle, seed=2) for epoch in range(3)]
    assert {len(plan) for plan in plans} == {planner.num_batches} == {sum(planner.arrangement.batches)}
    for plan in plans:
        batches = [plan.batch(i) for i in range(len(plan))]
        assert sorted(np.concatenate(batches)) == list(range(2000))
        for batch in batches:
            assert any(shape.holds(len(batch), lengths[batch].max(axis=0)) for shape in planner.shapes)
    assert any((a != b).any() for a, b in zip(plans[0].order[None], plans[1].order[None], strict=True)) == shuffle


def test_shuffling_mixes_a_shape_s_examples_and_the_batches():
    planner = EpochPlanner(like_text(2000), batch_size=20, max_shapes=4)
    first, second = (planner.plan(epoch, shuffle=True) for epoch in (0, 1))
    assert set(map(frozenset, (first.batch(i) for i in range(len(first))))).isdisjoint(
        map(frozenset, (second.batch(i) for i in range(len(second)))))
    assert (first.sequence != second.sequence).any()


def test_ranks_share_the_sequence_and_any_place_is_reached_at_once():
    lengths = like_text(500)

    def stream(**options):
        return BatchStream(lengths, batch_size=16, max_shapes=4, seed=5, **options)

    whole = [batch.tolist() for _, batch, _ in itertools.islice(stream().by_rank()[0], 40)]
    for rank in (0, 1):
        own = stream(world_size=2, rank=rank).by_rank(10)[0]
        assert [next(own)[1].tolist() for _ in range(8)] == whole[10 + rank:26:2]


def test_unbucketed_batches_are_refused():
    with pytest.raises(ConfigError, match="'xla_buckets' .* 'length_buckets' is False"):
        EpochPlanner(like_text(50), batch_size=8, bucketed=False, max_shapes=4)
