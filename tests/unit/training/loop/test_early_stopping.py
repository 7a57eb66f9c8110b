"""Early stopping, and the table of metrics that it resumes from."""

from __future__ import annotations

import math
import random

import pytest

from open_seq2seq.training.loop.metrics_file import MetricsFile, read_metrics, start_table, tables_in
from open_seq2seq.training.loop.stopping import EarlyStopping
from open_seq2seq.utils.errors import ConfigError, UserError


def make(limit=2, mode="min", metric="val_loss"):
    return EarlyStopping({"stop_after_evals_without_gain": limit, "best_metric": metric, "best_metric_mode": mode})


def ended_after(values, **how):
    """Number of evaluations after which training ends, or None."""
    stopping = make(**how)
    for number, value in enumerate(values, 1):
        stopping.observe(10 * number, {"val_loss": value})
        if stopping.has_ended:
            return number
    return None


@pytest.mark.parametrize(("values", "how", "expected"), [
    ([3.0, 2.0, 2.5, 1.9, 2.0, 1.9], {}, 6), ([3.0, 2.0, 1.0], {}, None), ([3.0, 3.0, 3.0], {}, 3),
    ([1.0, 2.0, 1.5, 1.0], {"mode": "max"}, 4), ([math.nan, math.nan], {}, 2), ([math.nan, 1.0, 2.0], {}, None),
    ([9.0] * 9, {"limit": None}, None), ([9.0, 9.0], {"limit": 1}, 2),
])
def test_training_ends_after_evaluations_without_gain(values, how, expected):
    assert ended_after(values, **how) == expected


def test_a_resumed_run_decides_like_the_uninterrupted_one(tmp_path):
    rng = random.Random(1)
    for number in range(20):
        values = [round(rng.uniform(0, 1), 1) for _ in range(8)]
        whole, table = make(3), MetricsFile(tmp_path / str(number))
        for step, value in enumerate(values, 1):
            whole.observe(step, {"val_loss": value})
            table.write(step, 0.5, {"val_loss": value, "other": 1.0})
        cut = rng.randrange(1, 9)
        resumed = make(3)
        resumed.resume(MetricsFile(tmp_path / str(number)).history("val_loss"))
        resumed.rewind(cut)  # to the checkpoint
        for step, value in list(enumerate(values, 1))[cut:]:
            resumed.observe(step, {"val_loss": value})
        assert (resumed.best, resumed.has_ended) == (whole.best, whole.has_ended)


def test_an_evaluation_that_an_interruption_prevented_is_awaited():
    stopping = make()
    stopping.observe(10, {"val_loss": 3.0})
    assert [stopping.awaits(step) for step in (0, 10, 20)] == [False, False, True]
    stopping.rewind(5)
    assert stopping.awaits(10) and not make(None).awaits(10)


def test_an_unknown_metric_is_refused():
    with pytest.raises(ConfigError, match="Did you mean 'val_loss'"):
        make(metric="val_los").observe(1, {"val_loss": 1.0})


def test_the_last_row_of_a_step_counts_and_a_new_run_begins_a_new_table(tmp_path):
    first = MetricsFile(tmp_path)
    first.write(1, 0.1, {"loss, mean": 2.0})
    first.write(2, 0.2, {"loss, mean": float("nan")})
    MetricsFile(tmp_path).write(1, 0.1, {"loss, mean": 1.0})
    start_table(tmp_path)
    MetricsFile(tmp_path).write(1, 0.1, {"loss, mean": 7.0})
    assert [path.name for path in tables_in(tmp_path)] == ["metrics.csv", "metrics.csv-2"]
    values = read_metrics(tmp_path / "metrics.csv")["loss, mean"]
    assert values[1] == 1.0 and math.isnan(values[2])
    assert read_metrics(tmp_path / "metrics.csv-2") == {"loss, mean": {1: 7.0}}


def test_a_users_file_is_not_appended_to(tmp_path):
    (tmp_path / "metrics.csv").write_text("mine\n")
    table = MetricsFile(tmp_path)
    table.write(1, 0.1, {"loss": 2.0})
    assert (tmp_path / "metrics.csv").read_text() == "mine\n" and table.history("loss") == {1: 2.0}
    (tmp_path / "metrics.csv-2").write_text("mine too\n")
    with pytest.raises(UserError, match="metrics cannot be written"):
        table.write(2, 0.2, {"loss": 1.0})
    assert (tmp_path / "metrics.csv-2").read_text() == "mine too\n"
