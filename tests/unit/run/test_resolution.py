"""What ``--infer_files`` stands for, as each data layer understands it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.overrides import Override
from open_seq2seq.data import DataLayer, ParallelTextDataLayer, Speech2TextDataLayer, TransformerDataLayer
from open_seq2seq.run.resolution import overrides_for
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError, UserError

DATA = "infer_params/data_layer_params/"


def config(layer: Any) -> ConfigFile:
    return ConfigFile("config.yaml", "Model", {"base_params": {"data_layer": layer}})


def given(files: list[str], layer: Any, *overrides: Override) -> dict[str, Any]:
    found = overrides_for(files, config(layer), overrides)
    return {override.name.removeprefix(DATA): override.value for override in found}


@pytest.mark.parametrize("layer", [Speech2TextDataLayer, "Speech2TextDataLayer"])
def test_recordings_of_the_command_line_are_read_and_left_alone(tmp_path, layer):
    recording = tmp_path / "a b.wav"
    recording.write_bytes(b"")
    assert given([str(recording)], layer) == {
        "dataset_files": [str(recording)], "audio_root": None,
        "cache_features": False}  # a cache would lie beside the recordings
    with pytest.raises(UserError, match=r"none\.wav, which does not exist"):
        given([str(tmp_path / "none.wav")], layer)


def test_the_data_layer_of_the_command_line_says_what_files_are(tmp_path):
    text = tmp_path / "text"
    text.write_text("a\n", encoding="utf-8")
    override = Override(None, ("data_layer",), "ParallelTextDataLayer")
    assert given([str(text)], "Speech2TextDataLayer", override)["source_file"] == str(text)


@pytest.mark.parametrize("layer", [ParallelTextDataLayer, TransformerDataLayer])
def test_a_text_is_read_as_it_is(tmp_path, layer):
    text = tmp_path / "text"
    text.write_text("a\nb", encoding="utf-8")
    found = given([str(text)], layer)
    assert found["source_file"] == str(text) and found["target_file"] is None and found["index_dir"] is None
    assert (layer is TransformerDataLayer) == ("data_dir" in found)  # names are not relative to it


def test_texts_come_one_after_another(tmp_path, monkeypatch):
    contents = {"one": "a\n\nb", "two": "\ufeffc\r\nd\n", "three": "\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content.encode())
    files = [str(tmp_path / name) for name in contents]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("ä".encode())))
    path = given([*files[:1], "-", *files[1:]], ParallelTextDataLayer)["source_file"]
    assert list(read_lines(path)) == ["a", "", "b", "ä", "c", "d", ""]


@pytest.mark.parametrize("layer", [ParallelTextDataLayer, Speech2TextDataLayer])
@pytest.mark.parametrize(("files", "message"), [
    (["-"], "standard input is empty"), (["-", "-"], "twice"), (["/proc/nowhere"], "does not exist")])
def test_what_cannot_be_read_is_said_in_one_sentence(monkeypatch, layer, files, message):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(UserError, match=message):
        given(files, layer)


def test_mistakes_in_texts_name_the_file(tmp_path):
    for name, content in (("good", b"a\n"), ("latin", b"a\n\xe4\n"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"latin:2: the line is not valid UTF-8"):
        given([str(tmp_path / "good"), str(tmp_path / "latin")], ParallelTextDataLayer)
    with pytest.raises(DataError, match="empty is empty"):
        given([str(tmp_path / "empty"), str(tmp_path / "good")], ParallelTextDataLayer)
    with pytest.raises(UserError, match="is a folder"):
        given([str(tmp_path)], ParallelTextDataLayer)


def test_a_layer_that_reads_no_files_says_so():
    with pytest.raises(UserError, match="the data layer DataLayer does not support this flag"):
        given(["some.file"], DataLayer)


def test_an_index_of_a_large_text_is_not_left_beside_it(tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"a\n" * (9 << 20))
    index = given([str(text)], ParallelTextDataLayer)["index_dir"]
    assert tmp_path not in Path(index).parents and Path(index).is_dir()
