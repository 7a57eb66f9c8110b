"""Config values given on the command line: ``--lr_policy_params/learning_rate=1e-3``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from open_seq2seq.config.merge import DEEPEST, DROP, copy_nested, merge_params, size_problem
from open_seq2seq.config.yaml_text import load_yaml_value
from open_seq2seq.utils.errors import ConfigError, did_you_mean

SECTIONS = ("base_params", "train_params", "eval_params", "infer_params", "interactive_infer_params")

_WORDS = {"true": True, "false": False, "none": None, "null": None, "~": None}
_CONFIG_ENDINGS = (".py", ".yaml", ".yml")
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?$")


@dataclass(frozen=True)
class Override:
    """A config value given on the command line.

    Attributes:
      section: the section that the value is for, such as ``eval_params``; None for all sections.
      keys: path of the parameter below the section.
      text: the value as typed.
    """

    section: str | None
    keys: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        """The option without its value, such as ``--eval_params/max_length``."""
        return "--" + "/".join((self.section, *self.keys) if self.section else self.keys)


def parse_value(text: str) -> Any:
    """Parses a Python literal, a YAML word such as ``null``, or a YAML list or dict; any other text is a string.

    A tuple becomes a list.

    >>> [parse_value(t) for t in ("1e-3", "true", "None", "[1, 2]", "{a: 1}", "'7'", "x/y.txt")]
    [0.001, True, None, [1, 2], {'a': 1}, '7', 'x/y.txt']
    """
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        return _WORDS[stripped.lower()]
    if not stripped or not (stripped[0] in "[{(\"'" or _NUMBER.match(stripped)):
        return text
    try:
        value = ast.literal_eval(stripped)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        if stripped[0] not in "[{":
            return text
        return load_yaml_value(stripped, default=text)
    return list(value) if isinstance(value, tuple) else value


def typed_like(text: str, old: Any) -> Any:
    """Parses a value and converts it to the type of the value it replaces, if the conversion is unambiguous.

    A number or bool that replaces a string stays text; ``1`` becomes True if it replaces a bool, and ``1e5`` an int if
    it replaces an int. All other values are converted later, when they are checked against the declared type.
    """
    value = parse_value(text)
    if isinstance(old, str) and value is not None and not isinstance(value, (str, list, dict)):
        return text
    if isinstance(old, bool) and type(value) is int and value in (0, 1):
        return bool(value)
    if type(old) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def parse_overrides(arguments: Sequence[str], flags: Iterable[str] = ()) -> list[Override]:
    """Parses those arguments of the command that are not flags: config values.

    Args:
      arguments: ``--a/b=value``, or ``--a/b`` followed by ``value``.
      flags: the command's own flags, such as ``--mode``, for suggestions.

    Raises:
      ConfigError: some arguments have another form; the error lists all of them.
    """
    problems: list[str] = []
    overrides: list[Override] = []
    flags = list(flags)
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        index += 1
        name, equals, text = argument.partition("=")
        if not name.startswith("--") or len(name) < 3:
            hint = f" Did you mean --config_file={argument}?" if argument.endswith(_CONFIG_ENDINGS) else ""
            problems.append(f"The argument '{argument}' is not understood: "
                            f"config values are given as --key/subkey=value.{hint}")
            continue
        if not equals:
            if index == len(arguments) or _is_option(arguments[index]):
                problems.append(f"'{name}' needs a value: {name}=value." + did_you_mean(name, flags))
                continue
            text = arguments[index]
            index += 1
        keys = tuple(name[2:].split("/"))
        section = keys[0] if keys[0] in SECTIONS else None
        below = keys[1:] if section else keys
        if len(keys) > DEEPEST:
            problems.append(f"'{name}' has {len(keys):,} levels, but a config may have at most {DEEPEST}.")
        elif not all(keys):
            problems.append(f"'{name}' has an empty part: write --key/subkey=value.")
        elif not below:
            problems.append(f"'{name}' names a whole section: write {name}/key=value.")
        else:
            # A value given for base_params applies to every section.
            overrides.append(Override(None if section == "base_params" else section, below, text))
    if problems:
        raise ConfigError(problems)
    return overrides


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and len(argument) > 1 and not _NUMBER.match(argument)


def gives(params: Any, keys: Sequence[str]) -> bool:
    """Returns whether nested dicts have an entry at a path."""
    for key in keys:
        if not isinstance(params, Mapping) or key not in params:
            return False
        params = params[key]
    return True


def apply_overrides(params: Mapping[str, Any], overrides: Iterable[Override],
                    sections: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Sets the values from the command line in the merged parameters of a mode.

    Args:
      params: merged parameters; not changed.
      overrides: the values in the order given; if a key is given twice, the last value wins.
      sections: the sections that the parameters come from; overrides for other sections are ignored.

    Returns:
      The new parameters, and the problems found, one sentence each.
    """
    result: dict[str, Any] = copy_nested(params)
    names = set(sections)
    problems = []
    for override in overrides:
        if override.section is None or override.section in names:
            problem = _set(result, override)
            problems += [problem] if problem else []
    return result, problems


def _drop(place: dict[str, Any], override: Override) -> str | None:
    key = override.keys[-1]
    if key not in place:
        return f"'{override.name}' cannot be dropped, because the config does not set it.{did_you_mean(key, place)}"
    del place[key]
    return None


def _set(params: dict[str, Any], override: Override) -> str | None:
    place = params
    for depth, key in enumerate(override.keys[:-1]):
        if place.get(key) is None:
            place[key] = {}
        if not isinstance(place[key], dict):
            path = "/".join(override.keys[:depth + 1])
            return (f"'{override.name}' cannot be set, because '{path}' is {place[key]!r}, not a dict: "
                    f"give --{path}=value instead.")
        place = place[key]
    key = override.keys[-1]
    if override.text == DROP:
        return _drop(place, override)
    old = place.get(key)
    value = typed_like(override.text, old)
    if problem := size_problem(value):
        return f"'{override.name}' {problem}."
    if isinstance(old, dict) and value is not None and not isinstance(value, dict):
        return (f"'{override.name}' is {override.text!r}, but the parameter is a dict: "
                f"give {override.name}/key=value, or {override.name}='{{key: value}}'.")
    if isinstance(old, dict) and isinstance(value, dict):
        place[key], problems = merge_params(old, value, override.name)
        return problems[0] if problems else None
    place[key] = value
    return None
