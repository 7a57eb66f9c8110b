"""Executes configs and imports the code that they name; no other module runs code from outside the package.

A config that the user gives is trusted and may name any code. A config in a logdir may come from somebody else and is
treated as data. Within ``untrusted``, no code from outside the package is imported or executed.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from open_seq2seq.config import old_names
from open_seq2seq.config.base_config import Assigning
from open_seq2seq.utils.errors import ConfigError, UserError, did_you_mean

# Files by module name: the configs executed so far; the modules that configs and files in ``_named`` imported from
# their own folders; and the files that config values name, as in ``parts.py:MyEncoder``.
_configs: dict[str, str] = {}
_siblings: dict[str, str] = {}
_named: dict[str, str] = {}
# Globals of each executed file, by path, so that a name refers to the same object until the file is executed again.
_namespaces: dict[str, Mapping[str, Any]] = {}
loading = threading.RLock()
"""Held while a model is loaded for use from Python. Threads load one after the other, because what is imported, which
code may run (``untrusted``) and TensorFlow's settings are states of the process."""

# The untrusted configs in use. This is global, not thread-local, because models are also traced in other threads.
_data: list[str] = []


@contextmanager
def untrusted(config: str | None) -> Iterator[None]:
    """Context manager within which no thread imports or executes code from outside the package.

    Args:
      config: path of the untrusted config, for messages; None for a trusted config, for which nothing changes.
    """
    if config is None:
        yield
        return
    _data.append(config)
    try:
        yield
    finally:
        _data.remove(config)


def untrusted_config() -> str | None:
    """Returns the path of the untrusted config in use; None if all code is trusted."""
    return _data[-1] if _data else None


def require_trust(what: str, code: str = "code from outside the package") -> None:
    """Raises ConfigError if an untrusted config is in use, so that code from outside the package must not run.

    Args:
      what: the config entry that requires the code, as the start of a sentence: ``'encoder' is 'parts.py:MyEncoder'``.
      code: what the code is, for the message.
    """
    config = untrusted_config()
    if config is not None:
        raise ConfigError([f"{what}, which is {code}. The config {config} is in a logdir and must not run such code: "
                           "add --trust_code if you trust the author of the config."])


