"""Reading config files: a Python module, or YAML with the same names."""

from __future__ import annotations

import builtins
import difflib
import os
import re
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import yaml

from open_seq2seq.config.overrides import SECTIONS
from open_seq2seq.config.yaml_text import describe_yaml_error, load_yaml
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, UserError, did_you_mean

_MOST_CHARACTERS = 1 << 22
# Module names and files of the configs executed so far, and of what they imported from their own folders.
_configs: dict[str, str] = {}
_siblings: dict[str, str] = {}
# And of the files that config values name, as in ``parts.py:MyEncoder``.
_named: dict[str, str] = {}


@dataclass
class ConfigFile:
    """A config as its author wrote it.

    Attributes:
      path: the file's absolute path.
      base_model: a model class, or its name.
      sections: ``base_params`` and those of ``train_params``, ``eval_params``,
        ``infer_params``, ``interactive_infer_params`` that are there.
    """

    path: str
    base_model: Any
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)


def load_config(path: str | os.PathLike[str]) -> ConfigFile:
    """Reads a config file.

    Args:
      path: ``.py`` (executed, with the name ``tf`` ready for use) or ``.yaml``/``.yml`` (only read).

    Raises:
      ConfigError: no such file, not readable, or something is missing in it.
    """
    path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    check_exists(path)
    if path.endswith((".yaml", ".yml")):
        names = _read_yaml(path)
    elif path.endswith(".py"):
        names = _execute(path)
    else:
        raise ConfigError([f"The config file {path} has to end in .py, .yaml or .yml."])
    return _config_file(path, names)


def check_exists(path: str | os.PathLike[str]) -> None:
    """Raises ConfigError when there is no such config file; needs no TensorFlow."""
    path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if os.path.isfile(path):
        return
    what = "is a folder, not a file" if os.path.isdir(path) else "does not exist"
    folder, name = os.path.split(path)
    others = os.listdir(folder) if os.path.isdir(folder) else []
    raise ConfigError([f"The config file {path} {what}." + did_you_mean(name, others)])


def _config_file(path: str, names: Mapping[str, Any]) -> ConfigFile:
    problems: list[str] = []
    base_model = names.get("base_model")
    if base_model is None:
        problems.append(f"{path} defines no base_model: name a model class, as in base_model = Text2Text.")
    elif not isinstance(base_model, (type, str)):
        problems.append(f"In {path} base_model is {base_model!r} but has to be a model class or its name.")
    if names.get("base_params") is None:
        problems.append(f"{path} defines no base_params: a dict of the parameters that all modes share.")
    sections = {}
    for name in SECTIONS:
        section = names.get(name)
        if section is None:
            continue
        if isinstance(section, Mapping):
            sections[name] = dict(section)
        else:
            problems.append(f"In {path} {name} is of type {type(section).__name__} but has to be a dict.")
    if problems:
        raise ConfigError(problems)
    return ConfigFile(path, base_model, sections)


def _read_yaml(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_CHARACTERS + 1)
        if len(text) > _MOST_CHARACTERS:
            raise ConfigError([f"The config file {path} has more than {_MOST_CHARACTERS:,} characters."])
        names = load_yaml(text)
    except yaml.YAMLError as error:
        line, problem = describe_yaml_error(error)
        raise ConfigError([f"{path}{f', line {line}' if line else ''}: not valid YAML: {problem}."]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"The config file {path} cannot be read: {error}."]) from error
    if not isinstance(names, dict):
        raise ConfigError([f"{path} has to be a mapping with the keys base_model and base_params."])
    known = ("base_model", *SECTIONS)
    unknown = [key for key in names if key not in known]
    if unknown:
        raise ConfigError([f"{path} has the unknown key '{key}': known are {', '.join(known)}."
                           + did_you_mean(str(key), known) for key in unknown])
    return names


def _execute(path: str) -> dict[str, Any]:
    import tensorflow as tf

    module = next((name for name, file in _configs.items() if file == path), f"open_seq2seq_config_{len(_configs)}")
    _configs[module] = path
    try:
        with _importable_siblings(os.path.dirname(path)):
            names = runpy.run_path(path, init_globals={"tf": tf}, run_name=module)
    except UserError:
        raise
    except SyntaxError as error:
        raise ConfigError([f"{error.filename or path}, line {error.lineno}: {error.msg}."]) from error
    except SystemExit as error:
        raise ConfigError([f"The config file {path} ended the program with sys.exit({error.code!r})."]) from error
    except Exception as error:
        raise ConfigError([f"{_where(path, error)}: {type(error).__name__}: {error}.{_hint(error)}"]) from error
    _warn_of_misspelt_sections(path, names)
    return names


def _where(path: str, error: Exception) -> str:
    """The innermost line of the config or of a file beside it that the error passed through."""
    folder = os.path.dirname(path)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.dirname(f.filename) == folder]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else path


def _hint(error: Exception) -> str:
    wanted = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
    if wanted:
        return did_you_mean(wanted[1], dir(sys.modules.get(wanted[2])))
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType) and error.obj.__name__ == "tensorflow":
        return (" This is a name of TensorFlow 1: initialisers are in tf.keras.initializers, regularisers in "
                "tf.keras.regularizers, and the toolkit's own classes can be given by name.")
    if isinstance(error, NameError) and error.name:
        return did_you_mean(error.name, dir(builtins))
    return ""


@contextmanager
def _importable_siblings(folder: str) -> Iterator[None]:
    """Lets a config import files beside it, as a script could.

    Another config's file of the same name must not be taken for this one's, so such
    modules are forgotten when the next config is loaded.
    """
    for name in _siblings:
        sys.modules.pop(name, None)
    before = set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        # Behind everything else it still serves imports that run later, inside functions.
        if folder not in sys.path:
            sys.path.append(folder)
        new = set(sys.modules) - before
        _siblings.update({name: str(sys.modules[name].__file__) for name in new if _lies_in(name, folder)})


def _lies_in(name: str, folder: str) -> bool:
    top = name.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None or top == __name__.partition(".")[0]:
        return False
    place = os.path.dirname(os.path.abspath(file))
    return folder == (os.path.dirname(place) if os.path.basename(file) == "__init__.py" else place)


def config_source(module: str) -> str | None:
    """Returns the file of a module that is a config, lies beside one, or is named in one; None for all others.

    Args:
      module: ``__module__`` of a class or function.
    """
    return _configs.get(module) or _siblings.get(module) or _named.get(module)


def note_source(module: str, path: str | os.PathLike[str]) -> None:
    """Notes the file of a module that a config value names, so that a written config can name it too."""
    _named[module] = os.path.abspath(path)


def _warn_of_misspelt_sections(path: str, names: Mapping[str, Any]) -> None:
    missing = [name for name in SECTIONS if name not in names]
    for name, value in names.items():
        if isinstance(value, dict) and not name.startswith("_") and name not in SECTIONS:
            meant = difflib.get_close_matches(name, missing, n=1, cutoff=0.9)
            if meant:
                deco_print(f"WARNING: {path} defines '{name}', which is not used. Did you mean '{meant[0]}'?")
