"""The model of a ring against a ring that passes messages, and cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measuring.cluster_model import (
    BACKWARD_SHARE,
    Costs,
    Link,
    Timing,
    efficiency,
    fit_costs,
    reduction_seconds,
    ring_seconds,
    update_seconds,
)

ETHERNET = Link(20e-6, 10e9 / 8)


def pass_around(values, link, value_bytes):
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
            arrival = departure + link.latency + message.size * value_bytes / link.bandwidth
            clocks[rank] = max(clocks[rank], arrival)
            parts[rank][part] = parts[rank][part] + message if step < ranks - 1 else message
    return [np.concatenate(p) for p in parts], max(clocks)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_ring_of_messages_takes_as_long_as_the_model_says(ranks):
    values = np.random.default_rng(ranks).integers(0, 100, [ranks, 24 * ranks])
    results, seconds = pass_around(values, ETHERNET, value_bytes=4)
    for result in results:
        np.testing.assert_array_equal(result, values.sum(0))
    assert seconds == pytest.approx(ring_seconds(4 * values.shape[1], ranks, ETHERNET), rel=1e-12)


def test_by_hand():
    # 100 MB on 4 ranks at 1 GB/s: six steps of 25 MB take 150 ms, and six latencies of 1 ms.
    link = Link(1e-3, 1e9)
    assert ring_seconds(100e6, 4, link) == pytest.approx(0.156)
    assert reduction_seconds([60e6, 40e6], 4, Costs(0.005, link)) == pytest.approx(0.167)
    # The vote sets out once more: 5 ms, six latencies, and hardly any bytes.
    assert update_seconds([60e6, 40e6], 4, Costs(0.005, link)) == pytest.approx(0.178)
    assert update_seconds([100e6], 1, Costs(0.005, link)) == 0.0
    # A step of 0.9 s and 0.1 s of reduction in full view; half of it hidden; all of it hidden.
    assert efficiency(0.9, 0.1) == pytest.approx(0.9)
    assert efficiency(0.9, 0.1, overlap=0.5) == pytest.approx(0.9 / 0.95)
    assert efficiency(0.9, 0.1, overlap=1.0) == 1.0
    # No more is hidden than the backward pass is long.
    assert efficiency(0.03, 0.1, overlap=1.0) == pytest.approx(0.03 / (0.13 - BACKWARD_SHARE * 0.03))


def test_bytes_count_twice_at_most_but_latency_with_every_rank():
    fast = Link(0.0, 1e9)
    assert ring_seconds(1e9, 1024, fast) / ring_seconds(1e9, 2, fast) == pytest.approx(2 * 1023 / 1024)
    slow = Link(1e-3, 1e30)
    assert ring_seconds(1.0, 1024, slow) == pytest.approx(2.046)


def timings_of(costs, ranks, sizes, noise=lambda: 1.0):
    return [Timing(n, size, reduction_seconds([size], n, costs) * noise()) for n in ranks for size in sizes]


@pytest.mark.parametrize("costs", [Costs(0.005, ETHERNET), Costs(0.0, Link(1e-6, 4e9)), Costs(1e-4, Link(0.0, 1e8))])
def test_the_fit_finds_the_costs(costs):
    found = fit_costs(timings_of(costs, (2, 3, 4), (4, 10**5, 10**8)))
    assert found.start == pytest.approx(costs.start, rel=1e-5, abs=1e-12)
    assert found.link.latency == pytest.approx(costs.link.latency, rel=1e-5, abs=1e-12)
    assert found.link.bandwidth == pytest.approx(costs.link.bandwidth, rel=1e-5)


def test_with_one_number_of_ranks_latency_counts_as_start():
    found = fit_costs(timings_of(Costs(0.005, ETHERNET), (2,), (4, 10**5, 10**8)))
    assert found.start == pytest.approx(0.005 + 2 * ETHERNET.latency, rel=1e-6) and found.link.latency == 0.0


def test_the_fit_heeds_small_reductions_as_much_as_large_ones():
    rng = np.random.default_rng(0)
    costs = Costs(0.001, Link(0.0, 1e9))
    found = fit_costs(timings_of(costs, (2,), (4, 64, 10**6, 10**7, 10**8) * 9, lambda: rng.uniform(0.9, 1.1)))
    assert found.start == pytest.approx(costs.start, rel=0.1)
    assert found.link.bandwidth == pytest.approx(1e9, rel=0.1)


def test_one_size_tells_nothing():
    with pytest.raises(ValueError, match="explain these reductions"):
        fit_costs([Timing(2, 100, 1e-3), Timing(2, 100, 2e-3)])
