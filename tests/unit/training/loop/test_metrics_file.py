"""The table of metrics stays whole when its writer is stopped in the middle of a row or of the header."""

from __future__ import annotations

import resource
import signal

import pytest

from open_seq2seq.training.loop.metrics_file import MetricsFile, start_table
from open_seq2seq.utils.errors import UserError


def written(folder) -> str:
    """Writes a row, and returns the table."""
    MetricsFile(folder).write(2, 0.5, {"loss": 0.25})
    path, = folder.iterdir()  # no second table
    return path.read_text()


@pytest.mark.parametrize("cut", range(1, len("2,0.5000,loss,0.25\n") + 1))
def test_a_row_that_was_cut_off_anywhere_is_written_anew(tmp_path, cut):
    MetricsFile(tmp_path).write(1, 0.25, {"loss": 1.5, "rate": 0.125})
    whole = written(tmp_path)
    table = tmp_path / "metrics.csv"
    table.write_bytes(table.read_bytes()[:-cut])
    assert MetricsFile(tmp_path).history("loss") == {1: 1.5}  # not the 0.2 of a value cut off
    assert written(tmp_path) == whole


def test_a_table_cut_off_at_half_of_its_size_keeps_its_whole_rows(tmp_path):
    for step in range(1000):
        MetricsFile(tmp_path).write(step, 0.25, {"loss": 1 / (step + 3)})
    table = tmp_path / "metrics.csv"
    half = table.read_bytes()[:table.stat().st_size // 2]
    table.write_bytes(half)
    assert written(tmp_path).encode() == half[:half.rfind(b"\n") + 1] + b"2,0.5000,loss,0.25\n"


def test_a_header_that_did_not_fit_on_the_disk_is_no_table(tmp_path):
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (11, limits[1]))
        with pytest.raises(UserError, match="cannot be written"):
            written(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert written(tmp_path) == "step,epoch,name,value\n2,0.5000,loss,0.25\n"


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_table_that_is_resumed_equals_an_uninterrupted_one(tmp_path, evaluated):
    def write(folder, steps):
        for step in steps:
            MetricsFile(folder).write(step, step / 8, {"train_loss": 1 / step})
            if step % 2 == 0:
                MetricsFile(folder).write(step, step / 8, {"val_loss": 2 / step, "accuracy": 0.5})

    (tmp_path / "whole").mkdir()
    (tmp_path / "resumed").mkdir()
    for name in ("whole", "resumed"):  # the second is killed after step 6, with a checkpoint of step 4
        write(tmp_path / name, range(1, 9 if name == "whole" else 7))
    with open(tmp_path / "resumed" / "metrics.csv", "a") as table:
        table.write("7,0.8750,tr")
    MetricsFile(tmp_path / "resumed").rewind(4, evaluated)
    if not evaluated:
        MetricsFile(tmp_path / "resumed").write(4, 0.5, {"val_loss": 0.5, "accuracy": 0.5})
    write(tmp_path / "resumed", range(5, 9))
    assert (tmp_path / "resumed" / "metrics.csv").read_text() == (tmp_path / "whole" / "metrics.csv").read_text()


def test_the_table_of_another_run_is_not_rewound(tmp_path):
    MetricsFile(tmp_path).write(5, 0.5, {"train_loss": 0.25})
    content = (tmp_path / "metrics.csv").read_text()
    start_table(tmp_path)
    MetricsFile(tmp_path).rewind(0, True)
    MetricsFile(tmp_path).write(1, 0.5, {"train_loss": 0.5})
    assert (tmp_path / "metrics.csv").read_text() == content
    assert (tmp_path / "metrics.csv-2").read_text() == "step,epoch,name,value\n1,0.5000,train_loss,0.5\n"
