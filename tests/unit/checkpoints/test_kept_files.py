"""Files that parts declare: kept with a run, and found there when the run has moved and the originals have gone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_seq2seq.checkpoints import Snapshot, write_snapshot
from open_seq2seq.checkpoints.kept_files import MODES, assets_of, keep_files, kept_files_of
from open_seq2seq.config.files import ASSET, LARGE
from open_seq2seq.config.overrides import apply_overrides
from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.decoders import Decoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.models import EncoderDecoderModel
from open_seq2seq.utils.errors import CheckpointError

COPIES = "language_models"


def model_params(joint: bool, **decoder: Any) -> dict[str, Any]:
    ctc = {"decoder": "FullyConnectedCTCDecoder", "decoder_params": decoder}
    inside = {"ctc_decoder": ctc["decoder"], "ctc_decoder_params": decoder,
              "attn_decoder": "ListenAttendSpellDecoder", "attn_decoder_params": {}}
    parts = {"decoder": "JointCTCAttentionDecoder", "decoder_params": inside} if joint else ctc
    return {**parts, "data_layer": "Speech2TextDataLayer", "data_layer_params": {}}


def write_checkpoint(path: Path, assets: Mapping[str, str] | None = None) -> Path:
    """A checkpoint that holds nothing but assets."""
    empty = {"zero": np.zeros(1, np.float32)}
    write_snapshot(Snapshot(empty, empty, {"step": 1}, "", dict(assets or {})), path)
    return path


def relocated(checkpoint: Path, params: dict[str, Any], mode: str = "infer", model: Any = "Speech2Text",
              ) -> dict[str, Any]:
    """The parameters after kept files have been put in."""
    found, problems = apply_overrides(params, kept_files_of(checkpoint, mode, model, params), [f"{mode}_params"])
    assert not problems
    return found


def found_by(checkpoint: Path, params: dict[str, Any], mode: str = "infer") -> dict[str, str]:
    """What stands in the files that the decoder's parameters then name."""
    found = relocated(checkpoint, params, mode)
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
    keep_files(tmp_path / "run", "Speech2Text", {mode: params for mode in MODES})
    write_checkpoint(tmp_path / "run" / place)
    for path in files.values():
        path.unlink()
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    for mode in MODES:
        assert found_by(tmp_path / "elsewhere" / place, params, mode) == {key: key for key in files}
    copies = [path for path in (tmp_path / "elsewhere" / COPIES).iterdir() if path.suffix != ".json"]
    assert len(copies) == 2 * len(MODES) and len({copy.stat().st_ino for copy in copies}) == 2
    assert sum(copy.suffix == ".gz" for copy in copies) == (len(MODES) if name.endswith(".gz") else 0)
    inside = ".ctc_decoder_params" if joint else ""  # names that checkpoints of earlier versions have
    assert f"infer.decoder_params{inside}.lm_vocabulary" in {copy.name for copy in copies}


def test_a_mode_has_its_own(tmp_path: Path):
    params_of = {}
    for mode in MODES:
        (tmp_path / mode).write_text(mode, encoding="utf-8")
        params_of[mode] = model_params(False, lm_path=str(tmp_path / mode))
    keep_files(tmp_path / "run", "Speech2Text", params_of)
    checkpoint = write_checkpoint(tmp_path / "run" / "model.ckpt-1")
    for mode in MODES:
        assert found_by(checkpoint, params_of[mode], mode) == {"lm_path": mode}


def test_a_copy_follows_its_source_and_outlives_it(tmp_path: Path, capsys):
    source, checkpoint = tmp_path / "lm.arpa", write_checkpoint(tmp_path / "run" / "model.ckpt-1")
    params = model_params(False, lm_path=str(source))
    numbers = []
    for text, changed in (("one", 1), ("one", 1), ("two", 9)):
        source.write_text(text, encoding="utf-8")
        os.utime(source, (changed, changed))
        keep_files(tmp_path / "run", "Speech2Text", {"infer": params})
        assert found_by(checkpoint, params) == {"lm_path": text}
        numbers.append((tmp_path / "run" / COPIES / "infer.decoder_params.lm_path").stat().st_ino)
    assert numbers[0] == numbers[1]
    source.unlink()
    keep_files(tmp_path / "run", "Speech2Text", {"infer": params})
    assert found_by(checkpoint, params) == {"lm_path": "two"}
    assert "an earlier copy is kept" in capsys.readouterr().out
    keep_files(tmp_path / "run", "Speech2Text", {"infer": model_params(False)})
    assert kept_files_of(checkpoint, "infer", "Speech2Text", model_params(False)) == []
    assert not (tmp_path / "run" / COPIES / "infer.decoder_params.lm_path").exists()


