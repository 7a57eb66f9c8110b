"""Reads config files: Python modules, or YAML files that define the same names."""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import yaml

from open_seq2seq.config.data_note import comment_in, note_in
from open_seq2seq.config.merge import copy_nested, size_problem
from open_seq2seq.config.overrides import SECTIONS
from open_seq2seq.config.params import shown
from open_seq2seq.config.user_code import describe_error, execute_config, untrusted
from open_seq2seq.config.yaml_text import describe_yaml_error, load_yaml
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, did_you_mean

_MOST_BYTES = 1 << 22  # maximum size of a config file
# Files that the toolkit writes next to a config: the first in each checkpoint, the second in a folder with a batch on
# which training diverged.
_WRITTEN_BESIDE = ("state.json", "event.json")
# Subfolders of a logdir that contain checkpoints; "" is the logdir itself.
_CHECKPOINTS_IN = ("", "logs", "best_models", "averaged_models")
# Modules that define no config keys: a config that imports only these contains all its keys in its own text.
_WITHOUT_KEYS = {"__future__", "math", "numpy", "open_seq2seq", "os", "pathlib", "tensorflow", "typing"}


@dataclass
class ConfigFile:
    """A config as its author wrote it.

    Attributes:
      path: the file's absolute path; "" for a config from Python.
      base_model: a model class, or its name.
      sections: ``base_params``, and ``train_params``, ``eval_params``, ``infer_params`` and
        ``interactive_infer_params`` if the file has them.
      trusted: whether the config may name code from outside the package.
      checkpoint: folder of the checkpoint that the config belongs to; None for a file that the user named.
      data_note: where the data come from; see ``config.data_note``.
    """

    path: str
    base_model: Any
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    trusted: bool = True
    checkpoint: str | None = None
    data_note: str = ""

    def in_use(self) -> AbstractContextManager[None]:
        """Returns the context manager within which the config's names must be resolved; see ``user_code.untrusted``."""
        return untrusted(None if self.trusted else self.path)


def load_config(path: str | os.PathLike[str], trusted: bool | None = None) -> ConfigFile:
    """Reads a config file.

    Args:
      path: a ``.py`` file, which is executed with the name ``tf`` predefined, or a ``.yaml``/``.yml`` file, which is
        only parsed.
      trusted: whether the config may name code from outside the package; if False, a ``.py`` file is refused. By
        default, every file is trusted except YAML files in logdirs.

    Raises:
      ConfigError: the file does not exist, cannot be read or executed, or lacks something required.
    """
    path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    check_exists(path)
    if path.endswith((".yaml", ".yml")):
        names = _read_yaml(path)
        trusted = not lies_in_logdir(path) if trusted is None else trusted
    elif path.endswith(".py"):
        with untrusted(path if trusted is False else None):
            names = execute_config(path)
        _warn_of_misspelt_sections(path, names)
        trusted = True
    else:
        raise ConfigError([f"The name of the config file {path} has to end in .py, .yaml or .yml."])
    config = _config_file(path, names)
    config.trusted = trusted
    return config


def config_of_values(values: Mapping[str, Any]) -> ConfigFile:
    """Returns the config in a dict with the keys ``base_model``, ``base_params`` and, if needed, the other sections.

    Raises:
      ConfigError: a key is unknown, or a required one is missing.
    """
    config = _config_file("the config", _checked_keys(values, "The config"))
    config.path = ""
    return config


