"""Reads config files: Python modules, or YAML files that define the same names."""

from __future__ import annotations

import ast
import difflib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from open_seq2seq.config.base_config import BASE_CONFIG, CONFIG_KEYS, base_path, merge_sections, variables_in
from open_seq2seq.config.data_note import note_in
from open_seq2seq.config.merge import size_problem
from open_seq2seq.config.old_names import USED
from open_seq2seq.config.overrides import SECTIONS
from open_seq2seq.config.params import shown
from open_seq2seq.config.user_code import describe_error, execute_config, untrusted
from open_seq2seq.config.yaml_text import describe_yaml_error, load_yaml
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, did_you_mean
from open_seq2seq.utils.shipped import path_here

_WHOLE_KEYS = tuple(key for key in CONFIG_KEYS if key != BASE_CONFIG)  # of a config without a base
_MOST_BYTES = 1 << 22  # maximum size of a config file
# Files that the toolkit writes next to a config: the first in each checkpoint, the second in a folder with a batch on
# which training diverged.
_WRITTEN_BESIDE = ("state.json", "event.json")
# Subfolders of a logdir that contain checkpoints; "" is the logdir itself.
_CHECKPOINTS_IN = ("", "logs", "best_models", "averaged_models")
# Modules that define no config keys: a config that imports only these contains all its keys in its own text.
_WITHOUT_KEYS = {"__future__", "math", "numpy", "open_seq2seq", "os", "pathlib", "tensorflow", "typing"}
_YAML = (".yaml", ".yml")
_COPIES = re.compile(r"config_\d{4}-\d\d-\d\d_")  # folders that --enable_logs makes


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
      base_files: the files that the config is based on, the nearest first; see ``config.base_config``.
      old_names: names of TensorFlow 1 and of NVIDIA's OpenSeq2Seq in these files; see ``config.old_names``.
    """

    path: str
    base_model: Any
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    trusted: bool = True
    checkpoint: str | None = None
    data_note: str = ""
    base_files: tuple[str, ...] = ()
    old_names: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The config and the files that it is based on."""
        return tuple(filter(None, (self.path, *self.base_files)))

    def in_use(self) -> AbstractContextManager[None]:
        """Returns the context manager within which the config's names must be resolved; see ``user_code.untrusted``."""
        return untrusted(None if self.trusted else next(filter(lies_in_logdir, self.files), self.path))


def load_config(path: str | os.PathLike[str], trusted: bool | None = None) -> ConfigFile:
    """Reads a config file and the files that it is based on.

    Args:
      path: a ``.py`` file, which is executed with the name ``tf`` predefined, or a ``.yaml``/``.yml`` file, which is
        only parsed.
      trusted: whether the config may name code from outside the package; if False, a ``.py`` file is refused. By
        default, every file is trusted except YAML files in logdirs.

    Raises:
      ConfigError: the file does not exist, cannot be read or executed, or lacks something required.
    """
    return _load(_absolute(path), trusted, (), {})


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def _load(path: str, trusted: bool | None, variants: Sequence[str], variables: Mapping[str, Any]) -> ConfigFile:
    """Reads a config file.

    Args:
      path: the file's absolute path.
      trusted: see ``load_config``.
      variants: the configs that are based on this one; the last one names it.
      variables: variables that the variants assign.
    """
    check_exists(path, variants)
    if path.endswith(_YAML):
        names = _read_yaml(path)
        trusted_here = not lies_in_logdir(path) if trusted is None else trusted
    else:
        with untrusted(path if trusted is False else None):
            names = execute_config(path, variables if variants else None)
        _warn_of_misspellings(path, names, variables, variants)
        trusted_here = True
    base = None
    if (name := names.get(BASE_CONFIG)) is not None:
        if not trusted_here:
            raise ConfigError([f"{path} names a {BASE_CONFIG}, but a config in a logdir must not read other files: "
                               "add --trust_code if you trust the author of the config."])
        base = _load(base_path(name, path, variants), trusted, (*variants, path), {**variables_in(names), **variables})
    config = _config_file(path, names, base, variants)
    config.trusted = trusted_here and (base is None or base.trusted)
    config.old_names = (*names.get(USED, ()), *(() if base is None else base.old_names))
    return config


def config_of_values(values: Mapping[str, Any]) -> ConfigFile:
    """Returns the config in a dict with the keys ``base_model``, ``base_params`` and, if needed, the other sections.

    Raises:
      ConfigError: a key is unknown, or a required one is missing.
    """
    config = _config_file("the config", _checked_keys(values, "The config", _WHOLE_KEYS))
    config.path = ""
    return config


def _subject(path: str, variants: Sequence[str]) -> str:
    """Returns the beginning of a sentence about a config file."""
    return f"The {BASE_CONFIG} of {variants[-1]}, {path}," if variants else f"The config file {path}"


