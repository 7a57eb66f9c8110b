"""The model of a ring against a ring that passes messages, and cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measuring.trainings import Round
from benchmarks.scaling import Reductions, describe, efficiency, measured_bandwidth, reduction_seconds

LATENCY, BANDWIDTH = 20e-6, 10e9 / 8


def pass_around(values, value_bytes):
    """Adds up ``values[rank]`` by messages between neighbours: (what each rank has in the end, and when)."""
    ranks = len(values)
    parts = [np.array_split(v.astype(float), ranks) for v in values]
    clocks = [0.0] * ranks
    for step in range(2 * (ranks - 1)):
        sent = {}
        for rank in range(ranks):  # first each part gathers all summands, then the sums go round
            part = (rank - step) % ranks if step < ranks - 1 else (rank + 1 - (step - ranks + 1)) % ranks
            sent[(rank + 1) % ranks] = (part, parts[rank][part].copy(), clocks[rank])
        for rank, (part, message, departure) in sent.items():
            arrival = departure + LATENCY + message.size * value_bytes / BANDWIDTH
            clocks[rank] = max(clocks[rank], arrival)
            parts[rank][part] = parts[rank][part] + message if step < ranks - 1 else message
    return [np.concatenate(p) for p in parts], max(clocks)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_ring_of_messages_takes_as_long_as_the_model_says(ranks):
    values = np.random.default_rng(ranks).integers(0, 100, [ranks, 24 * ranks])
    results, seconds = pass_around(values, value_bytes=4)
    for result in results:
        np.testing.assert_array_equal(result, values.sum(0))
    expected = reduction_seconds([4 * values.shape[1]], ranks, 0.0, LATENCY, BANDWIDTH)
    assert seconds == pytest.approx(expected, rel=1e-12)


def test_by_hand():
    # 100 MB on 4 ranks at 1 GB/s: six steps of 25 MB take 150 ms, and six latencies of 1 ms.
    assert reduction_seconds([100e6], 4, 0.0, 1e-3, 1e9) == pytest.approx(0.156)
    assert reduction_seconds([60e6, 40e6], 4, 0.005, 1e-3, 1e9) == pytest.approx(0.167)
    # The vote sets out once more: 5 ms, six latencies, and hardly any bytes; together 178 ms.
    assert efficiency(0.178, [60e6, 40e6], 4, 0.005, 1e-3, 1e9) == pytest.approx(0.5)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_bandwidth_is_found(ranks):
    small, large = (reduction_seconds([size], ranks, 0.005, 0.0, BANDWIDTH) for size in (4, 10 ** 8))
    reductions = Reductions([], [], [], 0.0, small, large, 10 ** 8)
    assert measured_bandwidth(reductions, ranks) == pytest.approx(BANDWIDTH, rel=1e-6)


def test_efficiency_is_relative_to_the_runs_of_the_same_round():
    alone = [[Round(1.0, 100.0, 0.0), Round(1.0, 100.0, 0.0)], [Round(2.0, 50.0, 0.0), Round(2.0, 50.0, 0.0)]]
    together = [Round(1.25, 160.0, 0.1), Round(2.0, 100.0, 0.3)]
    text = describe(2, alone, together, Reductions([2 ** 21], [0.2, 0.3], [0.1, 0.1], 0.05, 0.1, 0.2, 2 ** 26))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| 2"]
    (scaling, reduction) = rows
    assert scaling == ["2", "130", "150", "90.0% (80.0%–100.0%)", "1,625", "15.4%", "20.0%"]
    assert reduction == ["2", "1", "250.0", "100.0", "2.50 (2.00–3.00)", "5.0%"]
