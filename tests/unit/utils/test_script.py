"""Mistakes of scripts are one sentence."""

from __future__ import annotations

import pytest

from open_seq2seq.utils.script import run_script


def test_a_missing_package_is_one_sentence(capsys):
    def main():
        raise ModuleNotFoundError("No module named 'soundfile'", name="soundfile")

    with pytest.raises(SystemExit) as end:
        run_script(main)
    assert end.value.code == 2
    assert "has no package soundfile: activate the environment" in capsys.readouterr().err
