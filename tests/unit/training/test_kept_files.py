"""The alphabet and the language model that a checkpoint keeps for inference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.config.overrides import apply_overrides
from open_seq2seq.training.kept_files import kept_files_of, language_model_files


def model_params(joint: bool, **decoder: Any) -> dict[str, Any]:
    return {"decoder_params": {"ctc_decoder_params": decoder} if joint else decoder, "data_layer_params": {}}


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("name", ["words.arpa", "words.arpa.gz"])
def test_what_is_kept_is_found_again_elsewhere(tmp_path: Path, joint: bool, name: str):
    (tmp_path / name).write_text("model", encoding="utf-8")
    (tmp_path / "words.txt").write_text("words", encoding="utf-8")
    params = model_params(joint, alpha=2.0, lm_path=str(tmp_path / name), lm_vocabulary=str(tmp_path / "words.txt"))
    assets = tmp_path / "model.ckpt-1" / "assets"
    assets.mkdir(parents=True)
    for asset, source in language_model_files(params).items():
        Path(source).rename(assets / asset)
    found, problems = apply_overrides(params, kept_files_of(assets.parent), ["infer_params"])
    decoder = found["decoder_params"]["ctc_decoder_params"] if joint else found["decoder_params"]
    assert not problems and decoder["alpha"] == 2.0
    assert Path(decoder["lm_path"]).read_text(encoding="utf-8") == "model"
    assert decoder["lm_path"].endswith(".gz") == name.endswith(".gz")
    assert Path(decoder["lm_vocabulary"]).read_text(encoding="utf-8") == "words"


def test_no_model_or_one_that_does_not_exist(tmp_path: Path):
    for params in ({}, {"decoder_params": None}, model_params(False), model_params(True, lm_path="/nowhere/lm.arpa")):
        assert language_model_files(params) == {}
    assert kept_files_of(tmp_path) == []
