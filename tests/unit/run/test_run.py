"""What ``Run`` accepts from Python: paths in the place of texts, and one file in the place of a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_seq2seq.run.run import Run
from open_seq2seq.utils.errors import UserError


def test_a_log_directory_may_be_a_path_among_the_values(tmp_path):
    with pytest.raises(UserError, match="none does not exist"):
        Run(None, {"logdir": tmp_path / "none"}).evaluate()


@pytest.mark.parametrize("files", ["a.txt", Path("a.txt"), ["a.txt"], (Path("a.txt"),)])
def test_one_file_is_no_list_of_characters(monkeypatch, tmp_path, files):
    asked = []
    monkeypatch.setattr(Run, "_perform", lambda run, mode, **options: asked.append(options["infer_files"]))
    Run(None, logdir="run").infer(files, tmp_path / "out.txt")
    assert asked == [["a.txt"]]