def test_a_default_of_the_model_is_replaced_where_it_is_given(tmp_path: Path):
    """So the command line, whose values are applied afterwards, can name another file in the same place."""
    checkpoint = write_checkpoint(tmp_path / "model.ckpt-1", {"vocab.txt": b"0\t<unk>\t1\n"})
    kept = str(checkpoint / "assets" / "vocab.txt")
    for of_layer in ({}, {"lm_vocab_file": None}):
        params = {"data_layer": "WKTDataLayer", "data_layer_params": of_layer, "lm_vocab_file": "/gone"}
        found = relocated(checkpoint, params, model="LanguageModel")
        assert found["lm_vocab_file"] == kept and found["data_layer_params"] == of_layer
    params = {"data_layer": "WKTDataLayer", "data_layer_params": {"lm_vocab_file": "/gone"}}
    assert relocated(checkpoint, params, model="LanguageModel")["data_layer_params"] == {"lm_vocab_file": kept}


def test_no_model_or_one_that_does_not_exist(tmp_path: Path, capsys):
    for params in ({}, {"decoder_params": None}, model_params(False), model_params(False, lm_path=None)):
        keep_files(tmp_path, "Speech2Text", {"infer": params})
    assert capsys.readouterr().out == "" and not (tmp_path / COPIES).exists()
    params = model_params(True, lm_path="/nowhere/lm.arpa")
    keep_files(tmp_path, "Speech2Text", {"infer": params})
    assert "inference will need the original" in capsys.readouterr().out
    assert kept_files_of(write_checkpoint(tmp_path / "model.ckpt-1"), "infer", "Speech2Text", params) == []


def test_only_the_runs_own_copies_are_replaced_or_removed(tmp_path: Path, capsys):
    """A user may have a folder of that name, with files of any name in it."""
    source, folder = tmp_path / "lm.arpa", tmp_path / "run" / COPIES
    source.write_text("mine", encoding="utf-8")
    params = model_params(False, lm_path=str(source), lm_vocabulary=str(source))
    folder.mkdir(parents=True)
    taken, changed = (folder / f"infer.decoder_params.{name}" for name in ("lm_path", "lm_vocabulary"))
    for path in (folder / "notes.txt", taken):
        path.write_text("somebody's", encoding="utf-8")
    keep_files(tmp_path / "run", "Speech2Text", {"infer": params})
    assert "no run has created" in capsys.readouterr().out
    assert taken.read_text(encoding="utf-8") == "somebody's" and changed.read_text(encoding="utf-8") == "mine"
    changed.write_text("worked on", encoding="utf-8")
    keep_files(tmp_path / "run", "Speech2Text", {"infer": model_params(False)})
    assert {path.name for path in folder.iterdir()} == {"notes.txt", taken.name, changed.name, "copies.json"}


def test_nothing_is_written_or_removed_through_links(tmp_path: Path, capsys):
    source, elsewhere = tmp_path / "lm.arpa", tmp_path / "elsewhere"
    source.write_text("model", encoding="utf-8")
    elsewhere.mkdir()
    params = model_params(False, lm_path=str(source))
    (elsewhere / "precious").write_text("precious", encoding="utf-8")
    (tmp_path / "run" / COPIES).mkdir(parents=True)
    (tmp_path / "run" / COPIES / "infer.decoder_params.lm_path").symlink_to(elsewhere / "precious")
    keep_files(tmp_path / "run", "Speech2Text", {"infer": params})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / COPIES).symlink_to(elsewhere)
    (elsewhere / "copies.json").write_text(json.dumps({"precious": ["whatever"]}), encoding="utf-8")
    keep_files(tmp_path / "other", "Speech2Text", {"infer": params})
    assert capsys.readouterr().out.count("nothing is written through links") == 2
    assert {path.name for path in elsewhere.iterdir()} == {"precious", "copies.json"}
    assert (elsewhere / "precious").read_text(encoding="utf-8") == "precious"
    with pytest.raises(CheckpointError, match="is a link"):
        kept_files_of(write_checkpoint(tmp_path / "run" / "model.ckpt-1"), "infer", "Speech2Text", params)


class _Lines(DataLayer):
    """Files in a parameter and in a dict."""

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**DataLayer.get_optional_params(), "words": Param(str, None, file=ASSET),
                "tokenizer": Param(dict, {}, file={"model": ASSET, "merges": LARGE})}


class _OldLines(DataLayer):
    """A layer written before files were declared: it says what it needs by two methods."""

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"dictionary": str}

    def assets(self) -> dict[str, str]:
        return {"the_dictionary": self.params["dictionary"]}

    @classmethod
    def params_with_assets(cls, params: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
        return {**params, "dictionary": paths.get("the_dictionary", params["dictionary"])}


class _Phonemes(Encoder):
    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"phonemes": Param(str, file=ASSET), "inner": Param((type, str), names="encoder"),
                "inner_params": Param(dict)}


class _Inner(Encoder):
    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"table": Param(str, file=ASSET)}


