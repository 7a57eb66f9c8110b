"""The tables of benchmarks that time single kernels, on toy sizes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from open_seq2seq.utils.errors import UserError

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_decoding(capsys):
    load("ctc_decoding").main(["--frames", "40", "--repeats", "1", "--beam_width", "4", "--vocabulary", "50"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| clear", "| noisy", "| flat"))]
    assert len(rows) == 6


def test_loss(capsys, monkeypatch):
    module = load("ctc_loss")
    monkeypatch.setattr(module, "SHAPES", ((3, 20, 5, 4),))
    module.main(["--rounds", "1", "--kernels", "here,ctc_loss_op,tf_dense"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| 3×20×5×4")]
    assert [row[1] for row in rows] == ["here", "ctc_loss_op", "tf_dense"]
    assert all(float(row[4]) < 1e-4 for row in rows)


def test_convolution(capsys):
    load("convolution").main(["--rounds", "1", "--shape", "3,2,4,1,2,9", "4,3,2,2,1,8"])
    lines = [line.strip("|").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [cells[0].strip() for cells in lines[2:4]] == ["3, 2 → 4", "4, 3 → 2, stride 2"]
    assert all(float(cells[5]) < 1e-4 for cells in lines[2:4])


@pytest.mark.parametrize("shape", ["3,2,4,1,2", "3,2,four,1,2,9", "3,2,4,0,2,9", "3,2,4,1,2,2", ""])
def test_convolution_names_a_shape_that_is_none(shape):
    with pytest.raises(UserError, match="--shape"):
        load("convolution").main(["--shape", shape])
