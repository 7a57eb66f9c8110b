"""Which types are compared on which device, what the table says, and what a GPU's peak is."""

from __future__ import annotations

import argparse

import pytest
import tensorflow as tf

from benchmarks import mixed_precision
from benchmarks.measuring import memory_use
from benchmarks.measuring.machine import Machine, describe_machine
from benchmarks.measuring.precision_table import Results, format_raw, format_table, notes
from benchmarks.measuring.processes import Failure
from benchmarks.measuring.turns import Measurement, Round
from benchmarks.measuring.utilization import FlopCount, peak_teraflops
from open_seq2seq.utils.errors import UserError

CPU = Machine((), "A CPU", ("avx512_bf16",), 2, "2.21.0")
GPU = Machine(("NVIDIA H100 80GB HBM3",), "A CPU", (), 16, "2.21.0")


def measurement(name, compute, seconds, tokens=1000):
    return Measurement(name, compute, "tokens", 2048, "tokens", 3.0,
                       [Round(10, s, tokens, 0.0) for s in seconds], 500.0)


def cells(table):
    head, _, *rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_rows_follow_the_device():
    assert [s.name for s in mixed_precision.chosen_settings(None, CPU)] == ["float32", "mixed_bfloat16"]
    settings = mixed_precision.chosen_settings(None, GPU)
    assert [s.name for s in settings] == ["float32", "tf32", "mixed_float16", "mixed_bfloat16"]
    assert [s.overrides for s in settings] == [
        ("--dtype=float32", "--tf32=False"), ("--dtype=float32", "--tf32=True"), ("--dtype=mixed_float16",),
        ("--dtype=mixed_bfloat16",)]


def test_tf32_is_refused_without_a_gpu():
    with pytest.raises(UserError, match="tf32"):
        mixed_precision.chosen_settings("float32,tf32", CPU)


def test_a_search_on_a_cpu_needs_a_limit():
    options = argparse.Namespace(largest_batch=True, limit_mb=None, loss_steps=None)
    with pytest.raises(UserError, match="--limit_mb"):
        mixed_precision.check_options(options, CPU)
    mixed_precision.check_options(options, GPU)


@pytest.mark.parametrize("device, compute, expected", [
    ("NVIDIA H200", "bfloat16", 989.0), ("NVIDIA H100 80GB HBM3", "tf32", 495.0),
    ("NVIDIA H100 PCIe", "float16", 756.0), ("NVIDIA A100-SXM4-40GB", "float32", 19.5),
    ("Tesla V100-SXM2-16GB", "float16", 125.0),
    ("Tesla V100-PCIE-16GB", "float16", 112.0), ("Tesla V100-SXM2-16GB", "tf32", 15.7),  # has no TF32: float32 it is
    ("Tesla T4", "float16", 65.0), ("NVIDIA L4", "bfloat16", 121.0),
    ("NVIDIA L40S", "float16", None), ("NVIDIA GeForce GTX 1080", "float32", None),
    ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "float16", None),
])
def test_peaks(device, compute, expected):
    assert peak_teraflops(device, compute) == expected


def test_the_table_of_a_gpu():
    rows = [measurement("float32", "float32", [2.0, 1.0, 4.0]), measurement("tf32", "float32", [0.5]),
            measurement("mixed_float16", "float16", [0.25])]
    results = Results(rows, flops=67e9, device=GPU.gpus[0])
    table = cells(format_table(results))
    assert [row["dtype"] for row in table] == ["float32", "tf32", "mixed_float16 (float16)"]
    assert [row["step ms (median of rounds)"] for row in table] == ["200.0", "50.0", "25.0"]
    assert table[0]["fastest–slowest round ms"] == "100.0–400.0"
    assert [row["tokens/s"] for row in table] == ["500", "2,000", "4,000"]
    assert [row["against float32"] for row in table] == ["1.00×", "4.00×", "8.00×"]
    assert [row["model TFLOP/s"] for row in table] == ["33.5", "134", "268"]
    assert [row["of peak"] for row in table] == ["50.0%", "27.1%", "27.1%"]
    assert "largest batch" not in table[0] and notes(results) == []


