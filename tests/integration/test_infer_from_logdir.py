"""Text models from nothing but their logdir, wherever it has been moved: sentences of files and of standard input."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from open_seq2seq.cli import main
from tests.unit.training.checkpoints.resealing import reseal


@pytest.fixture
def moved(two_updates: Path, tmp_path: Path) -> Path:
    """A logdir whose vocabulary and data are gone."""
    shutil.copytree(two_updates, tmp_path / "moved")
    config = next((tmp_path / "moved").glob("model.ckpt-2/config.yaml"))
    gone = config.read_text(encoding="utf-8").replace(str(two_updates.parent), "/gone")
    config.write_text(gone, encoding="utf-8")
    reseal(config.parent)
    return tmp_path / "moved"


def test_sentences_of_files_and_of_standard_input(moved, tmp_path, monkeypatch, capfd):
    (tmp_path / "one.txt").write_text("a b c\n\nc b a", encoding="utf-8")
    (tmp_path / "two.txt").write_text("f e d\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a a a\n")))
    inference = ["--mode=infer", f"--logdir={moved}", f"--infer_output_file={tmp_path}/out.txt", "--infer_files"]
    assert main([*inference, f"{tmp_path}/one.txt", "-", f"{tmp_path}/two.txt"]) == 0
    together = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert len(together) == 6 and together[-1] == ""  # a line for each of five sentences, one of them empty
    assert main([*inference, f"{tmp_path}/two.txt"]) == 0
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == together[4] + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["moved", "one.txt", "out.txt", "two.txt"]
    capfd.readouterr()
    assert main([*inference, f"{tmp_path}/three.txt"]) == 2
    assert "three.txt, which does not exist" in capfd.readouterr().err


def test_the_checkpoint_before_a_damaged_one_is_used(moved, tmp_path, capfd):
    shutil.copytree(moved / "model.ckpt-2", moved / "model.ckpt-3")
    (moved / "model.ckpt-3" / "assets" / "src_vocab_file").write_text("x\n", encoding="utf-8")
    (tmp_path / "one.txt").write_text("a b c\n", encoding="utf-8")
    assert main(["--mode=infer", f"--logdir={moved}", f"--infer_output_file={tmp_path}/out.txt", "--infer_files",
                 f"{tmp_path}/one.txt"]) == 0
    assert "src_vocab_file is truncated or altered. Trying the previous checkpoint." in capfd.readouterr().out
