"""Code from outside the package: the only module that executes configs, and imports what they name.

A config that a user gives may name any code. A config in a logdir is data, because somebody else may have made it.
Within ``untrusted`` nothing outside the package is imported or executed, whichever function asks for it.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import re
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from open_seq2seq.utils.errors import ConfigError, UserError, did_you_mean

# Module names and files: of the configs executed so far, of what they imported from their own folders, and of the
# files that config values name, as in ``parts.py:MyEncoder``.
_configs: dict[str, str] = {}
_siblings: dict[str, str] = {}
_named: dict[str, str] = {}
# What has been executed, by file: a name means the same object as long as the file is not executed again.
_namespaces: dict[str, Mapping[str, Any]] = {}
# The configs that are data and in use now. A state of the process, because models are traced in threads too.
_data: list[str] = []


@contextmanager
def untrusted(config: str | None) -> Iterator[None]:
    """Within this context no code from outside the package is imported or executed, in any thread.

    Args:
      config: the config that is data, for messages; None for a trusted one, for which nothing changes.
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
    """Returns the config in use that is data; None if all code is trusted."""
    return _data[-1] if _data else None


def require_trust(what: str) -> None:
    """Raises ConfigError where code from outside the package must not run.

    Args:
      what: who asks for it: ``'encoder' is 'parts.py:MyEncoder'``.
    """
    config = untrusted_config()
    if config is not None:
        raise ConfigError([f"{what}, which is code from outside the package, but {config} lies in a logdir, which is "
                           "data: add --trust_code if you trust its author."])


def execute_config(path: str) -> dict[str, Any]:
    """Executes a config file, with the name ``tf`` ready for use; returns its names.

    Raises:
      ConfigError: it cannot be executed.
    """
    import tensorflow as tf

    require_trust(f"The config file is {path}")
    module = next((name for name, file in _configs.items() if file == path), f"open_seq2seq_config_{len(_configs)}")
    _configs[module] = path
    with _reported(path, f"The config file {path}"), _importable_siblings(os.path.dirname(path), _siblings):
        _namespaces[path] = runpy.run_path(path, init_globals={"tf": tf}, run_name=module)
    return dict(_namespaces[path])


def names_of_file(path: str, what: str) -> Mapping[str, Any]:
    """Executes a Python file that a config names, unless it has been executed before; returns its names.

    Args:
      path: of the file; ``~`` is the home folder.
      what: who asks for it, for messages.

    Raises:
      ConfigError: it does not exist, cannot be executed, or must not be.
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
    others = [name for name, file in _siblings.items() if os.path.dirname(file) != folder]
    module = _module_of_package(full, what, others) or _executed_module(full, what, others)
    _namespaces[full] = vars(module)
    return _namespaces[full]


def _module_of_package(path: str, what: str, others: list[str]) -> ModuleType | None:
    """Imports a file that belongs to a package, and may use relative imports; None for other files."""
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
    while _named.get(name, path) != path:  # another folder's file of that name
        name = f"{stem}_{len(_named)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    _named[name] = path
    module.tf = tf  # type: ignore[attr-defined]  # configs find it in their globals too
    sys.modules[name] = module  # dataclasses look there while a class is made
    try:
        with _reported(path, what), _importable_siblings(os.path.dirname(path), others):
            spec.loader.exec_module(module)  # type: ignore[union-attr]
    finally:
        sys.modules.pop(name, None)
    return module


def imported(dotted: str, what: str) -> Any:
    """Imports ``package.module`` and returns what ``package.module.Name`` names, ``Name`` with further dots included.

    Args:
      dotted: at least two identifiers with dots between them.
      what: who asks for it, for messages.

    Raises:
      ConfigError: there is no such module or name, the module fails, or code must not be imported.
    """
    require_trust(what)
    parts, what = dotted.split("."), f"{what}, which cannot be imported"
    module, depth = _innermost_module(parts, what)
    return attribute(module, ".".join(parts[:depth]), parts[depth:], what)


def _innermost_module(parts: list[str], what: str) -> tuple[ModuleType, int]:
    """Imports the leading parts that are packages and modules; returns the last one and their number."""
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
            if module is None or error.name != name:  # the second: an existing module lacks an import
                raise ConfigError([f"{what}: {error}."]) from error
            return module, depth - 1
    return module, len(parts) - 1


def attribute(found: Any, place: str, names: list[str], what: str) -> Any:
    """Looks names up one after the other, from an object or a mapping.

    Raises:
      ConfigError: a name is missing; ``what`` begins the sentence.
    """
    for name in names:
        try:
            found = found[name] if isinstance(found, Mapping) else getattr(found, name)
        except (KeyError, AttributeError):
            known = [n for n in (found if isinstance(found, Mapping) else dir(found)) if not n.startswith("_")]
            raise ConfigError([f"{what}: {place} has no {name}." + did_you_mean(name, known)]) from None
        place = f"{place}.{name}"
    return found


@contextmanager
def _reported(path: str, what: str,
              passed: tuple[type[BaseException], ...] = (UserError, KeyboardInterrupt)) -> Iterator[None]:
    """Turns an error of executed code into a ConfigError of one sentence."""
    try:
        yield
    except passed:
        raise
    except SyntaxError as error:
        place = f"{error.filename or path}{f', line {error.lineno}' if error.lineno else ''}"
        raise ConfigError([f"{_begin(path, what)}{place}: {error.msg}."]) from error
    except SystemExit as error:
        raise ConfigError([f"{what} ended the program with sys.exit({error.code!r})."]) from error
    except BaseException as error:
        said = f"{_begin(path, what)}{_where(path, error)}{describe_error(error)}.{_hint(error)}"
        raise ConfigError([said]) from error


def describe_error(error: BaseException) -> str:
    """Returns an error as Python shows it, ``ValueError: text``; its class may be the config's own."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return type(error).__name__ + (f": {text}" if text else "")


