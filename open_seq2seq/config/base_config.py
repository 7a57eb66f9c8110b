"""A config that is based on another: which file that is, and what becomes of its variables and sections.

The variant names its base by ``base_config``. A variable that the base assigns at its top level has the variant's value
if the variant assigns it, too. Sections are merged key by key, and the variant's values prevail. If the variant
chooses another class or function, such as ``optimizer``, the parameters of the base's choice (``optimizer_params``) are
not inherited; a choice in ``base_params`` replaces those of all sections of the base.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from open_seq2seq.config.data_note import strings_in
from open_seq2seq.config.merge import DROP, copy_nested, merge_params, same
from open_seq2seq.config.overrides import SECTIONS, gives
from open_seq2seq.config.params import PARAMS, shown
from open_seq2seq.config.recipes import find_recipe
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.shipped import RECIPE

BASE_CONFIG = "base_config"
CONFIG_KEYS = ("base_model", BASE_CONFIG, *SECTIONS)
_BASE_PARAMS = "base_params"

Sections = Mapping[str, Mapping[str, Any]]


def base_path(name: Any, path: str, variants: Sequence[str]) -> str:
    """Returns the absolute path of a config's base.

    Args:
      name: value of ``base_config``: a path that is absolute, or relative to the folder of the config; or the name of
        a recipe, such as ``recipe:own-text``.
      path: the config that names the base.
      variants: the configs that are based on this one.

    Raises:
      ConfigError: the value is no path and names no recipe, or the config would be its own base.
    """
    if not isinstance(name, (str, os.PathLike)) or not os.fspath(name):
        raise ConfigError([f"In {path}, {BASE_CONFIG} is {shown(name)} but has to be the path of a config file."])
    text = os.fspath(name)
    where = find_recipe(text) if text.startswith(RECIPE) else os.path.expanduser(text)
    base = os.path.abspath(os.path.join(os.path.dirname(path), where))
    if os.path.realpath(base) in map(os.path.realpath, (path, *variants)):
        raise ConfigError([f"The {BASE_CONFIG} of {path}, {base}, is itself based on {path}: a config cannot be its "
                           f"own base, so name another one, or leave {BASE_CONFIG} out."])
    return base


def variables_in(names: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those names that a config passes on to its base: no keys, modules, classes, functions or ``_names``."""
    return {name: value for name, value in names.items() if name not in CONFIG_KEYS and not name.startswith("_")
            and not isinstance(value, ModuleType) and not callable(value)}


class Assigning(ast.NodeTransformer):
    """Gives variables that a module assigns at its top level, also below ``if``, other values.

    Args:
      names: the variables. The changed module reads their values from the global variable ``Assigning.VALUES``.
    """

    VALUES = "_open_seq2seq_variables"

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def generic_visit(self, node: ast.AST) -> Any:
        """Visits the statements of the module, and those below ``if``, ``with`` and ``try``."""
        inside = isinstance(node, (ast.Module, ast.If, ast.With, ast.Try, ast.ExceptHandler))
        return super().generic_visit(node) if inside else node

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[ast.stmt]:  # noqa: N802
        """Appends assignments of the other values."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        assigned = {name.id for target in targets for name in ast.walk(target)
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        lines = [f"{name} = {self.VALUES}[{name!r}]" for name in self._names if name in assigned]
        added = ast.parse("\n".join(lines)).body
        return [node, *(ast.fix_missing_locations(ast.copy_location(one, node)) for one in added)]

    visit_AnnAssign = visit_AugAssign = visit_Assign  # noqa: N815


def merge_sections(base: Sections, variant: Sections) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Merges the sections of a config into those of its base.

    In ``base_params`` of the variant, the value ``<drop>`` removes a key of the base. In another section it stays, and
    removes the key from the parameters of that mode.

    Args:
      base: the sections of the base; not changed.
      variant: the sections of the config that names the base; not changed.

    Returns:
      The merged sections, and the problems found, one sentence each.
    """
    merged = {name: copy_nested(section) for name, section in base.items()}
    common = variant.get(_BASE_PARAMS, {})
    problems = [f"'{_BASE_PARAMS}/{'/'.join(keys)}' cannot be dropped, because the {BASE_CONFIG} does not set it."
                for keys, text in strings_in(common) if text == DROP and not gives(base[_BASE_PARAMS], keys)]
    choices = {key.removesuffix(PARAMS) for section in (*base.values(), *variant.values()) for key in _keys(section)
               if key.endswith(PARAMS)}
    for name in (_BASE_PARAMS, *(name for name in variant if name != _BASE_PARAMS)):
        section = merged.setdefault(name, {})
        before = section if name == _BASE_PARAMS else merge_params(merged[_BASE_PARAMS], section)[0]
        for keys in list(_other_choices(before, variant.get(name, {}), choices)):
            _forget(section, keys[:-1], [keys[-1] + PARAMS])
            for other in merged.values() if name == _BASE_PARAMS else ():
                if other is not section:
                    _forget(other, keys[:-1], [keys[-1], keys[-1] + PARAMS])
        merged[name], conflicts = merge_params(section, variant.get(name, {}), name, keep_drops=name != _BASE_PARAMS)
        problems += conflicts
    return merged, problems


def _keys(params: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keys of nested dicts."""
    for key, value in params.items():
        yield key
        if isinstance(value, Mapping):
            yield from _keys(value)


def _other_choices(before: Mapping[str, Any], now: Mapping[str, Any], choices: set[str],
                   path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the paths of the classes and functions that differ, out of the keys ``choices``."""
    for key, value in now.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            yield from _other_choices(old, value, choices, (*path, key))
        elif key in choices and not _same_choice(old, value):
            yield (*path, key)


def _same_choice(old: Any, new: Any) -> bool:
    """Returns whether two values choose the same class or function; one may give it as an object, the other by name."""
    if isinstance(old, str) == isinstance(new, str):
        return same(old, new)
    first, second = (value.rpartition(":")[2].rpartition(".")[2] if isinstance(value, str)
                     else getattr(value, "__name__", None) for value in (old, new))
    return first == second


def _forget(params: Any, path: Sequence[str], names: Sequence[str]) -> None:
    """Removes names from the dict at a path, if there is one."""
    for key in path:
        params = params.get(key) if isinstance(params, Mapping) else None
    for name in names if isinstance(params, dict) else ():
        params.pop(name, None)
