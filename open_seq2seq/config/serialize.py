"""Resolved parameters as YAML text that loads back: objects become the names that configs use for them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from open_seq2seq.config.loader import CONFIG_MODULE, sibling_modules
from open_seq2seq.config.yaml_text import dump_yaml

_PACKAGE = __name__.partition(".")[0]
_TF_PLACES = ("tf.nn", "tf.math", "tf", "tf.keras.activations", "tf.keras.initializers", "tf.keras.regularizers",
              "tf.keras.optimizers", "tf.keras.optimizers.schedules", "tf.keras.layers")


def to_plain(value: Any, config_path: str = "") -> Any:
    """Turns config values into dicts, lists, strings, numbers, booleans and None.

    Classes and functions become the names by which a config can give them: an exported
    name (``TransformerEncoder``), a public name of TensorFlow (``tf.nn.relu``),
    ``package.module.Name``, or ``path/to/file.py:Name`` for those defined in the config
    itself or beside it. A lambda has no name; its place in the file is written, to be read by people.

    Args:
      value: any config value.
      config_path: the file that ``CONFIG_MODULE`` stands for.
    """
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, np.generic):
        return to_plain(value.item(), config_path)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        return {to_plain(key): item for key, item in _plain_items(value, config_path)}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [to_plain(item, config_path) for item in items]
    if isinstance(value, (str, os.PathLike)):
        return str(os.fspath(value))
    if isinstance(value, functools.partial):
        return to_plain(value.func, config_path)
    return _name_of(value, config_path)


def _plain_items(params: Mapping[Any, Any], config_path: str) -> Iterator[tuple[Any, Any]]:
    """Splits ``initializer: GlorotUniform(seed=1)`` into the class's name and its ``initializer_params``."""
    split = {key: value for key, value in params.items()
             if not isinstance(value, type) and callable(getattr(value, "get_config", None))
             and not params.get(f"{key}_params")}
    for key, value in params.items():
        if key in split or (isinstance(value, type) and _is_kerases(key, value)):
            yield key, (type(value) if key in split else value).__name__
        elif not (isinstance(key, str) and key.removesuffix("_params") in split and key.endswith("_params")):
            yield key, to_plain(value, config_path)
        if key in split:
            settings = {k: v for k, v in value.get_config().items() if v is not None}
            yield f"{key}_params", to_plain(settings, config_path)


def _is_kerases(key: Any, value: type) -> bool:
    # Keras looks its initialisers and regularisers up by their bare names.
    return str(key).endswith(("initializer", "regularizer")) and value.__module__.startswith("keras.")


def _name_of(value: Any, config_path: str) -> str:
    if type(value).__name__ == "DType" and hasattr(value, "as_numpy_dtype"):
        return value.name
    if not hasattr(value, "__qualname__"):
        return _name_of(type(value), config_path)
    module, name = value.__module__ or "", value.__qualname__
    if module == CONFIG_MODULE or module in sibling_modules():
        file = config_path if module == CONFIG_MODULE else sys.modules[module].__file__
        if name == "<lambda>":
            return f"{file}:<lambda> (line {value.__code__.co_firstlineno})"
        return f"{file}:{name}"
    if module.partition(".")[0] == _PACKAGE:
        return _exported_name(value, module, name)
    return _tensorflow_name(value, name) or (name if module == "builtins" else f"{module}.{name}")


def _exported_name(value: Any, module: str, name: str) -> str:
    """The bare name when the package's room exports it: config strings are looked up there."""
    room = sys.modules.get(".".join(module.split(".")[:2]))
    return name if getattr(room, name, None) is value else f"{module}.{name}"


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


def to_yaml(sections: Mapping[str, Any], config_path: str = "") -> str:
    """Returns a config (``base_model``, ``base_params``, …) as YAML text that ``load_config`` reads back."""
    return dump_yaml(to_plain(sections, config_path))


def write_yaml(sections: Mapping[str, Any], path: str | os.PathLike[str], config_path: str = "") -> None:
    """Writes a config as YAML; a crash in between leaves the old file or none.

    Args:
      sections: as from ``ResolvedConfig.as_sections``.
      path: file to write.
      config_path: the config file that the sections came from.
    """
    path = os.fspath(path)
    temporary = f"{path}.tmp-{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(to_yaml(sections, config_path))
    os.replace(temporary, path)
