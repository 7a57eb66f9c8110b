"""Packed models: what they contain, and that files of others or damaged ones are refused with a sentence."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.checkpoints import Snapshot, load_checkpoint, write_snapshot
from open_seq2seq.checkpoints.packed import SUMS, sums_text, unpacked
from open_seq2seq.report.packing import pack
from open_seq2seq.utils.errors import CheckpointError, UserError


def write_run(folder: Path) -> None:
    weights = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
    optimizer = {"ema/w": weights["w"] + 1, "m/w": weights["w"]}
    state = {"step": 3, "micro_batch": 3, "random_seed": 0, "metrics": {"val_loss": 1.0}}
    write_snapshot(Snapshot(weights, optimizer, state, "base_model: Text2Text\n", {"vocab": b"a\nb\n"}),
                   folder / "model.ckpt-3")
    (folder / "language_models").mkdir()
    (folder / "language_models" / "infer.decoder_params.lm").write_text("lm")
    (folder / "language_models" / "eval.decoder_params.lm").write_text("lm")
    (folder / "LICENSE").write_text("free")


def test_a_packed_model_has_what_inference_needs(tmp_path):
    write_run(tmp_path / "run")
    packed = pack(tmp_path / "run", tmp_path / "model.zip", license="mit")
    folder = Path(unpacked(str(packed)))
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        "README.md", "LICENSE", "language_models/infer.decoder_params.lm", *(f"model.ckpt-3/{name}" for name in (
            "assets/vocab", "config.yaml", "optimizer.safetensors", "state.json", "weights.safetensors"))}
    checkpoint, original = load_checkpoint(folder / "model.ckpt-3"), load_checkpoint(tmp_path / "run" / "model.ckpt-3")
    assert {*checkpoint.optimizer} == {"ema/w"} and checkpoint.state["metrics"] == {"val_loss": 1.0}
    np.testing.assert_array_equal(checkpoint.weights["w"], original.weights["w"])
    assert "license: mit" in (folder / "README.md").read_text()
    assert unpacked(str(tmp_path / "run")) == str(tmp_path / "run")  # a log directory is used as it is


def test_packing_twice_gives_the_same_bytes_and_replaces_only_packed_models(tmp_path):
    write_run(tmp_path / "run")
    first = pack(tmp_path / "run", tmp_path / "model.zip").read_bytes()
    assert pack(tmp_path / "run", tmp_path / "model.zip").read_bytes() == first
    for content in ("mine", None):
        if content is None:
            with zipfile.ZipFile(tmp_path / "mine.zip", "w") as archive:
                archive.writestr("mine", "mine")
        else:
            (tmp_path / "mine.zip").write_text(content)
        before = (tmp_path / "mine.zip").read_bytes()
        with pytest.raises(UserError, match="is not a packed model"):
            pack(tmp_path / "run", tmp_path / "mine.zip")
        assert (tmp_path / "mine.zip").read_bytes() == before


def test_what_a_killed_process_has_left_of_a_packed_model_is_removed_by_the_next(tmp_path):
    write_run(tmp_path / "run")

    class Killed(BaseException):
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("open_seq2seq.utils.disk._remove", lambda path: None)
        patch.setattr("open_seq2seq.report.packing._write", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            pack(tmp_path / "run", tmp_path / "model.zip")
    assert len([*tmp_path.glob(".tmp-*")]) == 1
    pack(tmp_path / "run", tmp_path / "model.zip")
    assert not [*tmp_path.glob(".tmp-*")]


def altered(source: Path, target: Path, files: dict[str, bytes], listed: dict[str, bytes] | None = None) -> str:
    """Writes a packed model with other files, and a list of their checksums or of those of ``listed``."""
    with zipfile.ZipFile(source) as archive:
        all_files = {name: archive.read(name) for name in archive.namelist() if name != SUMS} | files
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in (all_files if listed is None else listed).items()}
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(SUMS, sums_text(sums))
        for name, data in all_files.items():
            archive.writestr(name, data)
    return str(target)


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "model.ckpt-3/../../out", "model.ckpt-3/..", "other/x",
                                  "model.ckpt-3/assets/x/y", "model.ckpt-3\\x", "C:x", "x.py",
                                  "model.ckpt-3/assets/.."])
def test_names_that_are_not_those_of_a_model_are_refused(tmp_path, name):
    write_run(tmp_path / "run")
    source = pack(tmp_path / "run", tmp_path / "model.zip")
    with pytest.raises(CheckpointError, match="has other lines"):
        unpacked(altered(source, tmp_path / "bad.zip", {name: b"x"}))
    assert not (tmp_path / "out").exists() and not (tmp_path.parent / "out").exists()


def test_damaged_and_foreign_files_are_refused(tmp_path):
    write_run(tmp_path / "run")
    source = pack(tmp_path / "run", tmp_path / "model.zip")
    with zipfile.ZipFile(source) as archive:
        listed = {name: archive.read(name) for name in archive.namelist() if name != SUMS}
    with pytest.raises(CheckpointError, match="config.yaml does not have its checksum"):
        unpacked(altered(source, tmp_path / "1.zip", {"model.ckpt-3/config.yaml": b"x"}, listed))
    with pytest.raises(CheckpointError, match="has other files than its list"):
        unpacked(altered(source, tmp_path / "2.zip", {"README.md~": b"x"}, listed))
    (tmp_path / "3.zip").write_bytes(source.read_bytes()[:-300])
    (tmp_path / "4.zip").write_text("text")
    for name in ("3.zip", "4.zip"):
        with pytest.raises(CheckpointError, match="neither a log directory nor an intact packed model"):
            unpacked(str(tmp_path / name))
    with zipfile.ZipFile(tmp_path / "6.zip", "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(CheckpointError, match="has no list SHA256SUMS"):
        unpacked(str(tmp_path / "6.zip"))


@pytest.mark.parametrize("name", ["toy:reversl", "toy:", "toy:../setup", "toy:a/b"])
def test_toy_models_that_do_not_exist_are_a_sentence(name):
    with pytest.raises(CheckpointError, match="There is no toy model"):
        unpacked(name)
