"""The report on a GPU: order, time limits, errors as rows, and tables made from its file; a dry run on a CPU."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import pytest

from benchmarks import gpu_report
from benchmarks.gpu_report import (
    TESTS,
    XLA,
    Case,
    format_tables,
    measure_missing,
    plan_measurements,
    read_results,
    run_tests,
    write_results,
)
from benchmarks.measuring.processes import Failure
from benchmarks.measuring.settings import default_names
from open_seq2seq.utils.errors import UserError
from tests.integration.conftest import ROOT

OPTIONS = argparse.Namespace(only="", tiny=False, updates=300, steps=1, rounds=1, warmup=0)
NETWORKS = ["Transformer-big", "Jasper 10x5", "GNMT"]


def plan(on_gpu, **options):
    cases = {name: Case("config.py", []) for name in NETWORKS}
    return list(plan_measurements(cases, Case("letters.py", []), on_gpu, argparse.Namespace(**vars(OPTIONS) | options)))


@pytest.mark.parametrize("on_gpu", [True, False])
def test_every_network_is_planned_in_every_dtype_once(on_gpu):
    names = plan(on_gpu)
    trainings = {f"training/{name}/{dtype}{xla}" for name in NETWORKS for dtype in default_names(on_gpu)
                 for xla in ("", XLA)}
    assert trainings == {name for name in names if name.startswith("training")} and len(set(names)) == len(names)


def test_the_most_important_figures_come_first():
    names = plan(True)
    assert names[:3] == ["tests", *(f"training/Transformer-big/mixed_float16{xla}" for xla in ("", XLA))]
    places = [names.index(name) for name in ("training/GNMT/mixed_float16", "curve/float32/3", "curve/mixed_float16/1",
                                             "training/GNMT/mixed_float16 with XLA", "training/GNMT/tf32 with XLA")]
    assert places == sorted(places)
    assert plan(True, only="^curve/(tf32|float)") == [*(f"curve/float32/{seed}" for seed in (1, 2, 3)), "curve/tf32/1"]


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_the_report_exist(name):
    assert (ROOT / name).exists()


def test_a_measurement_that_fails_is_a_row_and_nothing_is_measured_twice():
    saved, found, made = [], {"a": {"value": 0}}, []

    def measure(name):
        made.append(name)
        if name == "b":
            raise Failure("Traceback\n  of lines\nOSError: no kernel\n")
        return {"value": name}

    measures = {name: lambda name=name: measure(name) for name in "abc"}
    assert measure_missing(measures, found, lambda: saved.append(sorted(found)), 60, 60) == []
    assert made == ["b", "c"] and saved == [["a", "b"], ["a", "b", "c"]]
    assert found["a"] == {"value": 0} and found["b"]["error"] == "OSError: no kernel" and found["c"]["value"] == "c"


def test_a_measurement_that_takes_too_long_is_ended_and_the_next_one_made():
    found = {}
    measures = {"long": lambda: time.sleep(600), "short": lambda: {"value": 1}}
    assert measure_missing(measures, found, lambda: None, 60, 1.0) == []
    assert found["long"]["error"].startswith("not complete after") and found["short"]["value"] == 1


def test_what_the_time_ends_is_measured_by_the_next_call():
    found = {}
    measures = {"long": lambda: time.sleep(600), "short": lambda: {"value": 1}}
    assert measure_missing(measures, found, lambda: None, 0.05, 60) == ["long", "short"] and found == {}


def figures(**values):
    return {"compute": "float32", "step_ms": {"median": 20.0, "fastest": 19.0, "slowest": 30.5}, "objects": "tokens",
            "objects_per_s": 1000.0, **values}


def rows(text):
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]


def test_trainings_of_a_network_are_together_and_compared_with_float32():
    table = rows(format_tables({"measurements": {
        "training/One/mixed_float16": figures(objects_per_s=2500.0), "training/Two/float32": {"error": "a | b"},
        "training/One/float32": figures(peak_mb=11902.4), "training/Two/tf32": figures()}}))
    assert table[0] == ["network", "dtype", "step ms (median of rounds)", "fastest–slowest round ms", "speed",
                        "against float32", "peak MB"]
    assert table[2:] == [["One", "mixed_float16", "20.0", "19.0–30.5", "2,500 tokens/s", "2.50×", "–"],
                         ["One", "float32", "20.0", "19.0–30.5", "1,000 tokens/s", "1.00×", "11,902"],
                         ["Two", "float32", "a \\| b", "–", "–", "–", "–"],
                         ["Two", "tf32", "20.0", "19.0–30.5", "1,000 tokens/s", "–", "–"]]


def test_failed_tests_and_curves_are_shown():
    curve = {"train": [3.0, 2.0], "validation": {"2": 2.0}, "skipped": 0}
    text = format_tables({"measurements": {
        "tests": {"passed": 7, "skipped": 1, "failed": {"tests.a::test_b": "assert 1 == 2"}},
        **{f"curve/float32/{seed}": {**curve, "validation": {"2": 2.0 + seed}} for seed in (1, 2)},
        "curve/tf32/1": curve, "curve/mixed_float16/1": {"error": "no memory"}}})
    assert "7 passed, 1 failed, 1 skipped" in text and "| `tests.a::test_b` | assert 1 == 2 |" in text
    assert "Losses of mixed_float16 with seed 1: no memory" in text
    assert "| tf32 | 1 | 2 | 0 | 2.0000 | -1.0000 |" in text


def test_curves_without_a_band_have_no_table():
    curve = {"train": [3.0, 2.0], "validation": {"2": 2.0}, "skipped": 0}
    assert format_tables({"measurements": {"curve/float32/1": curve, "curve/tf32/1": curve}}) == ""


def test_a_file_continues_on_the_same_machine_only(tmp_path):
    path = tmp_path / "results.json"
    results = read_results(path, "one", False)
    assert results["measurements"] == {}
    results["measurements"]["tests"] = {"error": "none"}
    for _ in range(2):
        write_results(path, results)
    assert read_results(path, "one", False) == results
    for machine, tiny in (("other", False), ("one", True)):
        with pytest.raises(UserError, match="choose another --results"):
            read_results(path, machine, tiny)
    with pytest.raises(UserError, match="measure first"):
        gpu_report.main([f"--results={tmp_path}/none.json", "--tables"])


@pytest.mark.long
def test_tests_are_counted_and_named(tmp_path):
    path = tmp_path / "test_three.py"
    path.write_text("import pytest\ndef test_a():\n    pass\ndef test_b():\n    assert 1 == 2\n"
                    "@pytest.mark.skip\ndef test_c():\n    pass\n")
    found = run_tests((str(path),), 1)
    assert (found["passed"], found["skipped"]) == (1, 1)
    ((name, message),) = found["failed"].items()
    assert name.endswith("test_three::test_b") and message == "assert 1 == 2"
    with pytest.raises(Failure, match="ran no test"):
        run_tests((str(tmp_path / "none.py"),), 1)


@pytest.mark.long
@pytest.mark.parametrize(("networks", "number"), [
    ("(Transformer-big|Jasper 10x5)", 2), pytest.param("[^/]+", 6, marks=pytest.mark.slow)])
def test_a_dry_run_measures_what_it_plans(tmp_path, networks, number):
    path = tmp_path / "results.json"
    tests = ["^tests"] * (number == 6)
    only = "|".join([*tests, f"^training/{networks}/float32$", f"Transformer-big/float32{XLA}",
                     "curve/float32/[12]", "curve/mixed_bfloat16"])
    command = ["bash", str(ROOT / "benchmarks/gpu_report.sh"), f"--results={path}", "--tiny", f"--only={only}"]

    def run(*more):
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHON": sys.executable})
        assert done.returncode == 0, done.stderr
        return done

    first = run()
    found = json.loads(path.read_text())["measurements"]
    assert [name for name, one in found.items() if "error" in one] == []
    trainings = {name: one for name, one in found.items() if name.startswith("training")}
    assert len({name.split("/")[1] for name in trainings}) == number
    assert len(found) == len(tests) + number + 1 + 3
    for one in trainings.values():
        assert one["step_ms"]["fastest"] > 0 and one["objects_per_s"] > 0 and one["peak_mb"] > 0 and one["launches"] > 0
    assert found["training/Transformer-big/float32"]["target_tokens_per_s"] > 0
    if tests:
        assert found["tests"]["passed"] > 0 and found["tests"]["failed"] == {}
    # The tables come from the file alone.
    tables = run("--tables").stdout
    assert tables.strip() in first.stdout and tables.count("\n| ") >= 1 + number + 2
    assert "Not measured yet" not in first.stdout
