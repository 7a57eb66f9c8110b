"""The probe of the processor's speed, and its cache in the user's folder."""

from __future__ import annotations

import json
import os
import random
import time

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.precision import KINDS
from open_seq2seq.runners import processor_speed as probe
from open_seq2seq.runners.processor_speed import (
    TYPES,
    MeasuredSpeeds,
    cache_folder,
    machine_identity,
    machine_speeds,
    measure_speeds,
    ratios,
    read_speeds,
    speeds_file,
    write_speeds,
)
from open_seq2seq.runners.threads import intra_op_threads
from open_seq2seq.utils.machine import has_onednn

SPEEDS = {kind: {"float32": 100.0, "bfloat16": 150.0} for kind in KINDS}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def measured(monkeypatch):
    """Stands in for the measuring; a list that grows by each."""
    calls: list[int] = []

    def measure(kinds=KINDS):
        calls.extend([1] if kinds else [])
        return MeasuredSpeeds({kind: dict(SPEEDS[kind]) for kind in kinds}, waited=False)

    monkeypatch.setattr(probe, "measure_speeds", measure)
    return calls


def test_speeds_are_numbers_of_each_kind_and_type():
    speeds = measure_speeds(seconds=0.0).speeds
    assert set(speeds) == set(KINDS) and all(value > 0 for of_kind in speeds.values() for value in of_kind.values())
    assert ratios(SPEEDS) == dict.fromkeys(KINDS, 1.5)


