"""What the tables of trainings in several dtypes say."""

from __future__ import annotations

from types import SimpleNamespace

from benchmarks.measuring.trainings import About, Round, Training
from benchmarks.mixed_precision import format_table


def training(name, compute, seconds):
    """A training with rounds of these durations in seconds, each of 10 updates and 1,000 tokens."""
    fake = SimpleNamespace(name=name, about=About(compute, "tokens", 2048, "tokens"), first_step=3.0,
                           rounds=[Round(s / 10, 1000 / s, 0.0) for s in seconds])
    fake.label = Training.label.fget(fake)
    return fake


def cells(table):
    head, _, *rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_table_of_a_gpu():
    trainings = [training("float32", "float32", [2.0, 1.0, 4.0]), training("tf32", "float32", [0.5]),
                 training("mixed_float16", "float16", [0.25])]
    raw = {"product": {"float32": 67e3, "tf32": 268e3, "float16": 536e3}}
    table = cells(format_table(trainings, [500.0, 500.0, 250.0], 67e9, raw))
    assert [row["dtype"] for row in table] == ["float32", "tf32", "mixed_float16 (float16)"]
    assert [row["step ms (median of rounds)"] for row in table] == ["200.0", "50.0", "25.0"]
    assert table[0]["fastest–slowest round ms"] == "100.0–400.0"
    assert [row["tokens/s"] for row in table] == ["500", "2,000", "4,000"]
    assert [row["against float32"] for row in table] == ["1.00×", "4.00×", "8.00×"]
    assert [row["peak MB"] for row in table] == ["500", "500", "250"]
    assert [row["model TFLOP/s"] for row in table] == ["33.5", "134", "268"]
    assert [row["of raw products"] for row in table] == ["50%", "50%", "50%"]


def test_a_dtype_without_a_raw_speed_has_no_share():
    raw = {"product": {"float32": 100.0, "bfloat16": 300.0}}
    trainings = [training("float32", "float32", [1.0]), training("mixed_float16", "float16", [0.5])]
    table = cells(format_table(trainings, [1.0, 1.0], 5e7, raw))  # 1000 tokens in 1 s: 50 GFLOP/s
    assert [row["of raw products"] for row in table] == ["50%", "–"]