def lies_in_logdir(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file is in a checkpoint, next to checkpoints, or next to a batch saved after a divergence.

    The same is true for the copies that ``--enable_logs`` makes of a config and its bases, in a folder of the logdir.
    """
    folders = {os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))}
    folders |= {str(part.parent) for folder in folders for part in (Path(folder), *Path(folder).parents)
                if _COPIES.match(part.name)}
    return any(os.path.lexists(os.path.join(folder, name)) for folder in folders for name in _WRITTEN_BESIDE) or any(
        _holds_checkpoints(os.path.join(folder, name)) for folder in folders for name in _CHECKPOINTS_IN)


def _holds_checkpoints(folder: str) -> bool:
    try:
        return any(os.path.lexists(os.path.join(folder, name, _WRITTEN_BESIDE[0])) for name in os.listdir(folder))
    except OSError:
        return False


def check_exists(path: str | os.PathLike[str], variants: Sequence[str] = ()) -> None:
    """Raises ConfigError if a config file does not exist, is not a regular file, is too large, or has another ending.

    TensorFlow is not imported, so that a wrong path is reported at once.

    Args:
      path: the file.
      variants: the configs that are based on it, for messages.
    """
    path = _absolute(path)
    subject = _subject(path, variants)
    if os.path.isfile(path):
        if os.path.getsize(path) > _MOST_BYTES:
            raise ConfigError([f"{subject} has more than {_MOST_BYTES:,} bytes, the limit for configs: check that it "
                               "is the right file."])
        if not path.endswith((".py", *_YAML)):
            hint = (": the JSON of version 0.2 of NVIDIA's OpenSeq2Seq describes other models, so begin with a recipe "
                    "of example_configs") if path.endswith(".json") else ""
            raise ConfigError([f"{subject} has to end in .py, .yaml or .yml{hint}."])
        return
    what = ("is a folder, not a file" if os.path.isdir(path) else "is not a regular file" if os.path.exists(path)
            else "is a broken symbolic link" if os.path.islink(path) else "does not exist")
    folder, name = os.path.split(path)
    others = os.listdir(folder) if os.path.isdir(folder) and not os.path.lexists(path) else []
    raise ConfigError([f"{subject} {what}." + did_you_mean(name, others)])


def possible_keys(path: str | os.PathLike[str]) -> set[str] | None:
    """Returns all words in a config file and its bases, without executing them or importing TensorFlow.

    Returns:
      The words, which include every key of the config; None if keys may come from another file, or if a file cannot be
      read or parsed.

    Raises:
      ConfigError: a base does not exist, or a config is its own base.
    """
    words: set[str] | None = set()
    variants: list[str] = []
    file: str | None = _absolute(path)
    while file is not None:
        words_here, name = _words_and_base(file)
        words = None if words is None or words_here is None else words | words_here
        base = None if name is None else base_path(name, file, variants)
        variants.append(file)
        if base is not None:
            check_exists(base, variants)
        file = base
    return words


def _words_and_base(path: str) -> tuple[set[str] | None, Any]:
    """Returns the words of a file, or None, and its ``base_config`` if that is a constant; see ``possible_keys``."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(_YAML):
            names = load_yaml(text)
            return set(re.findall(r"\w+", text)), names.get(BASE_CONFIG) if isinstance(names, dict) else None
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, yaml.YAMLError):
        return None, None
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    bases = [node.value for node in tree.body if isinstance(node, ast.Assign)
             and ast.unparse(node.targets[0]) == BASE_CONFIG]
    mentioned = sum(isinstance(node, ast.Name) and node.id == BASE_CONFIG for node in ast.walk(tree))
    constants = [base.value for base in bases if isinstance(base, ast.Constant)]
    if len(constants) != mentioned or mentioned > 1:
        return None, None
    is_whole = {name.partition(".")[0] for name in imported} <= _WITHOUT_KEYS
    return set(re.findall(r"\w+", text)) if is_whole else None, constants[0] if constants else None


def _config_file(path: str, names: Mapping[str, Any], base: ConfigFile | None = None,
                 variants: Sequence[str] = ()) -> ConfigFile:
    """Returns the config that a file defines together with its base.

    Args:
      path: the file.
      names: the names that the file defines.
      base: the config that it is based on.
      variants: the configs that are based on it, for messages.
    """
    subject = _subject(path, variants) if variants else path
    base_model = names.get("base_model")
    lacks_params = names.get("base_params") is None and base is None
    if variants and lacks_params and base_model is None:
        raise ConfigError([f"{subject} is not a config: it defines neither base_model nor base_params."])
    problems: list[str] = []
    if base_model is None and base is None:
        problems.append(f"{subject} defines no base_model: name a model class, as in base_model = Text2Text.")
    elif not isinstance(base_model, (type, str, type(None))):
        problems.append(f"In {path}, base_model is {base_model!r} but has to be a model class or its name.")
    if lacks_params:
        problems.append(f"{subject} defines no base_params: add a dict of the parameters that all modes share.")
    sections, found = _sections(names)
    if base is not None and not found:
        sections, found = merge_sections(base.sections, sections)
    problems += [f"In {path}, {problem}" for problem in found]
    if problems:
        raise ConfigError(problems)
    note = note_in(str(names.get("__doc__") or ""))
    if base is None:
        return ConfigFile(path, base_model, sections, data_note=note)
    return ConfigFile(path, base.base_model if base_model is None else base_model, sections,
                      data_note=note or base.data_note, base_files=base.files)


