"""The recipes: the configs in ``example_configs``, which can be named without their folder, and what they achieve."""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from open_seq2seq.config.data_note import note_in
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.shipped import RECIPE, RECIPES

_CONFIGS = (".py", ".yaml", ".yml")


class Recipe(NamedTuple):
    """What a recipe says about itself.

    Attributes:
      name: its shortest name.
      task: the folder that it is in.
      title: what it trains.
      data: where its data come from; "" if it does not say.
      time: how long its training took, and on what; "" if that was not measured.
      score: what it reached; "" if that was not measured.
      published: what another toolkit's recipe reached that has the same settings; "" if there is none.
    """

    name: str
    task: str
    title: str
    data: str
    time: str
    score: str
    published: str


def recipe_files() -> list[Path]:
    """Returns the files of all recipes, in the order of their paths."""
    return sorted(path for path in RECIPES.rglob("*.py") if not path.name.startswith("_"))


def find_recipe(name: str) -> str:
    """Returns the path of a recipe, such as ``own-text`` or ``recipe:own-text``; that of a file is returned as it is.

    Raises:
      ConfigError: several recipes have this name, or none has it but ``recipe:`` or a similar one shows that it is
        meant to be one.
    """
    is_recipe = name.startswith(RECIPE)
    wanted = name.removeprefix(RECIPE)
    is_folder = os.path.isdir(os.path.expanduser(name))  # often the logdir of the recipe of its name
    if not is_recipe and (name.endswith(_CONFIGS) or os.path.lexists(os.path.expanduser(name)) and not is_folder):
        return name
    recipes = recipe_files()
    matches = [path for path in recipes if path.with_suffix("").as_posix().endswith(f"/{wanted}")]
    if len(matches) > 1:
        listed = ", ".join(_without_folder(path) for path in matches)
        raise ConfigError([f"Several recipes are called {wanted!r}: name one of {listed}."])
    stems = [] if matches or is_folder else [path.stem for path in recipes]
    near = difflib.get_close_matches(wanted, stems, n=3)
    if near or (is_recipe and not matches):
        what = "recipe" if is_recipe else "config file or recipe"
        hint = f"Did you mean {' or '.join(near)}?" if near else "The command `open_seq2seq recipes` lists all."
        raise ConfigError([f"There is no {what} {wanted!r}. {hint}"])
    return str(matches[0]) if matches else name


def _without_folder(path: Path) -> str:
    return path.relative_to(RECIPES).with_suffix("").as_posix()


def docstring_of(path: Path) -> str:
    """Returns the docstring of a Python file, which is not executed."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def recipes() -> Iterator[Recipe]:
    """Yields what every recipe says about itself, without executing one."""
    files = recipe_files()
    stems = [path.stem for path in files]
    for path in files:
        text = docstring_of(path)
        folder, *inside = _without_folder(path).split("/")
        name = path.stem if stems.count(path.stem) == 1 else "/".join(inside)
        title = text.partition("\n\n")[0].replace("\n", " ")
        yield Recipe(name, folder, title, _data_of(path), *(note_in(text, mark) for mark in (
            "Time:", "Score:", "Published:")))


def _data_of(path: Path) -> str:
    """Returns the note about the data of a recipe or, without one, that of the nearest base that has one."""
    if note := note_in(docstring_of(path)):
        return note
    base = base_of(path)
    return _data_of(base) if base is not None else ""


def base_of(path: Path) -> Path | None:
    """Returns the file that a Python config names as its base by a constant; None without one."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "base_config" \
                and isinstance(node.value, ast.Constant):
            return path.parent / str(node.value.value)
    return None