def _begin(path: str, what: str) -> str:
    """Returns the beginning of a sentence; empty if the place in the config file follows."""
    return "" if path and what.endswith(path) else f"{what}, but " if path else f"{what}: "


def _where(path: str, error: BaseException) -> str:
    """Returns the innermost line in the file, or in one beside it, that the error passed through."""
    folder = os.path.dirname(path)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if path and os.path.dirname(f.filename) == folder]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else f"{path}: " if path else ""


def _hint(error: BaseException) -> str:
    text = str(error) if isinstance(error, ImportError) else ""
    wanted = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", text)
    if wanted:
        return did_you_mean(wanted[1], dir(sys.modules.get(wanted[2])))
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType) and error.obj.__name__ == "tensorflow":
        return (" This is a name of TensorFlow 1: initialisers are in tf.keras.initializers, regularisers in "
                "tf.keras.regularizers, and the toolkit's own classes can be given by name.")
    if isinstance(error, NameError) and error.name:
        return did_you_mean(error.name, dir(builtins))
    return ""


@contextmanager
def _importable_siblings(folder: str, forgotten: Mapping[str, str] | list[str]) -> Iterator[None]:
    """Lets code import files beside it, as a script can.

    Args:
      folder: of the file that is executed.
      forgotten: names of modules to import again, because another config may have a file of the same name. A file that
        a config names shares modules with the config beside it.
    """
    for name in forgotten:
        sys.modules.pop(name, None)
    before, places = set(sys.modules), list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if not isinstance(sys.path, list):
            sys.path = []
        if folder in sys.path:
            sys.path.remove(folder)
        # At the end of the path the folder still serves later imports, inside functions. Entries that the code
        # removed are put back, because the toolkit's own imports need them.
        sys.path.extend(place for place in dict.fromkeys((*places, folder)) if place not in sys.path)
        new = set(sys.modules) - before - set(_named)
        _siblings.update({name: str(sys.modules[name].__file__) for name in new if _lies_in(name, folder)})


def _lies_in(name: str, folder: str) -> bool:
    top = name.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None or top == __name__.partition(".")[0]:
        return False
    place = os.path.dirname(os.path.abspath(file))
    return folder == (os.path.dirname(place) if os.path.basename(file) == "__init__.py" else place)


def source_file(module: str) -> str | None:
    """Returns the file of a module that is a config, lies beside one, or is named in one; None for others.

    Args:
      module: ``__module__`` of a class or function.
    """
    return _configs.get(module) or _siblings.get(module) or _named.get(module)