class _Vocoded(Decoder):
    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"vocoder": Param(str, file=LARGE), "speakers": Param(str, file=ASSET)}


def write_files(root: Path, *names: str) -> dict[str, str]:
    root.mkdir(exist_ok=True)
    for name in names:
        (root / name).write_text(f"this is {name}", encoding="utf-8")
    return {name: str(root / name) for name in names}


def texts(params: Any) -> Any:
    """Parameters with the content of files in the place of their paths."""
    if isinstance(params, Mapping):
        return {key: texts(value) for key, value in params.items()}
    return Path(params).read_text(encoding="utf-8") if isinstance(params, str) and os.path.isfile(params) else params


@pytest.mark.parametrize("old", [False, True])
def test_files_of_every_part_come_along(tmp_path: Path, old: bool):
    """Keep, move, relocate: all parameters name files of equal content, which lie in the moved run."""
    files = write_files(tmp_path / "data", "words", "model", "merges", "phonemes", "table", "vocoder", "speakers",
                        "dictionary")
    data = {"dictionary": files["dictionary"]} if old else {
        "words": files["words"], "tokenizer": {"model": files["model"], "merges": files["merges"], "dropout": 0.1}}
    params = {"batch_size_per_gpu": 1, "data_layer": _OldLines if old else _Lines, "data_layer_params": data,
              "encoder": _Phonemes,
              "encoder_params": {"phonemes": files["phonemes"], "inner": _Inner,
                                 "inner_params": {"table": files["table"]}}}
    inference = {**params, "decoder": _Vocoded,
                 "decoder_params": {"vocoder": files["vocoder"], "speakers": files["speakers"]}}
    training = {**params, "decoder": Decoder}
    model = EncoderDecoderModel(training)
    model.data_layer = training["data_layer"](data, model)
    keep_files(tmp_path / "run", EncoderDecoderModel, {"train": training, "infer": inference})
    write_checkpoint(tmp_path / "run" / "model.ckpt-1", assets_of(model))
    expected = texts(inference)
    (tmp_path / "run").rename(tmp_path / "moved")
    for path in files.values():
        Path(path).unlink()
    found = relocated(tmp_path / "moved" / "model.ckpt-1", inference, model=EncoderDecoderModel)
    assert texts(found) == expected
    assert sorted(path.name for path in (tmp_path / "moved/model.ckpt-1/assets").iterdir()) == sorted(
        ["encoder_params.phonemes", "encoder_params.inner_params.table",
         *(["the_dictionary"] if old else ["words", "tokenizer_model"])])


@pytest.mark.parametrize(("names", "tokenizer"), [
    (["src_vocab_file", "tgt_vocab_file"], {}),
    (["tokenizer_source_model", "tokenizer_target_model"], {"source_model": "/gone", "target_model": "/gone"}),
    (["tokenizer_model"], {"model": "/gone"})])
def test_assets_of_text_keep_their_names(tmp_path: Path, names: list[str], tokenizer: dict[str, str]):
    checkpoint = write_checkpoint(tmp_path / "model.ckpt-1", write_files(tmp_path / "data", *names))
    data = {"max_length": 9, "src_vocab_file": "/gone", "tgt_vocab_file": "/gone"}
    if tokenizer:
        data = {"max_length": 9, "tokenizer": {"type": "sentencepiece", **tokenizer}}
    params = {"data_layer": "ParallelTextDataLayer", "data_layer_params": data}
    found = texts(relocated(checkpoint, params, model="Text2Text"))["data_layer_params"]
    assert found.pop("max_length") == 9
    flat = {f"tokenizer_{key}": value for key, value in found.pop("tokenizer", {}).items()} | found
    flat.pop("tokenizer_type", None)
    assert flat == {name: f"this is {name}" for name in names}


def test_what_no_parameter_names_is_left_out(tmp_path: Path):
    """A file that somebody put in a checkpoint chooses no tokenizer."""
    files = write_files(tmp_path / "data", "src_vocab_file", "tokenizer_model")
    checkpoint = write_checkpoint(tmp_path / "model.ckpt-1", files)
    params = {"data_layer": "ParallelTextDataLayer", "data_layer_params": {"src_vocab_file": "/gone"}}
    found = relocated(checkpoint, params, model="Text2Text")["data_layer_params"]
    assert found == {"src_vocab_file": str(checkpoint / "assets/src_vocab_file")}


def test_an_altered_asset_is_no_asset(tmp_path: Path):
    checkpoint = write_checkpoint(tmp_path / "model.ckpt-1", write_files(tmp_path / "data", "vocab_file"))
    (checkpoint / "assets/vocab_file").write_text("other letters", encoding="utf-8")
    params = {"data_layer": "Speech2TextDataLayer", "data_layer_params": {"vocab_file": "/gone"}}
    with pytest.raises(CheckpointError, match="vocab_file is truncated or altered"):
        kept_files_of(checkpoint, "infer", "Speech2Text", params)
