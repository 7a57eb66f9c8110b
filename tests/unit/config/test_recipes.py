"""Recipes: their names, and what they say about themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.recipes import find_recipe, recipe_files, recipes
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.shipped import RECIPES

REPOSITORY = RECIPES.parent
FILES = recipe_files()


def test_every_recipe_is_listed_by_a_name_that_finds_it():
    listed = list(recipes())
    assert [Path(find_recipe(f"recipe:{recipe.name}")) for recipe in listed] == FILES
    assert {recipe.task for recipe in listed} == {path.name for path in RECIPES.iterdir()}


@pytest.mark.parametrize("recipe", list(recipes()), ids=lambda recipe: recipe.name)
def test_a_recipe_says_what_it_is_and_only_figures_of_the_documentation(recipe):
    assert recipe.title and "\n" not in recipe.title and recipe.data
    pages = re.findall(r"docs/[\w-]+\.md", recipe.score)
    text = (REPOSITORY / pages[0]).read_text(encoding="utf-8") if pages else ""
    assert [figure for figure in re.findall(r"\d+\.\d", recipe.score) if pages and figure not in text] == []


def test_the_data_of_a_variant_are_those_of_its_base():
    data = {recipe.name: recipe.data for recipe in recipes()}
    assert data["nmt-reversal-RC"] == data["nmt-reversal-TT"] != data["dialogue"]


@pytest.mark.parametrize("name", ["own-text", "recipe:own-text", "text2text/own-text", "recipe:text2text/own-text"])
def test_a_recipe_is_found_by_its_name(name: str):
    assert Path(find_recipe(name)) == RECIPES / "text2text" / "own-text.py"


@pytest.mark.parametrize(("name", "said"), [
    ("recipe:transformer-multi30k", "name one of text2text/en-de/transformer-multi30k, text2text/en-de-fr/tr"),
    ("recipe:own-txt", "no recipe 'own-txt'. Did you mean own-text"),
    ("recipe:qqq", "`open_seq2seq recipes` lists all"),
    ("recipe:own-text.py", "no recipe 'own-text.py'"),
    ("own-txt", "no config file or recipe 'own-txt'. Did you mean own-text"),
])
def test_what_is_no_recipe_is_said(name: str, said: str):
    with pytest.raises(ConfigError, match=re.escape(said)):
        find_recipe(name)


def test_the_logdir_of_a_recipe_does_not_hide_it(tmp_path, monkeypatch):
    """Also a folder that has the name of a recipe is no config."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own-text").mkdir()
    assert Path(find_recipe("own-text")) == RECIPES / "text2text" / "own-text.py"
    (tmp_path / "own-text-model").mkdir()  # no recipe is meant
    assert find_recipe("own-text-model") == "own-text-model"
    (tmp_path / "own-labels").write_text("")  # a file, of which the loader says what is wrong
    assert find_recipe("own-labels") == "own-labels"


def test_a_config_may_be_based_on_a_recipe_by_name(tmp_path):
    (tmp_path / "mine.py").write_text('base_config = "recipe:nmt-reversal-TT"\ndata_root = "mine/"\n')
    (tmp_path / "other.yaml").write_text("base_config: recipe:nmt-reversal-T\nbase_params: {max_steps: 3}\n")
    layer = load_config(tmp_path / "mine.py").sections["base_params"]["data_layer_params"]
    assert layer["src_vocab_file"] == "mine/vocab/source.txt"
    with pytest.raises(ConfigError, match="Did you mean nmt-reversal-"):
        load_config(tmp_path / "other.yaml")
