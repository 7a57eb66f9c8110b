"""What the processor says of itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from open_seq2seq.utils import machine


def test_cpu_flags(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu avx512_bf16\n")
    assert machine.cpu_flags(str(file)) == {"fpu", "avx512_bf16"}
    assert machine.cpu_flags(str(tmp_path / "none")) == frozenset()


def test_the_cpu_is_named(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast: the 2nd\n")
    assert machine.cpu_name(str(tmp_path / "cpuinfo")) == "Fast: the 2nd"
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    assert machine.cpu_name(str(tmp_path / "none")) == "aarch64"


def test_limits_of_onednn_are_part_of_its_setting(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    plain = machine.onednn_setting()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert plain.startswith("on") and machine.onednn_setting() not in (plain, "off")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert machine.onednn_setting().startswith("off")


@pytest.mark.parametrize(("flags", "has"), [({"avx2"}, False), ({"avx2", "amx_bf16"}, True), (set(), True)])
def test_bfloat16_is_taken_for_granted_where_nothing_is_known(monkeypatch, flags, has):
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(flags))
    assert machine.has_bfloat16.__wrapped__() is has


@pytest.mark.parametrize(("flags", "setting", "has"), [
    ({"avx2"}, None, False), ({"avx2", "avx512_vnni"}, None, True), (set(), None, True),
    ({"avx2"}, "1", True), ({"avx512_vnni"}, "0", False)])
def test_onednn_is_on_as_tensorflow_decides(monkeypatch, flags, setting, has):
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(flags))
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if setting:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", setting)
    assert machine.has_onednn() is has


def test_onednn_is_on_where_tensorflow_says_so():
    port = pytest.importorskip("tensorflow.python.util._pywrap_util_port")
    assert machine.has_onednn() is port.IsMklEnabled()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to cores")
@pytest.mark.parametrize("script", ['exec "$0" -c "$1"', '"$0" -c "$1"; true'])
def test_cores_of_a_launcher_are_not_those_of_its_script(script):
    core = min(os.sched_getaffinity(0))
    program = "from open_seq2seq.utils import machine\nprint(machine.cores_allowed(), machine.cores_of_launcher())"
    done = subprocess.run(["sh", "-c", script, sys.executable, program], capture_output=True, text=True, check=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    assert done.stdout.split() == ["1", str(machine.cores_allowed())]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to cores")
def test_a_launcher_may_be_bound_itself():
    core = min(os.sched_getaffinity(0))
    launcher = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]])"
    program = "from open_seq2seq.utils import machine\nprint(machine.cores_of_launcher())"
    done = subprocess.run([sys.executable, "-c", launcher, program], capture_output=True, text=True, check=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    assert done.stdout.split() == ["1"]
