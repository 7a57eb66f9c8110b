"""The table of a sweep: means and deviations compared with NumPy, and what has no value."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_seq2seq.report.sweep import figures_of, sweep_table

METRICS = {"train_loss": {10: 1.0, 20: 0.5}, "val_loss": {10: 0.7, 20: 0.9}, "learning_rate": {10: 0.1, 20: 0.2},
           "Eval_BLEU_Score": {10: 20.0, 20: 30.0}, "larc/val_loss": {10: 1.0}, "Eval own": {20: 4.0}}


def test_the_evaluation_is_the_best_one():
    assert figures_of(METRICS, "val_loss", False) == {"val_loss": 0.7, "Eval_BLEU_Score": 20.0}
    assert figures_of(METRICS, "Eval_BLEU_Score", True) == {"val_loss": 0.9, "Eval_BLEU_Score": 30.0, "Eval own": 4.0}
    assert figures_of({"train_loss": {10: 1.0, 20: 0.5}}, "val_loss", False) == {"train_loss": 0.5}
    assert figures_of({"val_loss": {10: float("nan"), 20: 3.0, 30: 3.0}}, "val_loss", False) == {"val_loss": 3.0}
    assert figures_of({}, "val_loss", False) == {}


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), min_size=1, max_size=4))
def test_means_and_deviations_are_those_of_numpy(values):
    cells = [({"a": str(row), "random_seed": str(seed)}, {"val_loss": value})
             for row, some in enumerate(values) for seed, value in enumerate(some)]
    table = sweep_table({"a": [], "random_seed": []}, *zip(*cells, strict=True), "val_loss", False)
    rows = list(csv.DictReader(io.StringIO(table.as_csv())))
    for row, some in zip(rows, values, strict=True):
        assert float(row["val_loss"]) == pytest.approx(np.mean(some), rel=1e-9, abs=1e-6)
        assert int(row["runs"]) == len(some)
        if len(some) > 1:
            assert float(row["val_loss deviation"]) == pytest.approx(np.std(some, ddof=1), rel=1e-6, abs=1e-5)
        else:
            assert row["val_loss deviation"] == ""
    assert table.best().mean("val_loss") == min(row.mean("val_loss") for row in table.rows)


def test_runs_without_values_are_shown_as_such():
    values = [{"a": str(n), "random_seed": seed} for n in range(3) for seed in "01"]
    figures = [{"val_loss": 1.0}, {"val_loss": float("nan")}, None, {"val_loss": 2.0}, None, None]
    table = sweep_table({"a": [], "random_seed": []}, values, figures, "val_loss", False)
    assert table.as_csv().splitlines() == ["a,runs,val_loss,val_loss deviation", "0,2,1.0,", "1,1,2.0,", "2,0,,"]
    assert table.as_text().splitlines() == ["a  runs    Validation loss", "0  2       1 (1 of 2)",
                                            "1  1 of 2  2", "2  0 of 2  –"]


def test_other_files_are_not_replaced(tmp_path):
    from open_seq2seq.utils.errors import UserError

    table = sweep_table({"a": []}, [{"a": "1"}], [{"val_loss": 1.0}], "val_loss", False)
    table.write(tmp_path, [])
    table.write(tmp_path, [])
    (tmp_path / "sweep.csv").write_text("name,score\n")
    with pytest.raises(UserError, match="is not the table of a sweep"):
        table.write(tmp_path, [])
