"""The table of metrics stays whole when its writer is stopped in the middle of a row or of the header."""

from __future__ import annotations

import resource
import signal

import pytest

from open_seq2seq.training.loop.metrics_file import MetricsFile, read_metrics
from open_seq2seq.utils.errors import UserError


def written(folder) -> str:
    """Writes a row, and returns the table."""
    MetricsFile(folder, is_new=False).write(2, 0.5, {"loss": 0.25})
    path, = folder.iterdir()  # no second table
    return path.read_text()


def test_a_row_that_was_cut_off_is_removed(tmp_path):
    MetricsFile(tmp_path, is_new=False).write(1, 0.25, {"loss": 1.5, "rate": 0.125})
    table = tmp_path / "metrics.csv"
    table.write_bytes(table.read_bytes()[:-len("e,0.125\n")])
    assert written(tmp_path).splitlines()[-2:] == ["1,0.2500,loss,1.5", "2,0.5000,loss,0.25"]
    assert read_metrics(table) == {"loss": {1: 1.5, 2: 0.25}}


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
