"""What the processor says of itself."""

from __future__ import annotations

import pytest

from open_seq2seq.utils import processor


def test_cpu_flags(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: fpu avx512_bf16\n")
    assert processor.cpu_flags(str(file)) == {"fpu", "avx512_bf16"}
    assert processor.cpu_flags(str(tmp_path / "none")) == frozenset()


@pytest.mark.parametrize(("flags", "has"), [({"avx2"}, False), ({"avx2", "amx_bf16"}, True), (set(), True)])
def test_bfloat16_is_taken_for_granted_where_nothing_is_known(monkeypatch, flags, has):
    monkeypatch.setattr(processor, "cpu_flags", lambda: frozenset(flags))
    assert processor.has_bfloat16.__wrapped__() is has