def execute_config(path: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Executes a config file, with the name ``tf`` predefined, and returns its globals.

    Args:
      path: the file.
      variables: None for the file that the user names. For a base of this file, the values of variables that replace
        those that it assigns; the base shares the modules that the file has imported from the same folder.

    Raises:
      ConfigError: the file cannot be executed, or must not be executed.
    """
    import tensorflow as tf

    require_trust(f"The config file is {path}")
    name = next((name for name, file in _configs.items() if file == path), f"open_seq2seq_config_{len(_configs)}")
    _configs[name] = path
    folder = os.path.dirname(path)
    forgotten = list(_siblings) if variables is None else _siblings_elsewhere(folder)
    module = ModuleType(name)
    vars(module).update({"__file__": path, "tf": tf, Assigning.VALUES: variables, old_names.REFUSE: old_names.refuse})
    with _reported(path, f"The config file {path}"), _importable_siblings(folder, forgotten):
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
        vars(module)[old_names.USED] = old_names.rename_in(tree, path)
        if variables:
            tree = Assigning(list(variables)).visit(tree)
        sys.modules[name] = module  # where the dataclass decorator looks up the module of a class
        try:
            exec(compile(tree, path, "exec", dont_inherit=True), vars(module))
        finally:
            sys.modules.pop(name, None)
    _namespaces[path] = vars(module)
    return dict(_namespaces[path])


def _siblings_elsewhere(folder: str) -> list[str]:
    """Returns the names of modules that configs and files that they name have imported from other folders."""
    return [name for name, file in _siblings.items() if os.path.dirname(file) != folder]


def names_of_file(path: str, what: str) -> Mapping[str, Any]:
    """Executes a Python file that a config names, unless it has been executed before, and returns its globals.

    Args:
      path: the file; ``~`` is expanded to the home folder.
      what: the config entry that names the file, as the start of a sentence, for messages.

    Raises:
      ConfigError: the file does not exist, cannot be executed, or must not be executed.
    """
    require_trust(what)
    full = os.path.abspath(os.path.expanduser(path))
    if full in _namespaces:
        return _namespaces[full]
    for name, file in _siblings.items():
        if file == full and name in sys.modules:
            return vars(sys.modules[name])
    if not os.path.isfile(full):
        folder, name = os.path.split(full)
        others = os.listdir(folder) if os.path.isdir(folder) else []
        raise ConfigError([f"{what}, but the file {path} does not exist." + did_you_mean(name, others)])
    folder = os.path.dirname(full)
    # Modules from the same folder stay imported, so that the file shares them with a config in that folder.
    others = _siblings_elsewhere(folder)
    module = _module_of_package(full, what, others) or _executed_module(full, what, others)
    _namespaces[full] = vars(module)
    return _namespaces[full]


def _module_of_package(path: str, what: str, others: list[str]) -> ModuleType | None:
    """Imports a file that belongs to a package, so that its relative imports work; returns None for other files."""
    root, names = os.path.dirname(path), [os.path.splitext(os.path.basename(path))[0]]
    while os.path.isfile(os.path.join(root, "__init__.py")):
        names.insert(0, os.path.basename(root))
        root = os.path.dirname(root)
    known = sys.modules.get(names[0])
    if len(names) == 1 or not all(name.isidentifier() for name in names) or (
            known is not None and os.path.join(root, names[0]) not in getattr(known, "__path__", ())):
        return None
    with _reported(path, what), _importable_siblings(os.path.dirname(path), others), _importable_siblings(root, []):
        module = importlib.import_module(".".join(names))
    return module if os.path.abspath(str(module.__file__)) == path else None


def _executed_module(path: str, what: str, others: list[str]) -> ModuleType:
    import tensorflow as tf

    stem = name = "open_seq2seq_user_" + os.path.splitext(os.path.basename(path))[0]
    while _named.get(name, path) != path:  # a file of the same name in another folder
        name = f"{stem}_{len(_named)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    _named[name] = path
    module.tf = tf  # type: ignore[attr-defined]  # predefined, as in configs
    sys.modules[name] = module  # where the dataclass decorator looks up the module of a class
    try:
        with _reported(path, what), _importable_siblings(os.path.dirname(path), others):
            spec.loader.exec_module(module)  # type: ignore[union-attr]
    finally:
        sys.modules.pop(name, None)
    return module


def imported(dotted: str, what: str) -> Any:
    """Imports ``package.module`` and returns the object ``package.module.Name``; ``Name`` may contain further dots.

    Args:
      dotted: at least two identifiers, separated by dots.
      what: the config entry that gives the name, as the start of a sentence, for messages.

    Raises:
      ConfigError: the module or name does not exist, the import fails, or code must not be imported.
    """
    require_trust(what)
    parts, what = dotted.split("."), f"{what}, which cannot be imported"
    module, depth = _innermost_module(parts, what)
    return attribute(module, ".".join(parts[:depth]), parts[depth:], what)


def _innermost_module(parts: list[str], what: str) -> tuple[ModuleType, int]:
    """Imports the leading parts that are packages and modules; returns the last module and the number of such parts."""
    module: Any = None
    for depth in range(1, len(parts)):
        inner = getattr(module, parts[depth - 1], None)
        if inner is not None and not isinstance(inner, ModuleType):
            return module, depth - 1
        name = ".".join(parts[:depth])
        try:
            with _reported("", what, (UserError, KeyboardInterrupt, ModuleNotFoundError)):
                module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if module is None or error.name != name:  # not found, or found but one of its own imports is missing
                raise ConfigError([f"{what}: {error}."]) from error
            return module, depth - 1
    return module, len(parts) - 1


def attribute(found: Any, place: str, names: list[str], what: str) -> Any:
    """Looks up a chain of names, such as ``["Outer", "Inner"]``, starting from an object or mapping.

    Args:
      found: the object or mapping to start from.
      place: name of ``found``, for messages.
      names: the names, outermost first.
      what: start of the error message.

    Raises:
      ConfigError: a name does not exist.
    """
    for name in names:
        try:
            found = found[name] if isinstance(found, Mapping) else getattr(found, name)
        except (KeyError, AttributeError):
            names_inside = [n for n in (found if isinstance(found, Mapping) else dir(found)) if not n.startswith("_")]
            raise ConfigError([f"{what}: {place} has no {name}." + did_you_mean(name, names_inside)]) from None
        place = f"{place}.{name}"
    return found


@contextmanager
def _reported(path: str, what: str,
              passed: tuple[type[BaseException], ...] = (UserError, KeyboardInterrupt)) -> Iterator[None]:
    """Context manager that converts exceptions, except those of the types ``passed``, to a ConfigError.

    Args:
      path: the executed file; "" if a module is imported by name.
      what: start of the message.
      passed: types of exceptions that are raised unchanged.
    """
    try:
        yield
    except passed:
        raise
    except SyntaxError as error:
        place = f"{error.filename or path}{f', line {error.lineno}' if error.lineno else ''}"
        raise ConfigError([f"{_begin(path, what)}{place}: {error.msg}."]) from error
    except SystemExit as error:
        raise ConfigError([f"{what}: its code ended the program with sys.exit({error.code!r}), "
                           "which must be removed."]) from error
    except BaseException as error:
        said = f"{_begin(path, what)}{_where(path, error)}{describe_error(error)}.{_hint(error)}"
        raise ConfigError([said]) from error


def describe_error(error: BaseException) -> str:
    """Returns an error as ``ValueError: text``, even if its class comes from the config and its ``str`` fails."""
    try:
        text = f"there is no key {error}" if type(error) is KeyError and error.args else str(error)
    except Exception:
        text = ""
    return type(error).__name__ + (f": {text}" if text else "")


def _begin(path: str, what: str) -> str:
    """Returns the start of an error message, or "" if the message will start with file and line."""
    return "" if path and what.endswith(path) else f"{what}, but " if path else f"{what}: "


def _where(path: str, error: BaseException) -> str:
    """Returns file and line of the innermost traceback frame that is in the file or in another file of its folder."""
    folder = os.path.dirname(path)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if path and os.path.dirname(f.filename) == folder]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else f"{path}: " if path else ""


def _hint(error: BaseException) -> str:
    text = str(error) if isinstance(error, ImportError) else ""
    wanted = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", text)
    if wanted:
        return did_you_mean(wanted[1], dir(sys.modules.get(wanted[2])))
    if port := old_names.port_of(error):
        return f" {port}"
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith(f"{__name__.partition('.')[0]}."):
        return (" This package has no such module: if it is one of a fork, put its file beside the config, and import "
                "it without the name of the package.")
    if isinstance(error, NameError) and error.name:
        return did_you_mean(error.name, dir(builtins))
    return ""


@contextmanager
def _importable_siblings(folder: str, forgotten: list[str]) -> Iterator[None]:
    """Context manager within which the executed file can import modules from its own folder, as a script can.

    Args:
      folder: folder of the executed file.
      forgotten: names of modules to remove from ``sys.modules`` first, so that files of the same name in ``folder`` are
        imported instead.
    """
    for name in forgotten:
        sys.modules.pop(name, None)
    before, search_path = set(sys.modules), list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if not isinstance(sys.path, list):
            sys.path = []
        if folder in sys.path:
            sys.path.remove(folder)
        # The folder is moved to the end of sys.path, where imports inside functions can still find it later. Entries
        # that the code removed are restored, because the toolkit's own imports need them.
        sys.path.extend(place for place in dict.fromkeys((*search_path, folder)) if place not in sys.path)
        new = set(sys.modules) - before - set(_named)
        _siblings.update({name: str(sys.modules[name].__file__) for name in new if _lies_in(name, folder)})


def _lies_in(name: str, folder: str) -> bool:
    """Returns whether the top-level package or module of a module is directly in a folder; False for this package."""
    top = name.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None or top == __name__.partition(".")[0]:
        return False
    place = os.path.dirname(os.path.abspath(file))
    return folder == (os.path.dirname(place) if os.path.basename(file) == "__init__.py" else place)


def source_file(module: str) -> str | None:
    """Returns the file of a module that is a config, was imported from a config's folder, or is named in a config.

    Args:
      module: ``__module__`` of a class or function.

    Returns:
      The path; None for all other modules.
    """
    return _configs.get(module) or _siblings.get(module) or _named.get(module)
