"""The recipes in ``example_configs``, which can be named without their folder."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from open_seq2seq.utils.errors import ConfigError

_RECIPES = Path(__file__).parents[2] / "example_configs"
_ENDINGS = (".py", ".yaml", ".yml")


def find_recipe(name: str) -> str:
    """Returns the path of a recipe, such as ``own-text``; anything that is a path is returned as it is.

    Raises:
      ConfigError: several recipes have this name, or none has it but some have a similar one.
    """
    if name.endswith(_ENDINGS) or os.path.lexists(os.path.expanduser(name)) or not _RECIPES.is_dir():
        return name
    recipes = [path for path in _RECIPES.rglob("*.py") if not path.name.startswith("_")]
    matches = [path for path in recipes if path.with_suffix("").as_posix().endswith(f"/{name}")]
    if len(matches) > 1:
        listed = ", ".join(sorted(path.relative_to(_RECIPES).with_suffix("").as_posix() for path in matches))
        raise ConfigError([f"Several recipes are called {name!r}: name one of {listed}."])
    near = [] if matches else difflib.get_close_matches(name, [path.stem for path in recipes], n=3)
    if near:
        raise ConfigError([f"There is no config file or recipe {name!r}. Did you mean {' or '.join(near)}?"])
    return str(matches[0]) if matches else name