def test_an_unknown_gpu_has_no_utilization_unless_its_peak_is_given():
    rows = [measurement("float32", "float32", [1.0])]
    results = Results(rows, flops=1e9, device="Unheard-of 9")
    assert "of peak" not in cells(format_table(results))[0] and "--peak_tflops" in notes(results)[0]
    results.peak = 10.0
    assert cells(format_table(results))[0]["of peak"] == "10.0%" and notes(results) == []


def test_optional_columns_appear_when_measured():
    row = measurement("float32", "float32", [1.0])
    row.loss, row.flops = 2.34567, FlopCount(1e9, 10, ("PartitionedCall",))
    results = Results([row], {"float32": "4,096"}, loss_steps=40, flops=row.flops.training_per_object)
    table = cells(format_table(results))[0]
    assert table["loss after 40 steps"] == "2.3457" and table["largest batch"] == "4,096"
    assert table["model TFLOP/s"] == "0.3" and "of peak" not in table
    assert "PartitionedCall" in notes(results)[0] and "last 4" in notes(results)[1]


def test_raw_speeds_and_the_models_share_of_them():
    raw = {kind: {"float32": 100.0, "bfloat16": 300.0} for kind in ("product", "recurrence", "convolution")}
    rows = [measurement("float32", "float32", [1.0]), measurement("mixed", "bfloat16", [0.5])]
    found = cells(format_table(Results(rows, flops=5e7, raw=raw)))  # 1000 tokens in 1 s: 50 GFLOP/s; then 100
    assert [row["of raw products"] for row in found] == ["50%", "33%"]
    assert "of raw products" not in cells(format_table(Results(rows, flops=5e7)))[0]
    table = cells(format_raw(raw))
    assert [row["raw operation"] for row in table] == list(raw)
    assert table[0] == {"raw operation": "product", "float32 GFLOP/s": "100", "bfloat16 GFLOP/s": "300",
                        "bfloat16 by float32": "3.00×"}


def test_the_machine_names_its_gpu(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"] if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"device_name": "NVIDIA L4"})
    machine = describe_machine()
    assert machine.on_gpu and str(machine).startswith("NVIDIA L4; host: ") and tf.__version__ in str(machine)


def test_peak_memory_is_the_gpus_where_there_is_one(monkeypatch):
    assert memory_use.peak_megabytes() > 100
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["gpu"] if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"peak": 5_000_000, "current": 0})
    assert memory_use.peak_megabytes() == 5.0


def search(monkeypatch, fitting, start, halvings, limit=100.0, largest=10 ** 9):
    """Runs the search where a batch takes its size in MB, ``fitting`` is what the device has, ``largest`` the data."""
    def run_trial(config_file, overrides, size):
        if size > largest:
            raise Failure("too few examples", mistake=True)
        return memory_use.Trial(size, size, float(size), 1.0) if size <= fitting else None

    monkeypatch.setattr(memory_use, "run_trial", run_trial)
    return [(trial.batch_size, fits) for trial, fits in memory_use.search("c", [], limit, start, halvings)]


def test_sizes_double_and_the_gap_is_halved(monkeypatch):
    assert search(monkeypatch, 10 ** 9, 20, 2) == [(20, True), (40, True), (80, True), (160, False), (120, False),
                                                   (100, True)]


def test_without_a_limit_the_device_is_the_limit(monkeypatch):
    assert search(monkeypatch, 70, 20, 1, limit=None) == [(20, True), (40, True), (60, True)]


def test_a_first_size_that_does_not_fit_ends_the_search(monkeypatch):
    assert search(monkeypatch, 10 ** 9, 200, 2) == [(200, False)]


def test_the_end_of_the_data_ends_the_search(monkeypatch, capsys):
    assert search(monkeypatch, 10 ** 9, 20, 2, largest=50) == [(20, True), (40, True)]
    assert "too few examples" in capsys.readouterr().err
    with pytest.raises(Failure):
        search(monkeypatch, 10 ** 9, 60, 2, largest=50)
