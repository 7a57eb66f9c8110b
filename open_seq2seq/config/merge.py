"""Recursive merging of a config's sections, and the inverse: the section that turns one config into another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Any

DEEPEST = 50
"""Maximum number of levels of nesting, far more than a real config needs; functions visit the levels recursively."""
DROP = "<drop>"
"""Value that removes a key: in a section, a key of ``base_params``; on the command line, any key of the config."""
_MOST_VALUES = 1_000_000  # far more than a real config needs


def size_problem(value: Any) -> str:
    """Returns why a value is too large for a config, as the end of a sentence, or an empty string.

    A value that occurs in several places is counted once for each place, as in a copy.
    """
    level, count = [value], 0
    for _ in range(DEEPEST):
        level = list(islice(chain.from_iterable(map(_children, level)), _MOST_VALUES + 1 - count))
        count += len(level)
        if count > _MOST_VALUES:
            return f"expands to more than {_MOST_VALUES:,} values"
        if not level:
            return ""
    return f"contains itself or has more than {DEEPEST} levels of nesting"


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if type(value) in (list, tuple) else ()


def copy_nested(value: Any) -> Any:
    """Copies dicts, lists and tuples recursively; all other values are shared with the original.

    A config's classes, functions, hooks and tensors must not be deep-copied.
    """
    if isinstance(value, Mapping):
        return {key: copy_nested(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copy_nested(item) for item in value)
    return value


def merge_params(base: Mapping[str, Any], section: Mapping[str, Any], path: str = "",
                 keep_drops: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Merges a section into the base: dicts are merged key by key, all other values replace those of the base.

    The value ``<drop>`` removes a key. ``None`` may replace a dict, and a dict may replace ``None``; any other change
    from a dict to another type, or from another type to a dict, is reported as a problem.

    Args:
      base: the parameters that all modes share; not changed.
      section: the parameters that one mode changes; not changed.
      path: the section's name, such as ``eval_params``, for messages.
      keep_drops: whether ``<drop>`` becomes the key's value instead of removing the key.

    Returns:
      The merged parameters, and the problems found, one sentence each.
    """
    merged: dict[str, Any] = copy_nested(base)
    problems: list[str] = []
    for key, value in section.items():
        here = f"{path}/{key}" if path else str(key)
        old = None if _drops(merged.get(key)) else merged.get(key)
        if _drops(value) and not keep_drops:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and (old is None or isinstance(old, Mapping)):
            merged[key], below = merge_params(old or {}, value, here, keep_drops)
            problems += below
        elif (old is not None and value is not None and not _drops(value)
              and isinstance(value, Mapping) != isinstance(old, Mapping)):
            was, now = ("a dict", "not a dict") if isinstance(old, Mapping) else ("not a dict", "a dict")
            problems.append(f"'{here}' is {_short(value)} ({now}), but the value that it replaces is "
                            f"{_short(old)} ({was}): make both of them dicts, or neither.")
        else:
            merged[key] = copy_nested(value)
    return merged, problems


def _drops(value: Any) -> bool:
    return isinstance(value, str) and value == DROP


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def same(a: Any, b: Any) -> bool:
    """Returns whether two config values are equal; arrays and other objects are compared by identity."""
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
    """Returns the smallest ``section`` for which ``merge_params(base, section)`` returns ``merged``."""
    section: dict[str, Any] = {}
    for key, value in merged.items():
        if key in base and same(base[key], value):
            continue
        if key in base and isinstance(base[key], Mapping) and isinstance(value, Mapping):
            section[key] = difference(base[key], value)
        else:
            section[key] = copy_nested(value)
    section.update({key: DROP for key in base if key not in merged})
    return section
