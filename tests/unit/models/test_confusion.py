"""The confusion matrix as text and as a picture."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.models import confusion
from open_seq2seq.models.confusion import MOST_DRAWN, MOST_PRINTED, print_confusion, report_confusion
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.training.loop.summaries import RunReporter

MATRIX = np.array([[3, 1, 0], [0, 0, 0], [2, 0, 2]])


class Kept(Reporter):
    def __init__(self):
        super().__init__(1)
        self.figures = []

    def figure(self, name, figure):
        self.figures.append(figure)


def test_the_text_has_a_row_for_each_label(capfd):
    print_confusion(MATRIX, ["a", "bbbbbbbb", "c"])
    _, header, *rows = capfd.readouterr().out.splitlines()
    assert header.split()[-3:] == ["a", "bbbbbbbb", "c"]
    assert [row.split()[-4:] for row in rows] == [["a", "3", "1", "0"], ["bbbbbbbb", "0", "0", "0"],
                                                  ["c", "2", "0", "2"]]
    assert len({len(row) for row in (header, *rows)}) == 1


def test_cells_are_shares_of_labels(tmp_path):
    pytest.importorskip("matplotlib")
    kept = Kept()
    report_confusion(MATRIX, ["$a", "b_", "字"], kept)
    (axes,) = kept.figures[0].axes
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.25, 0], [0, 0, 0], [0.5, 0, 0.5]])
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("label", "prediction")
    report_confusion(MATRIX, ["$a", "b_", "字"], RunReporter(7, None, tmp_path / "samples"))
    assert (tmp_path / "samples/step-7/confusion_matrix.png").stat().st_size > 0


def test_matrices_that_would_not_be_readable_are_left_out(capfd, monkeypatch):
    kept = Kept()
    for count, show in ((MOST_PRINTED + 1, lambda *args: print_confusion(*args[:2])),
                        (MOST_DRAWN + 1, report_confusion)):
        show(np.eye(count, dtype=np.int64), [str(number) for number in range(count)], kept)
    monkeypatch.setattr(confusion, "has_matplotlib", lambda: False)
    report_confusion(MATRIX, ["a", "b", "c"], kept)
    assert capfd.readouterr().out == "" and kept.figures == []
