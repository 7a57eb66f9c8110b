"""Writes resolved parameters as YAML that can be loaded again; objects are written as the names that configs use."""

from __future__ import annotations

import enum
import functools
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from open_seq2seq.config.names import in_package, part_class
from open_seq2seq.config.params import shown
from open_seq2seq.config.user_code import source_file
from open_seq2seq.config.yaml_text import dump_yaml
from open_seq2seq.utils.errors import ConfigError

_PACKAGE = __name__.partition(".")[0]
# Endings of the keys whose objects are written as a class and arguments.
_OBJECTS = ("initializer", "regularizer")
_TF_PLACES = ("tf.nn", "tf.math", "tf", "tf.keras.activations", "tf.keras.initializers", "tf.keras.regularizers",
              "tf.keras.optimizers", "tf.keras.optimizers.schedules", "tf.keras.layers", "tf.keras.ops",
              "tf.compat.v1", "tf.compat.v1.initializers")


def to_plain(value: Any) -> Any:
    """Converts config values to dicts, lists, strings, numbers, booleans and None.

    Classes and functions are replaced by names that a config can use: an exported name (``TransformerEncoder``), a
    public TensorFlow name (``tf.nn.relu``), ``package.module.Name``, or ``path/to/file.py:Name`` for objects defined
    in the config, or in a file that it names or imports from its folder. A lambda has no name; its file and line are
    written, for human readers only. A ``functools.partial`` is replaced by the name of its function, and any other
    object by the name of its class. The arguments of a partial or an object are lost, unless the object is an
    initialiser or regulariser with the method ``get_config``; training refuses the others (``unwritable``).
    """
    return _plain(value, "", [])


def unwritable(sections: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each value of a config that would be lost if the config were written, such as a lambda.

    Args:
      sections: ``base_model``, ``base_params``, …, as ``ResolvedConfig.as_sections`` returns them.
    """
    problems: list[str] = []
    for name, section in sections.items():
        if isinstance(section, Mapping):  # hooks and trackers are not a part of the model
            section = {key: value for key, value in section.items() if key not in ("hooks", "trackers")}
        _plain(section, "" if isinstance(section, Mapping) else name, problems)
    return list(dict.fromkeys(problems))


def complete_yaml(sections: Mapping[str, Any]) -> str:
    """Returns a config as YAML text, from which nothing is lost; see ``unwritable`` for ``sections``.

    Raises:
      ConfigError: a value cannot be written.
    """
    if lost := unwritable(sections):
        raise ConfigError(lost)
    return to_yaml(sections)


def _plain(value: Any, path: str, problems: list[str]) -> Any:
    """Returns ``to_plain(value)``, and adds a sentence to ``problems`` for each value that cannot be read back."""
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, path, problems)
    if isinstance(value, np.generic):
        return _plain(value.item(), path, problems)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        return {_plain(key, path, problems): item for key, item in _plain_items(value, path, problems)}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [_plain(item, f"{path}/{number}", problems) for number, item in enumerate(items)]
    if isinstance(value, (str, os.PathLike)):
        return str(os.fspath(value))
    if lost := _what_is_lost(value):
        problems.append(f"'{path}' is {lost}.")
    return _name_of(value.func if isinstance(value, functools.partial) else value)


def _plain_items(params: Mapping[Any, Any], path: str, problems: list[str]) -> Iterator[tuple[Any, Any]]:
    """Yields the pairs (key, plain value) of a dict.

    An object with ``get_config`` is divided into its class and its arguments: ``initializer: GlorotUniform(seed=1)``
    becomes ``initializer: GlorotUniform`` and ``initializer_params: {seed: 1}``.
    """
    split = {key: arguments for key, value in params.items() if str(key).endswith(_OBJECTS)
             and not params.get(f"{key}_params") and (arguments := _arguments_of(value)) is not None}
    for key, value in params.items():
        below = f"{path}/{key}" if path else str(key)
        kind = type(value) if key in split else value
        if isinstance(kind, type) and str(key).endswith(_OBJECTS) and kind.__module__.startswith("keras."):
            yield key, kind.__name__  # Keras finds its initialisers and regularisers by their bare names
        elif key in split or not (isinstance(key, str) and key.endswith("_params")
                                  and key.removesuffix("_params") in split):
            yield key, _plain(kind, below, problems)
        if key in split:
            settings = {k: _without_generator(v) for k, v in split[key].items() if v is not None}
            yield f"{key}_params", _plain(settings, f"{below}_params", problems)


def _arguments_of(value: Any) -> Mapping[str, Any] | None:
    """Returns the arguments of an initialiser or regulariser; None for other values, and objects that lack them."""
    try:
        return None if isinstance(value, type) else value.get_config()
    except Exception:  # there is no such method, or it is that of the base class, or a user's
        return None


def _what_is_lost(value: Any) -> str:
    """Returns what a class, function or object is, and how to replace it, if it is not found by its name; else ""."""
    if type(value).__name__ == "DType":
        return ""
    advice = "give a function or class that is defined at the top level of a file"
    if isinstance(value, functools.partial):
        return f"a functools.partial, whose arguments are not saved with the checkpoints: {advice}"
    if not hasattr(value, "__qualname__"):
        return (f"an object of the class {type(value).__name__}, whose state is not saved with the checkpoints: give "
                "its class, with the arguments in a parameter if there is one, or a function")
    name = _name_of(value)
    if in_package(value) and "<" not in name:
        return ""
    resolved = None if "<" in name else part_class(name, "")
    what = "a lambda" if value.__qualname__ == "<lambda>" else shown(value.__qualname__)
    return "" if resolved is value else f"{what}, which cannot be found by name in the config of a checkpoint: {advice}"


def _without_generator(value: Any) -> Any:
    """Returns the seed if the value is a serialized Keras ``SeedGenerator`` (a dict), otherwise the value itself."""
    if isinstance(value, Mapping) and value.get("class_name") == "SeedGenerator":
        return value.get("config", {}).get("seed")
    return value


def _name_of(value: Any) -> str:
    if type(value).__name__ == "DType" and hasattr(value, "as_numpy_dtype"):
        return value.name
    if not hasattr(value, "__qualname__"):
        return _name_of(type(value))
    module, name = value.__module__ or "", value.__qualname__
    file = source_file(module)
    if file is not None:
        if name == "<lambda>":
            return f"{file}:<lambda> (line {value.__code__.co_firstlineno})"
        return f"{file}:{name}"
    if module.partition(".")[0] == _PACKAGE:
        room = sys.modules.get(".".join(module.split(".")[:2]))
        # Configs can use either name; the bare one is that of an object that its package exports.
        return name if getattr(room, name, None) is value else f"{module}.{name}"
    return _tensorflow_name(value, name) or (name if module == "builtins" else f"{module}.{name}")


def _tensorflow_name(value: Any, name: str) -> str | None:
    tf = sys.modules.get("tensorflow")
    origin = (getattr(value, "__module__", "") or "").partition(".")[0]
    if tf is None or origin not in ("tensorflow", "keras"):
        return None
    for place in _TF_PLACES:
        module: Any = tf
        for part in place.split(".")[1:]:
            module = getattr(module, part, None)
        if getattr(module, name, None) is value:
            return f"{place}.{name}"
        names = [n for n, member in vars(module).items() if member is value] if inspect.ismodule(module) else []
        if names:
            return f"{place}.{min(names, key=len)}"
    return None


def to_yaml(value: Any) -> str:
    """Returns a config, or any part of one, as YAML text; ``load_config`` can read the text of a whole config."""
    return dump_yaml(to_plain(value))
