"""The alphabet that a checkpoint keeps for inference, and the language model that a run's folder keeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.config.overrides import apply_overrides
from open_seq2seq.training.kept_files import MODES, keep_language_models, kept_files_of


def model_params(joint: bool, **decoder: Any) -> dict[str, Any]:
    return {"decoder_params": {"ctc_decoder_params": decoder} if joint else decoder, "data_layer_params": {}}


def found_by(checkpoint: Path, params: dict[str, Any], mode: str = "infer") -> dict[str, Any]:
    """The parameters that name files, after those that were kept have been put in."""
    found, problems = apply_overrides(params, kept_files_of(checkpoint, mode), [f"{mode}_params"])
    assert not problems
    decoder = found["decoder_params"].get("ctc_decoder_params") or found["decoder_params"]
    return {name: Path(decoder[name]).read_text(encoding="utf-8") for name in decoder if name.startswith("lm_")}


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("name", ["words.arpa", "words.arpa.gz"])
@pytest.mark.parametrize("place", ["model.ckpt-1", "best_models/val_loss=1-step-1"])
def test_what_is_kept_is_found_again_elsewhere(tmp_path: Path, joint: bool, name: str, place: str):
    files = {"lm_path": tmp_path / name, "lm_vocabulary": tmp_path / "words.txt"}
    for key, path in files.items():
        path.write_text(key, encoding="utf-8")
    params = model_params(joint, **{key: str(path) for key, path in files.items()})
    keep_language_models(tmp_path / "run", {mode: params for mode in MODES})
    for path in files.values():
        path.unlink()
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    for mode in MODES:
        assert found_by(tmp_path / "elsewhere" / place, params, mode) == {key: key for key in files}
    copies = list((tmp_path / "elsewhere" / "language_models").iterdir())
    assert len(copies) == 4 and len({copy.stat().st_ino for copy in copies}) == 2
    assert sum(copy.suffix == ".gz" for copy in copies) == (2 if name.endswith(".gz") else 0)


def test_a_mode_has_its_own(tmp_path: Path):
    params_of = {}
    for mode in MODES:
        (tmp_path / mode).write_text(mode, encoding="utf-8")
        params_of[mode] = model_params(False, lm_path=str(tmp_path / mode))
    keep_language_models(tmp_path / "run", params_of)
    for mode in MODES:
        assert found_by(tmp_path / "run" / "model.ckpt-1", params_of[mode], mode) == {"lm_path": mode}


def test_a_copy_follows_its_source_and_outlives_it(tmp_path: Path, capsys):
    source, checkpoint = tmp_path / "lm.arpa", tmp_path / "run" / "model.ckpt-1"
    params = model_params(False, lm_path=str(source))
    numbers = []
    for text, changed in (("one", 1), ("one", 1), ("two", 9)):
        source.write_text(text, encoding="utf-8")
        os.utime(source, (changed, changed))
        keep_language_models(tmp_path / "run", {"infer": params})
        assert found_by(checkpoint, params) == {"lm_path": text}
        numbers.append((tmp_path / "run" / "language_models" / "infer.decoder_params.lm_path").stat().st_ino)
    assert numbers[0] == numbers[1]
    source.unlink()
    keep_language_models(tmp_path / "run", {"infer": params})
    assert found_by(checkpoint, params) == {"lm_path": "two"}
    assert "its copy from before is kept" in capsys.readouterr().out
    keep_language_models(tmp_path / "run", {"infer": model_params(False)})
    assert kept_files_of(checkpoint, "infer") == []


def test_no_model_or_one_that_does_not_exist(tmp_path: Path, capsys):
    for params in ({}, {"decoder_params": None}, model_params(False), model_params(False, lm_path=None)):
        keep_language_models(tmp_path, {"infer": params})
    assert capsys.readouterr().out == ""
    keep_language_models(tmp_path, {"infer": model_params(True, lm_path="/nowhere/lm.arpa")})
    assert "inference needs it at its own place" in capsys.readouterr().out
    assert kept_files_of(tmp_path / "model.ckpt-1", "infer") == []