def _sections(names: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns copies of the sections that a file defines, and the problems found."""
    sections: dict[str, dict[str, Any]] = {}
    problems = []
    for name in SECTIONS:
        section = names.get(name)
        if section is None:
            continue
        if isinstance(section, Mapping):
            sections[name], problem = _copied(section)
        else:
            problem = f"is of type {type(section).__name__} but has to be a dict"
        problems += [f"{name} {problem}."] if problem else []
    return sections, problems


def _copied(section: Mapping[Any, Any]) -> tuple[dict[str, Any], str]:
    """Returns a copy of a section in which all mappings are dicts, and what is wrong with the section, or ""."""
    from open_seq2seq.config.lambdas import name_lambdas  # imports NumPy: mistakes found before need not wait

    try:
        wrong = [key for key in section if not isinstance(key, str)]
        if wrong:
            return {}, f"has the key {shown(wrong[0])}, but keys must be strings"
        if problem := size_problem(section):
            return {}, problem
        return name_lambdas(_with_files_found(section)), ""
    except Exception as error:  # raised by a mapping class that the config defines
        return {}, f"cannot be read: {describe_error(error)}"


def _with_files_found(value: Any) -> Any:
    """Returns ``copy_nested(value)``, in which files of recipes have the paths that they have here."""
    if isinstance(value, Mapping):
        return {key: _with_files_found(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_with_files_found, value))
    return path_here(value) if isinstance(value, str) else value


def _read_yaml(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"The config file {path} cannot be read: {error}."]) from error
    return _names_in(text, path, CONFIG_KEYS)


def parse_config(text: str, path: str) -> ConfigFile:
    """Returns the config in a YAML text, which must be whole, without resolving names.

    Args:
      text: a config in the form that ``serialize.to_yaml`` returns.
      path: the file that the text comes from, for messages.

    Raises:
      ConfigError: the text is not valid YAML or lacks something required.
    """
    return _config_file(path, _names_in(text, path, _WHOLE_KEYS))


def _names_in(text: str, path: str, known: Sequence[str]) -> dict[str, Any]:
    try:
        names = load_yaml(text)
    except yaml.YAMLError as error:
        line, problem = describe_yaml_error(error)
        raise ConfigError([f"{path}{f', line {line}' if line else ''} is not valid YAML: {problem}."]) from error
    if not isinstance(names, dict):
        raise ConfigError([f"{path} has to be a mapping with the keys base_model and base_params."])
    comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return {**_checked_keys(names, path, known),
            "__doc__": "\n".join(line.removeprefix("#").removeprefix(" ") for line in comment)}


def _checked_keys(names: Mapping[str, Any], path: str, known: Sequence[str]) -> Mapping[str, Any]:
    unknown = [key for key in names if key not in known]
    if unknown:
        raise ConfigError([f"{path} has the unknown key '{key}': the known keys are {', '.join(known)}."
                           + did_you_mean(str(key), known) for key in unknown])
    return names


def _warn_of_misspellings(path: str, names: Mapping[str, Any], variables: Mapping[str, Any],
                          variants: Sequence[str]) -> None:
    """Warns of names that resemble a section, and of variables of variants that occur there only once.

    Such a variable resembles one of this file, or is a key of its ``base_params``.
    """
    missing = [name for name in (BASE_CONFIG, *SECTIONS) if name not in names]
    for name, value in names.items():
        if isinstance(value, (dict, str)) and not name.startswith("_") and name not in CONFIG_KEYS:
            for meant in difflib.get_close_matches(name, missing, n=1, cutoff=0.9):
                deco_print(f"WARNING: {path} defines '{name}', which is not used. Did you mean '{meant}'?")
    others = set(variables_in(names)) - set(variables)
    for name in set(variables) - set(names):
        similar = difflib.get_close_matches(name, others, n=1, cutoff=0.85)
        if not similar and isinstance(params := names.get("base_params"), dict) and name in params:
            similar = [f'base_params = {{"{name}": …}}']
        texts = {file: Path(file).read_text(encoding="utf-8", errors="replace") for file in variants if similar}
        files = [file for file, text in texts.items() for word in re.findall(r"\w+", text) if word == name]
        if len(files) == 1:
            deco_print(f"WARNING: {files[0]} assigns '{name}', which is not used. Did you mean '{similar[0]}'?")
