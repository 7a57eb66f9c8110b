"""Copies a recipe to one file that needs no other: its text, or the values that it has together with its bases."""

from __future__ import annotations

import os
from pathlib import Path

from open_seq2seq.config.data_note import SCHEMA_LINE, note_in
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.recipes import base_of, docstring_of, find_recipe
from open_seq2seq.config.serialize import complete_yaml
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.shipped import RECIPE, RECIPES, as_named, without_repository

_YAML = (".yaml", ".yml")


def copy_recipe(name: str, file: str = "") -> str:
    """Writes a recipe to a file of its own.

    Args:
      name: name of the recipe, such as ``own-text``.
      file: the file to write. The text of a recipe without a base may be copied to a ``.py`` file; anything can be
        written as ``.yaml``. By default a file of the recipe's name in the working directory.

    Returns:
      The name of the file.

    Raises:
      UserError: there is no such recipe, or the file exists or has another ending.
    """
    source = Path(find_recipe(RECIPE + name.removeprefix(RECIPE)))
    variant = _is_variant(source)
    file = file or source.stem + (".yaml" if variant else ".py")
    if not file.endswith(_YAML) and (variant or not file.endswith(".py")):
        why = "it is based on another recipe, and the values of both are written" if variant else "or in .py"
        raise UserError(f"The copy of {name}, {file}, has to end in .yaml: {why}.")
    if os.path.lexists(file):
        raise UserError(f"{file} already exists: give another name, or remove the file.")
    text = as_yaml(source) if file.endswith(_YAML) else source.read_text(encoding="utf-8")
    recipe = f"{RECIPE}{source.relative_to(RECIPES).with_suffix('').as_posix()}"
    with disk.writing(file, disk.always) as opened:
        opened.write(without_repository(text).replace(f"--config_file={recipe}", f"--config_file={file}").encode())
    return file


def _is_variant(source: Path) -> bool:
    """Returns whether a recipe is based on another; ``own-text`` computes the name of its base."""
    return base_of(source) is not None or "\nbase_config" in source.read_text(encoding="utf-8")


def as_yaml(source: Path) -> str:
    """Returns a recipe, with the values of its bases, as YAML text that begins with its docstring.

    Raises:
      ConfigError: the recipe cannot be read.
    """
    config = load_config(source)
    text = docstring_of(source)
    if not note_in(text) and config.data_note:
        text += f"\nData: {config.data_note}"
    lines = [f"# {line}".rstrip() for line in text.splitlines()]
    values = as_named(complete_yaml({"base_model": config.base_model, **config.sections}))
    return "\n".join([SCHEMA_LINE + lines[0], *lines[1:], "", values])
