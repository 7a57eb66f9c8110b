"""The commands that need no config and no trained model."""

from __future__ import annotations

import json
import os
import sys

import pytest

from open_seq2seq.cli import main
from open_seq2seq.models.config_schema import config_schema
from open_seq2seq.utils.shipped import SCRIPTS


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
        "    time:      about five minutes on two CPU cores",
        "    score:     BLEU above 95 on the test set; 99 has been observed"]
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
    monkeypatch.setattr("open_seq2seq.run.doctor.doctor", lambda: 2)
    assert printed("doctor") == (2, "")
