"""Files of the repository that the installed package contains too: recipes, scripts, toy models."""

from __future__ import annotations

import os
import re
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_IN_WHEEL = _PACKAGE / "share"  # setup.py puts copies of the folders there

INSTALLED = _IN_WHEEL.is_dir()
"""Whether the package is an installed copy, without the repository around it."""
ROOT = _IN_WHEEL if INSTALLED else _PACKAGE.parent
"""The folder that contains ``example_configs/``, ``scripts/`` and ``toy_models/``."""
RECIPES, SCRIPTS, TOY_MODELS = ROOT / "example_configs", ROOT / "scripts", ROOT / "toy_models"
RECIPE = "recipe:"
"""Beginning of the name of a recipe in the place of a path."""
TOY = "toy:"
"""Beginning of the name of a toy model in the place of a log directory."""


def without_repository(text: str) -> str:
    """Returns a text whose commands, such as ``python scripts/x.py``, work wherever the package is installed."""
    text = re.sub(r"(?:python )?\bscripts/(\w+)\.py", r"open_seq2seq script \1", text)
    text = re.sub(r"\bexample_configs/([\w./-]+)\.py", rf"{RECIPE}\1", text)
    return re.sub(r"(?<![\w/.])(?:python )?run\.py\b", "open_seq2seq", text)


def as_usable(text: str) -> str:
    """Returns a text with the commands that work here: those of the repository, or of the installed package."""
    return without_repository(text) if INSTALLED else text


def path_here(path: str) -> str:
    """Returns where a file of ``example_configs/`` is that a config names, unless the working directory has it."""
    if not path.startswith(f"{RECIPES.name}/") or os.path.lexists(path) or not os.path.isfile(ROOT / path):
        return path
    return str(ROOT / path)


def as_named(text: str) -> str:
    """Returns a text that names files of ``example_configs/`` as in the repository: the inverse of ``path_here``."""
    return text.replace(f"{RECIPES}/", f"{RECIPES.name}/")