def lies_in_logdir(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file is in a checkpoint, next to checkpoints, or next to a batch saved after a divergence."""
    folders = {os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))}
    return any(os.path.lexists(os.path.join(folder, name)) for folder in folders for name in _WRITTEN_BESIDE) or any(
        _holds_checkpoints(os.path.join(folder, name)) for folder in folders for name in _CHECKPOINTS_IN)


def _holds_checkpoints(folder: str) -> bool:
    try:
        return any(os.path.lexists(os.path.join(folder, name, _WRITTEN_BESIDE[0])) for name in os.listdir(folder))
    except OSError:
        return False


def check_exists(path: str | os.PathLike[str]) -> None:
    """Raises ConfigError if a config file does not exist, is not a regular file, or is too large.

    TensorFlow is not imported, so that a wrong path is reported at once.
    """
    path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if os.path.isfile(path):
        if os.path.getsize(path) > _MOST_BYTES:
            raise ConfigError([f"The config file {path} has more than {_MOST_BYTES:,} bytes, the limit for configs: "
                               "check that it is the right file."])
        return
    what = ("is a folder, not a file" if os.path.isdir(path) else "is not a regular file" if os.path.exists(path)
            else "is a broken symbolic link" if os.path.islink(path) else "does not exist")
    folder, name = os.path.split(path)
    others = os.listdir(folder) if os.path.isdir(folder) and not os.path.lexists(path) else []
    raise ConfigError([f"The config file {path} {what}." + did_you_mean(name, others)])


def possible_keys(path: str | os.PathLike[str]) -> set[str] | None:
    """Returns all words in a config file, without executing it or importing TensorFlow.

    Returns:
      The words, which include every key of the config; None if keys may come from another file, or if the file cannot
      be read or parsed.
    """
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            text = file.read()
        tree = ast.parse("" if os.fspath(path).endswith((".yaml", ".yml")) else text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if {name.partition(".")[0] for name in imported} <= _WITHOUT_KEYS:
        return set(re.findall(r"\w+", text))
    return None


def _config_file(path: str, names: Mapping[str, Any]) -> ConfigFile:
    problems: list[str] = []
    where = path[:1].upper() + path[1:]
    base_model = names.get("base_model")
    if base_model is None:
        problems.append(f"{where} defines no base_model: name a model class, as in base_model = Text2Text.")
    elif not isinstance(base_model, (type, str)):
        problems.append(f"In {path}, base_model is {base_model!r} but has to be a model class or its name.")
    if names.get("base_params") is None:
        problems.append(f"{where} defines no base_params: add a dict of the parameters that all modes share.")
    sections = {}
    for name in SECTIONS:
        section = names.get(name)
        if section is None:
            continue
        if isinstance(section, Mapping):
            sections[name], problem = _copied(section)
        else:
            problem = f"is of type {type(section).__name__} but has to be a dict"
        problems += [f"In {path}, {name} {problem}."] if problem else []
    if problems:
        raise ConfigError(problems)
    return ConfigFile(path, base_model, sections, data_note=note_in(str(names.get("__doc__") or "")))


def _copied(section: Mapping[Any, Any]) -> tuple[dict[str, Any], str]:
    """Returns a copy of a section in which all mappings are dicts, and what is wrong with the section, or ""."""
    try:
        wrong = [key for key in section if not isinstance(key, str)]
        if wrong:
            return {}, f"has the key {shown(wrong[0])}, but keys must be strings"
        if problem := size_problem(section):
            return {}, problem
        return copy_nested(section), ""
    except Exception as error:  # raised by a mapping class that the config defines
        return {}, f"cannot be read: {describe_error(error)}"


def _read_yaml(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"The config file {path} cannot be read: {error}."]) from error
    return _names_in(text, path)


def parse_config(text: str, path: str) -> ConfigFile:
    """Returns the config in a YAML text, without resolving names.

    Args:
      text: a config in the form that ``serialize.to_yaml`` returns.
      path: the file that the text comes from, for messages.

    Raises:
      ConfigError: the text is not valid YAML or lacks something required.
    """
    return _config_file(path, _names_in(text, path))


def _names_in(text: str, path: str) -> dict[str, Any]:
    try:
        names = load_yaml(text)
    except yaml.YAMLError as error:
        line, problem = describe_yaml_error(error)
        raise ConfigError([f"{path}{f', line {line}' if line else ''} is not valid YAML: {problem}."]) from error
    if not isinstance(names, dict):
        raise ConfigError([f"{path} has to be a mapping with the keys base_model and base_params."])
    return {**_checked_keys(names, path), "__doc__": comment_in(text)}


def _checked_keys(names: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    known = ("base_model", *SECTIONS)
    unknown = [key for key in names if key not in known]
    if unknown:
        raise ConfigError([f"{path} has the unknown key '{key}': the known keys are {', '.join(known)}."
                           + did_you_mean(str(key), known) for key in unknown])
    return names


def _warn_of_misspelt_sections(path: str, names: Mapping[str, Any]) -> None:
    missing = [name for name in SECTIONS if name not in names]
    for name, value in names.items():
        if isinstance(value, dict) and not name.startswith("_") and name not in SECTIONS:
            meant = difflib.get_close_matches(name, missing, n=1, cutoff=0.9)
            if meant:
                deco_print(f"WARNING: {path} defines '{name}', which is not used. Did you mean '{meant[0]}'?")
