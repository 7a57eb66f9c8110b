"""The commands that need no config and no trained model."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from open_seq2seq.cli import main
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.recipes import recipe_files
from open_seq2seq.config.serialize import complete_yaml
from open_seq2seq.models.config_schema import config_schema
from open_seq2seq.run.tools import copy_recipe
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.shipped import RECIPES, SCRIPTS


@pytest.fixture
def printed(capsys):
    """Runs a command; returns its exit code and what it printed."""
    def run(*words: str) -> tuple[int, str]:
        code = main(list(words))
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_recipes_are_listed_with_data_time_and_score(printed):
    code, text = printed("recipes")
    lines = text.splitlines()
    place = lines.index("  nmt-reversal-TT: Toy task: a Transformer learns to reverse a line of letters.")
    assert code == 0 and lines[place + 1:place + 4] == [
        "    data:      open_seq2seq script create_toy_data --output_dir=toy_text_data",
        "    time:      about four minutes on two CPU cores",
        "    score:     97 to 99 BLEU on the test set"]
    assert {"text2text", "speech2text", "lm"} <= {*lines}


def test_words_choose_recipes(printed):
    code, text = printed("recipes", "multi30k", "convs2s")
    assert code == 0 and [line for line in text.splitlines() if line.startswith("  c")] == [
        "  convs2s-multi30k: English to German on Multi30k: a small ConvS2S that two CPU cores can train."]
    assert "gnmt-multi30k:" not in text


def test_a_recipe_is_copied(printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed("recipes", "copy", "toy-lm", "mine.yaml") == (0, "*** Wrote mine.yaml\n")
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8").startswith("# yaml-language-server")


@pytest.mark.parametrize(("words", "said"), [
    (("recipes", "no such words"), "No recipe contains 'no such words'"),
    (("recipes", "copy"), "recipes copy NAME [FILE]"),
    (("recipes", "copy", "a", "b", "c"), "recipes copy NAME [FILE]"),
    (("recipes", "--nme"), "there is no option --nme"),
    (("script", "create_toy_dta"), "Did you mean 'create_toy_data'?"),
    (("recipe",), "Did you mean 'recipes'?"),
    (("scripts",), "Did you mean 'script'?"),
])
def test_mistakes_are_said_in_a_sentence(printed, words, said: str):
    code, text = printed(*words)
    assert code == 2 and said.lower() in text.lower() and "Traceback" not in text


def test_scripts_are_listed_and_run_in_place_of_the_process(printed, monkeypatch):
    code, text = printed("script")
    assert code == 0 and all(f"  {path.stem}: " in text for path in SCRIPTS.glob("*.py"))
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: calls.append([program, *words]))
    main(["script", "create_toy_data", "--seed=1"])
    assert calls == [[sys.executable, sys.executable, str(SCRIPTS / "create_toy_data.py"), "--seed=1"]]


def test_the_schema_is_printed(printed):
    code, text = printed("schema")
    assert code == 0 and json.loads(text) == json.loads(json.dumps(config_schema()))


def test_doctor_returns_whether_all_is_well(printed, monkeypatch):
    monkeypatch.setattr("open_seq2seq.run.tools.doctor", lambda: 2)
    assert printed("doctor") == (2, "")


def values(path: str | Path) -> str:
    config = load_config(path)
    return complete_yaml({"base_model": config.base_model, **config.sections})


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: path.relative_to(RECIPES).with_suffix("").as_posix())
def test_a_copy_has_the_values_of_the_recipe_and_needs_no_other_file(path: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = path.relative_to(RECIPES).with_suffix("").as_posix()
    for file in ("", "own.yaml"):
        copied = copy_recipe(name, file)
        config = load_config(copied)
        assert values(copied) == values(path) and not config.base_files
        text = Path(copied).read_text(encoding="utf-8")
        assert f"--config_file={copied}" in text and str(RECIPES) not in text
        assert not re.search(r"run\.py|python scripts", text)
        assert config.data_note == "" or "open_seq2seq script" in config.data_note or "scripts" not in config.data_note


def test_a_recipe_is_copied_as_it_is_or_with_the_values_of_its_bases(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert copy_recipe("nmt-reversal-TT") == "nmt-reversal-TT.py"
    assert copy_recipe("recipe:nmt-reversal-RR") == "nmt-reversal-RR.yaml"
    variant = (tmp_path / "nmt-reversal-RR.yaml").read_text(encoding="utf-8")
    assert variant.startswith("# yaml-language-server: $schema=config.schema.json\n# Toy task: a recurrent network")
    assert "d_model = 128" in (tmp_path / "nmt-reversal-TT.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("arguments", "said"), [
    (("nmt-reversal-TT", "here.yaml"), "here.yaml already exists"),
    (("nmt-reversal-RR", "mine.py"), "has to end in .yaml: it is based on another recipe"),
    (("nmt-reversal-TT", "mine.txt"), "has to end in .yaml or .py."),
    (("nmt",), "no recipe 'nmt'"),
    (("here.yaml",), "no recipe 'here.yaml'"),
])
def test_what_cannot_be_copied_is_said_and_changes_nothing(arguments, said: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.yaml").write_text("kept")
    with pytest.raises(UserError, match=re.escape(said)):
        copy_recipe(*arguments)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("here.yaml", "kept")]


def test_a_missing_folder_is_named_with_the_file_of_the_user(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        copy_recipe("nmt-reversal-TT", f"{tmp_path}/new/my.py")
    assert caught.value.filename == f"{tmp_path}/new/my.py"
