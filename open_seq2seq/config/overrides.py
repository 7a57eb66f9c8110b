"""Values that replace those of a config: ``--lr_policy_params/learning_rate=1e-3``, or a dict in Python."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    """A value that replaces one of the config.

    Attributes:
      section: the section that the value is for, such as ``eval_params``; None for all sections.
      keys: path of the parameter below the section.
      value: the value.
      text: the value as typed on the command line; None for a value from Python.
    """

    section: str | None
    keys: tuple[str, ...]
    value: Any
    text: str | None = None

    @classmethod
    def at(cls, path: Sequence[str], value: Any, text: str | None = None) -> Override:
        """Returns the override of the value at a path, which may begin with a section; see the attributes."""
        section, keys = (path[0], tuple(path[1:])) if path[0] in SECTIONS else (None, tuple(path))
        # A value given for base_params applies to every section.
        return cls(None if section == "base_params" else section, keys, value, text)

    @property
    def name(self) -> str:
        """The path, such as ``eval_params/max_length``, with dashes in front if it was typed."""
        path = "/".join((self.section, *self.keys) if self.section else self.keys)
        return path if self.text is None else f"--{path}"


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


def _typed_like(override: Override, old: Any) -> Any:
    """Returns a value converted to the type of the value it replaces, if the conversion is unambiguous.

    A typed number or bool that replaces a string stays text; ``1`` becomes True if it replaces a bool, and ``1e5`` an
    int if it replaces an int. All other values are converted later, when they are checked against the declared type.
    """
    value = override.value
    if override.text is not None and isinstance(old, str) and value is not None and not isinstance(
            value, (str, list, dict)):
        return override.text
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
        path, value = name[2:].split("/"), parse_value(text)
        if path[-1] in ("logdir", "load_model") and not isinstance(value, (str, list, type(None))):
            value = text  # folders may be called 2024
        if len(path) > DEEPEST:
            problems.append(f"'{name}' has {len(path):,} levels, but a config may have at most {DEEPEST}.")
        elif not all(path):
            problems.append(f"'{name}' has an empty part: write --key/subkey=value.")
        elif not (override := Override.at(path, value, text)).keys:
            problems.append(f"'{name}' names a whole section: write {name}/key=value.")
        else:
            overrides.append(override)
    if problems:
        raise ConfigError(problems)
    return overrides


def overrides_of(values: Mapping[str, Any]) -> list[Override]:
    """Returns the overrides for values from Python.

    Args:
      values: values by path, such as ``{"decoder_params/beam_size": 4}``; a dict as value changes only the parameters
        that it has. A path may begin with a section, such as ``eval_params``.

    Raises:
      ConfigError: a path is not a path of parameters.
    """
    overrides = []
    for path, value in values.items():
        override = Override.at(path.split("/") if isinstance(path, str) else [""], value)
        if not override.keys or not all(override.keys):
            raise ConfigError([f"{path!r} is not the path of a parameter: write 'key' or 'key/subkey'."])
        overrides.append(override)
    return overrides


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and len(argument) > 1 and not _NUMBER.match(argument)


def check_words(overrides: Iterable[Override], keys_of_config: Callable[[], Collection[str] | None],
                words: Collection[str]) -> None:
    """Raises ConfigError if a value such as ``--output_file=x`` is not a key of the config and resembles an option.

    Args:
      overrides: the values of the command line.
      keys_of_config: returns the keys of the config, or None if they are unknown; called if a name resembles an option.
      words: the options.
    """
    problems = {}
    for override in overrides:
        if override.text is not None and override.name not in words and len(override.keys) == 1:
            # With this cutoff, no name of a parameter of the package's models resembles an option.
            for word in difflib.get_close_matches(override.name, words, n=1, cutoff=0.75):
                problems[override.keys[0]] = (f"'{override.name}' is neither a flag nor a key of the config. Did you "
                                              f"mean '{word}'?")
    keys = keys_of_config() if problems else None
    if keys is not None and (unknown := [problem for key, problem in problems.items() if key not in keys]):
        raise ConfigError(unknown)


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
      overrides: the values in the order given; if a key is given twice, the last value wins, even if it is for all
        sections and the other for one.
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
    if isinstance(override.value, str) and override.value == DROP:
        return _drop(place, override)
    old = place.get(key)
    value = _typed_like(override, old)
    if problem := size_problem(value):
        return f"'{override.name}' {problem}."
    if isinstance(old, dict) and value is not None and not isinstance(value, Mapping):
        typed = value if override.text is None else override.text
        return (f"'{override.name}' is {typed!r}, but the parameter is a dict: "
                f"give {override.name}/key=value, or {override.name}='{{key: value}}'.")
    if isinstance(old, dict) and isinstance(value, Mapping):
        place[key], problems = merge_params(old, value, override.name)
        return problems[0] if problems else None
    place[key] = copy_nested(value)
    return None
