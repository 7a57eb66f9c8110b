"""Every recipe loads, and names only classes and parameters that exist."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.merge import copy_nested, same
from open_seq2seq.config.old_names import rename_in
from open_seq2seq.config.original_defaults import use_original_defaults
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.models.builder import describe_section

REPOSITORY = Path(__file__).parents[3]
RECIPES = sorted((REPOSITORY / "example_configs").rglob("*.py"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(REPOSITORY)))
@pytest.mark.parametrize("mode", ["train_eval", "infer"])
def test_a_recipe_is_accepted_and_a_checkpoint_keeps_what_needs_no_trust(recipe: Path, mode: str, tmp_path: Path):
    given = resolve(load_config(recipe), mode)
    (tmp_path / "config.yaml").write_text(to_yaml(given.as_sections()), encoding="utf-8")
    kept = resolve(load_config(tmp_path / "config.yaml", trusted=False), mode)
    for section in given.sections:
        before, after = (describe_section(config, section) for config in (given, kept))
        parts = ["data_layer", "encoder", "loss", *({"decoder"} & {*before.params})]
        assert all(inspect.isclass(before.params[part]) for part in parts)
        assert after.model_class is before.model_class
        assert to_yaml(after.params) == to_yaml(before.params)
        for name in ("encoder", "decoder", "loss", "optimizer", "lr_policy", "initializer", "regularizer"):
            assert after.params.get(name) is before.params.get(name)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_recipe_says_how_it_is_run(recipe: Path):
    assert f"--config_file={recipe.relative_to(REPOSITORY)}" in recipe.read_text(encoding="utf-8")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_recipe_is_not_changed_as_configs_of_nvidias_are(recipe: Path):
    tree = ast.parse(recipe.read_text(encoding="utf-8"))
    before = ast.dump(tree)
    assert not rename_in(tree, str(recipe)) and ast.dump(tree) == before
    config = load_config(recipe)
    sections = copy_nested(config.sections)
    assert not config.old_names and not use_original_defaults(config) and same(config.sections, sections)
