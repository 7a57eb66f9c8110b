"""The table of all metrics of a run, ``metrics.csv`` in its logdir."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from open_seq2seq.utils import disk
from open_seq2seq.utils.data_files import is_count, read_data
from open_seq2seq.utils.errors import DataError, UserError

METRICS = "metrics.csv"
"""Name of the table; if a file of this name exists, a new table gets a number after it, as in ``metrics.csv-2``."""
_HEADER = "step,epoch,name,value\n"
_MOST_BYTES = 1 << 28

Metrics = dict[str, dict[int, float]]


class MetricsFile:
    """Appends metrics to a table with the columns step, epoch, name and value.

    A resumed run appends to its earlier table, after the rows of its checkpoint. If a step occurs twice, because a run
    went back to an earlier checkpoint while it ran, the last row counts.

    Args:
      folder: the run's folder; the table is the newest one there.
    """

    def __init__(self, folder: Path) -> None:
        tables = tables_in(folder)
        self._path = tables[-1] if tables else disk.free_name(folder / METRICS)

    def write(self, step: int, epoch: float, values: Mapping[str, float]) -> None:
        """Appends one row per value.

        Raises:
          UserError: the table cannot be written.
        """
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerows([step, f"{epoch:.4f}", name, repr(float(value))] for name, value in values.items())
        try:
            if not os.path.lexists(self._path):
                _write_header(self._path)
            disk.append(self._path, text.getvalue(), _is_table)
        except OSError as error:
            raise UserError(f"The metrics cannot be written to {self._path}: {error.strerror}.") from error

    def rewind(self, step: int, evaluated: bool) -> None:
        """Removes the rows that follow a checkpoint, which a resumed run writes again.

        Args:
          step: step of the checkpoint; 0 if the run begins anew.
          evaluated: whether the evaluation at this step is complete; if not, its rows are removed, too.

        Raises:
          UserError: the table cannot be written.
        """
        if not self._path.is_file():
            return
        try:
            header, *rows = self._path.read_bytes().splitlines(keepends=True)
            before = _rows_until(rows, step, evaluated)
            if len(before) < len(rows):
                with disk.writing(self._path, _is_table) as file:
                    file.write(b"".join([header, *before]))
        except OSError as error:
            raise UserError(f"The metrics cannot be written to {self._path}: {error.strerror}.") from error

    def history(self, name: str) -> dict[int, float]:
        """Returns the values of a metric by step, including those from before the run was resumed.

        The result is {} if the table does not exist or cannot be read.
        """
        try:
            return read_metrics(self._path).get(name, {}) if self._path.is_file() else {}
        except DataError:
            return {}


def start_table(folder: Path) -> None:
    """Starts a run's table, so that those of earlier runs in the folder are never continued.

    Raises:
      UserError: the table cannot be written.
    """
    path = disk.free_name(folder / METRICS)
    try:
        _write_header(path)
    except OSError as error:
        raise UserError(f"The metrics cannot be written to {path}: {error.strerror}.") from error


def _write_header(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with disk.writing(path, _is_table) as file:  # a table without its whole header is not recognised
        file.write(_HEADER.encode())


def tables_in(folder: Path) -> list[Path]:
    """Returns the paths of the tables that runs have written to a folder, oldest first; other files are left out."""
    paths = [path for path in folder.glob(f"{METRICS}*") if not path.is_symlink() and path.is_file()]
    tables = []
    for path in paths:
        with open(path, "rb") as file:
            tables += [path] if _is_table(file) else []
    return sorted(tables, key=lambda path: (len(path.name), path.name))


def _rows_until(rows: list[bytes], step: int, evaluated: bool) -> list[bytes]:
    """Returns the rows that belong to the run up to the checkpoint of a step; see ``MetricsFile.rewind``."""
    kept, in_evaluation = [], False
    for row in rows:
        row_step, _, rest = row.decode(errors="replace").partition(",")
        at = int(row_step) if is_count(row_step) else -1
        in_evaluation = at == step and (in_evaluation or ",val_loss," in rest)  # the loss is its first row
        if row.endswith(b"\n") and at <= step and (evaluated or not in_evaluation):
            kept.append(row)
    return kept


def _is_table(file: BinaryIO) -> bool:
    return file.read(len(_HEADER)) == _HEADER.encode()


def read_metrics(path: Path) -> Metrics:
    """Returns the values in a table by name and step: name → step → value.

    Invalid rows are left out, and a last row without its line break: its value may be cut off.

    Raises:
      DataError: the file cannot be read.
    """
    metrics: Metrics = {}
    text = read_data(str(path), "The table of metrics", _MOST_BYTES).decode(errors="replace")
    rows = text[:text.rfind("\n") + 1]
    for line in rows.splitlines():  # one by one, so that an open quote invalidates only its own row
        with contextlib.suppress(ValueError, csv.Error):
            (step, _, name, value), = csv.reader([line])
            if is_count(step):
                metrics.setdefault(name, {})[int(step)] = float(value)
    return {name: dict(sorted(steps.items())) for name, steps in metrics.items()}
