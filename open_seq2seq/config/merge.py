"""Nested merging of a config's sections, and the inverse: the section that is the difference of two configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Any

# Far more than a config has. Functions that visit its values are recursive.
DEEPEST = 50
_MOST_VALUES = 1_000_000


def size_problem(value: Any) -> str:
    """Returns why a value cannot be part of a config, such as ``holds itself``, or an empty string.

    A value that occurs in several places counts in each, as in a copy.
    """
    level, count = [value], 0
    for _ in range(DEEPEST):
        level = list(islice(chain.from_iterable(map(_children, level)), _MOST_VALUES + 1 - count))
        count += len(level)
        if count > _MOST_VALUES:
            return f"stands for more than {_MOST_VALUES:,} values"
        if not level:
            return ""
    return f"holds itself, or is nested more than {DEEPEST} deep"


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if type(value) in (list, tuple) else ()


def copy_nested(value: Any) -> Any:
    """Copies dicts, lists and tuples at any depth; everything else stays the same object.

    Classes, functions, hooks and tensors of a config must not be deep-copied.
    """
    if isinstance(value, Mapping):
        return {key: copy_nested(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copy_nested(item) for item in value)
    return value


def merge_params(base: Mapping[str, Any], section: Mapping[str, Any],
                 path: str = "") -> tuple[dict[str, Any], list[str]]:
    """Merges a section over the base: dicts merge key by key, all other values replace.

    ``None`` may replace a dict, and a dict ``None``; any other change between a dict and
    something else is a mistake.

    Args:
      base: what holds for all modes; not changed.
      section: what one mode changes; not changed.
      path: the section's name, for messages: ``eval_params``.

    Returns:
      (merged params, problems: one sentence each).
    """
    merged: dict[str, Any] = copy_nested(base)
    problems: list[str] = []
    for key, value in section.items():
        here = f"{path}/{key}" if path else str(key)
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            merged[key], below = merge_params(old, value, here)
            problems += below
        elif old is not None and value is not None and isinstance(value, Mapping) != isinstance(old, Mapping):
            was, now = ("a dict", "not") if isinstance(old, Mapping) else ("no dict", "a dict")
            problems.append(f"'{here}' is {_short(value)} ({now}), but the value it would replace is "
                            f"{_short(old)} ({was}): make both dicts, or neither.")
        else:
            merged[key] = copy_nested(value)
    return merged, problems


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def same(a: Any, b: Any) -> bool:
    """Returns whether two config values are equal; arrays and other objects are equal only to themselves."""
    if a is b:
        return True
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (bool, int, float, str)) and type(a) is type(b):
        return a == b
    return False


def difference(base: Mapping[str, Any], merged: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the smallest section that ``merge_params(base, section)`` turns into ``merged``.

    A key that ``merged`` lacks becomes ``None``, by which a section switches something off.
    """
    section: dict[str, Any] = {}
    for key, value in merged.items():
        if key in base and same(base[key], value):
            continue
        if key in base and isinstance(base[key], Mapping) and isinstance(value, Mapping):
            section[key] = difference(base[key], value)
        else:
            section[key] = copy_nested(value)
    section.update({key: None for key in base if key not in merged and base[key] is not None})
    return section
