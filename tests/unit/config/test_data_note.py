"""The note in a config that says where its data come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from open_seq2seq.config.data_note import as_comment, names_missing_path, note_in, remedy
from open_seq2seq.config.loader import load_config, parse_config

ROOT = Path(__file__).resolve().parents[3]
RECIPES = sorted((ROOT / "example_configs").rglob("*.py"))


@pytest.mark.parametrize(("text", "note"), [
    ("A model.\n\nData: python make.py --x=1\nRun:  python run.py\n", "python make.py --x=1"),
    ("Data: lists, from one table:\n      python make.py --a \\\n          --b='.,'\nRun:  x", "lists, from one table: "
     "python make.py --a --b='.,'"),
    ("Data: files a and b in c/; scripts/x.py\nmakes them.\n\nMore: text",
     "files a and b in c/; scripts/x.py makes them."),
    ("A model of Data: none", ""), ("", ""), ("Data:\n", "")])
def test_the_note_is_the_paragraph_of_data(tmp_path, text, note):
    assert note_in(text) == note
    (tmp_path / "config.py").write_text(f'__doc__ = {text!r}\nbase_model, base_params = "Text2Text", {{}}\n')
    assert load_config(tmp_path / "config.py").data_note == note
    comment = "".join(f"# {line}\n" for line in text.splitlines())
    (tmp_path / "config.yaml").write_text(f"{comment}base_model: Text2Text\nbase_params: {{}}\n")
    assert load_config(tmp_path / "config.yaml").data_note == note
    kept = as_comment(note) + "base_model: Text2Text\nbase_params: {}\n"
    assert parse_config(kept, "x").data_note == note


def test_the_sentence_after_an_error_names_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = f"Relative paths begin in the working directory, which is {tmp_path}."
    assert remedy("") == where
    assert remedy("python make.py.") == f"The config says where its data come from: python make.py. {where}"
    (tmp_path / "a").mkdir()
    assert names_missing_path({"files": ["a/b"], "kind": "a"}) and not names_missing_path({"files": ["a/"], "n": 3})


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_says_where_its_data_come_from(path):
    note = load_config(path).data_note
    assert note and "Run:" not in note
    assert all((ROOT / script).is_file() for script in re.findall(r"scripts/\w+\.py", note))