def test_measuring_leaves_no_trace(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("no variable is to be made")

    tf.random.set_seed(1)
    states = random.getstate(), np.random.get_state()[1].copy()
    drawn = tf.random.uniform([3]).numpy()
    tf.random.set_seed(1)
    monkeypatch.setattr(tf, "Variable", refuse)
    measure_speeds(seconds=0.0)
    assert random.getstate() == states[0] and (np.random.get_state()[1] == states[1]).all()
    np.testing.assert_array_equal(tf.random.uniform([3]).numpy(), drawn)


def test_a_slow_processor_makes_one_round():
    calls = []

    def slow(values):
        calls.append(values.dtype.name)
        time.sleep(0.3)
        return values

    elapsed, busy = probe._least_seconds(slow, [np.zeros(2, np.float32)], seconds=0.01, most_rounds=9)
    assert calls == 2 * list(TYPES)  # once to compile and once to measure
    assert all(seconds >= 0.3 for seconds in elapsed.values())
    assert all(0 <= seconds < 0.3 for seconds in busy.values())


def test_a_slow_first_call_leaves_time_for_several_rounds(monkeypatch):
    calls, clock = [], [0.0]

    def traced(values):
        clock[0] += 1.0 if values.dtype in calls else 100.0
        calls.append(values.dtype)
        return values

    monkeypatch.setattr(probe.time, "perf_counter", lambda: clock[0])
    elapsed, _ = probe._least_seconds(traced, [np.zeros(2, np.float32)], seconds=10.0, most_rounds=3)
    assert len(calls) == 2 * (1 + 3) and set(elapsed.values()) == {1.0}


@pytest.mark.parametrize("waits", [False, True])
def test_processor_time_counts_where_the_process_waits_for_a_core(monkeypatch, waits):
    threads = intra_op_threads()
    times = dict.fromkeys(TYPES, 2.0), {"float32": 1.0 if waits else 4.0, "bfloat16": 0.5 if waits else 4.0}
    monkeypatch.setattr(probe, "_least_seconds", lambda *_: times)
    speeds, waited = measure_speeds()
    seconds = {name: times[1][name] / threads if waits else 2.0 for name in TYPES}
    assert waited == waits
    assert speeds == {kind: {name: pytest.approx(probe._FLOPS[kind] / seconds[name] / 1e9) for name in TYPES}
                      for kind in KINDS}
    assert set(ratios(speeds).values()) == {2.0 if waits else 1.0}


def test_what_was_measured_beside_other_programs_is_not_kept(cache, monkeypatch):
    calls = []

    def measure(kinds=KINDS):
        calls.append(kinds)
        return MeasuredSpeeds({kind: dict(SPEEDS[kind]) for kind in kinds}, waited=len(calls) == 1)

    monkeypatch.setattr(probe, "measure_speeds", measure)
    assert machine_speeds() == SPEEDS and read_speeds(machine_identity()) is None
    assert machine_speeds() == SPEEDS and read_speeds(machine_identity()) == SPEEDS


def test_it_is_measured_once(cache, measured):
    for _ in range(3):
        assert machine_speeds() == SPEEDS
    assert len(measured) == 1 and len(list((cache / "open_seq2seq").iterdir())) == 1


def test_what_is_close_is_measured_twice_and_the_best_counts(cache, monkeypatch):
    asked = []

    def measure(kinds=KINDS):
        asked.append(list(kinds))
        bfloat16 = 100.0 if len(asked) == 1 else 130.0
        found = {kind: {"float32": 100.0, "bfloat16": 250.0} for kind in KINDS}
        speeds = {kind: {"float32": 100.0, "bfloat16": bfloat16} if kind == "convolution" else found[kind]
                  for kind in kinds}
        return MeasuredSpeeds(speeds, waited=False)

    monkeypatch.setattr(probe, "measure_speeds", measure)
    assert ratios(machine_speeds()) == {"product": 2.5, "recurrence": 2.5, "convolution": 1.3}
    assert asked == [list(KINDS), ["convolution"]]


def test_what_is_kept_is_found_quickly(cache, measured):
    machine_speeds()
    least = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        machine_speeds()
        least = min(least, time.perf_counter() - start)
    assert least < 0.01


@pytest.mark.parametrize(("name", "value"), [
    ("TF_NUM_INTRAOP_THREADS", "3"), ("TF_ENABLE_ONEDNN_OPTS", str(int(not has_onednn()))),
    ("ONEDNN_MAX_CPU_ISA", "AVX2")])
def test_another_setting_is_measured_anew(cache, measured, monkeypatch, name, value):
    machine_speeds()
    monkeypatch.setenv(name, value)
    machine_speeds()
    assert len(measured) == 2


def test_threads_are_those_of_the_run(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    assert machine_identity()["threads"] == len(os.sched_getaffinity(0))
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    assert machine_identity()["threads"] == 1
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 5)
    assert machine_identity()["threads"] == 5


def changed(**changes):
    content = {"machine": machine_identity(), "gflops": SPEEDS}
    return json.dumps({**content, **changes})


CORRUPT = {
    "cut": '{"machine": {', "another thing": "[1, 2]", "no text": b"\xff\xfe\x00\x80",
    "no speeds": lambda: changed(gflops=None),
    "another machine": lambda: changed(machine={"processor": "Fast 9000"}),
    "one kind missing": lambda: changed(gflops={kind: SPEEDS[kind] for kind in KINDS[1:]}),
    **{f"speed {value!r}": lambda value=value: changed(gflops={**SPEEDS, KINDS[0]: {"float32": value, "bfloat16": 1}})
       for value in (None, 0.0, float("nan"))},
}


@pytest.mark.parametrize("what", CORRUPT)
def test_a_corrupt_file_is_measured_anew_and_replaced(cache, measured, what):
    path = speeds_file(machine_identity())
    path.parent.mkdir()
    content = CORRUPT[what]() if callable(CORRUPT[what]) else CORRUPT[what]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert machine_speeds() == SPEEDS and len(measured) == 1
    assert read_speeds(machine_identity()) == SPEEDS


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_what_is_no_file_does_not_hold_up(cache, measured, what):
    path = speeds_file(machine_identity())
    path.parent.mkdir()
    {"pipe": lambda: os.mkfifo(path), "folder": lambda: (path / "x").mkdir(parents=True)}[what]()
    assert machine_speeds() == SPEEDS and len(measured) == 1


def test_where_nothing_can_be_written_it_is_measured_each_time(tmp_path, measured, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    assert machine_speeds() == machine_speeds() == SPEEDS
    assert len(measured) == 2


def test_nothing_is_left_of_a_write_that_fails(cache, monkeypatch):
    def refuse(*_):
        raise OSError("read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    assert not write_speeds(machine_identity(), SPEEDS)
    assert list((cache / "open_seq2seq").iterdir()) == []


def test_the_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for relative in ("", "somewhere/else"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert cache_folder() == tmp_path / ".cache" / "open_seq2seq"
    monkeypatch.setenv("HOME", "nowhere")
    assert cache_folder() is None and not write_speeds(machine_identity(), SPEEDS)
    assert read_speeds(machine_identity()) is None
