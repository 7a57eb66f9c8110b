"""Resolves names that a config gives as strings: components, optimizers, policies, hooks, initialisers and others.

A string is an exported name (``TransformerEncoder``), ``package.module.Name``, ``path/to/file.py:Name``, or
``package:Name`` of a plugin. Every name has a *kind*, such as ``encoder``. Packages ``register`` their exported objects
under a kind, a parameter declares the kind of its strings with ``Param(names="encoder")``, and ``resolve_name`` looks
the object up and checks its kind.

Plugins are entry points of installed packages, in the group ``open_seq2seq.plugins``. A config gives the name of their
package, too, so that the name cannot be taken for one of this package or of another plugin, and a message about a
missing plugin can say what to install.

Registered names refer to objects of this package, TensorFlow or Keras, and can always be resolved. All other names
refer to code that has to be imported or executed, which ``user_code`` refuses while an untrusted config is in use.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from open_seq2seq.config.params import Param, declared_by
from open_seq2seq.config.user_code import attribute, imported, names_of_file, require_trust, untrusted_config
from open_seq2seq.utils.errors import ConfigError, did_you_mean

Catalogue = Callable[[], Mapping[str, Any]]
"""Function that returns the registered objects by name."""

_PACKAGE = __name__.partition(".")[0]
_IDENTIFIERS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_IN_FILE = re.compile(r"([^\x00-\x1f]+\.py):(.*)", re.DOTALL)
# Prefixes that configs may use for names of TensorFlow, and the prefixes under which those names are looked up.
_SPELLINGS = (("tensorflow.", "tf."), ("keras.", "tf.keras."))
GROUP = "open_seq2seq.plugins"
"""The group of entry points: name in configs = ``package.module:Name``."""
PLUGIN = re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?):([^\W\d]\w*)", re.ASCII)
"""A name of a plugin: (name of the package that is installed, name of the entry point)."""


@dataclass
class Kind:
    """The objects that strings of one kind can name.

    Attributes:
      noun: name of the kind in messages, such as ``encoder``.
      base: base class of the objects; None if they need not be subclasses of one class.
      fits: returns whether an object is of this kind; after ``register(base=…)``, whether it is a subclass of ``base``.
      wanted: what an object must be, for messages: ``a subclass of Encoder``.
      catalogues: functions that return the registered objects by name.
    """

    noun: str
    base: type | None = None
    fits: Callable[[Any], bool] = callable
    wanted: str = "a function"
    catalogues: list[Catalogue] = field(default_factory=list)
    _read: dict[Catalogue, dict[str, Any]] = field(default_factory=dict)

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yields one dict per catalogue, with the objects under all of their names.

        For example, ``Adam`` and ``open_seq2seq.optimizers.adaptive.Adam`` name the same object.
        """
        for catalogue in self.catalogues:
            if catalogue not in self._read:  # lazy, because a catalogue may import Keras
                names: dict[str, Any] = {}
                for name, value in catalogue().items():
                    if self.fits(value):
                        names[name] = value
                        if in_package(value):
                            names[f"{value.__module__}.{value.__qualname__}"] = value
                self._read[catalogue] = names
            yield self._read[catalogue]

    def nearest(self, name: str) -> str:
        """Returns ``" Did you mean 'Adam'?"`` if a registered name is similar, else ``""``."""
        spellings = [one for names in self.entries() for one in names if "." not in one or one.startswith("tf.")]
        same = [one for one in spellings if one.lower() == name.lower()]
        return f" Did you mean '{same[0]}'?" if same else did_you_mean(name, spellings)


_KINDS: dict[str, Kind] = {}


def register(kind: str, catalogue: Catalogue | None = None, *, base: type | None = None,
             fits: Callable[[Any], bool] | None = None, wanted: str = "") -> None:
    """Declares a kind of name, or adds names to an existing kind.

    Args:
      kind: for example ``encoder`` or ``lr_policy``; in messages, underscores are replaced by spaces.
      catalogue: returns objects by name; called when a name is first looked up.
      base: base class of the objects.
      fits: returns whether an object is of this kind; by default, whether it is a subclass of ``base``, or whether it
        is callable if there is no ``base``.
      wanted: what ``fits`` requires, in words, for messages.
    """
    kind_of_name = _KINDS.setdefault(kind, Kind(kind.replace("_", " ")))
    if base is not None:
        kind_of_name.base, kind_of_name.wanted = base, f"a subclass of {base.__name__}"
        kind_of_name.fits = functools.partial(_is_subclass, base)
    if fits is not None:
        kind_of_name.fits = fits
    kind_of_name.wanted = wanted or kind_of_name.wanted
    if catalogue is not None:
        kind_of_name.catalogues.append(catalogue)
    kind_of_name._read.clear()


def kinds() -> list[str]:
    """Returns the kinds of names that are registered."""
    return list(_KINDS)


def registered(kind: str) -> dict[str, tuple[Any, list[str]]]:
    """Returns the objects of a kind that have a name without a package.

    Returns:
      Dict of shortest name → (object, all of its names).
    """
    entries = [entry for names in (_KINDS[kind].entries() if kind in _KINDS else ()) for entry in names.items()]
    spellings: dict[int, list[str]] = {}
    for name, value in entries:
        spellings.setdefault(id(value), []).append(name)
    by_shortest = {min(names, key=len): names for names in spellings.values()}
    objects = dict(entries)
    return {name: (objects[name], names) for name, names in by_shortest.items() if "." not in name}


def in_package(value: Any) -> bool:
    """Returns whether a class or function is defined in this package, not by a user or another library."""
    return getattr(value, "__module__", "").partition(".")[0] == _PACKAGE


def _is_subclass(base: type, value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, base)


def exported(room: Any) -> Catalogue:
    """Returns a catalogue of the objects in a package's ``__all__``, by bare name and by ``package.Name``.

    Args:
      room: the imported package.
    """
    return lambda: with_package({name: getattr(room, name) for name in room.__all__}, room.__name__)


def with_package(named: Mapping[str, Any], package: str) -> dict[str, Any]:
    """Returns the objects under two keys each: their bare name and ``package.Name``."""
    return {**named, **{f"{package}.{name}": value for name, value in named.items()}}


def kind_of(base: type) -> str:
    """Returns the kind registered for a class or for its nearest base class, or "" if there is none."""
    for cls in base.__mro__:
        for name, kind in _KINDS.items():
            if kind.base is cls:
                return name
    return ""


def resolve_name(value: Any, kind: str, path: str, base: type | None = None) -> Any:
    """Returns the object that a config value names.

    Args:
      value: the name; a value that is not a string is checked and returned unchanged.
      kind: kind of the name, such as ``encoder``; "" for any object of a module or file.
      path: the value's path in the config, such as ``decoder_params/ctc_decoder``, for messages.
      base: required base class, if it is narrower than the base class of the kind.

    Raises:
      ConfigError: the object cannot be found or imported, is of another kind, or is defined by code that must not run.
    """
    known = _KINDS.get(kind) or Kind("object", fits=lambda _: True)
    resolved = _found(value, known, path) if isinstance(value, str) else value
    wanted = known.wanted if base is None else f"a subclass of {base.__name__}"
    if not (known.fits(resolved) if base is None else _is_subclass(base, resolved)):
        shown = repr(value) if isinstance(value, str) or not inspect.isclass(value) else value.__name__
        raise ConfigError([f"'{path}' is {shown} but has to be {wanted}."])
    return resolved


def part_class(value: Any, kind: str) -> Any:
    """Returns the class or function that a config names; None if there is none, which ``describe_model`` reports."""
    with contextlib.suppress(ConfigError):
        return resolve_name(value, kind, kind)
    return None


def resolve_names(params: Mapping[str, Any], specs: Mapping[str, Param],
                  path: str = "") -> tuple[dict[str, Any], list[str]]:
    """Replaces names by the objects they refer to, in all parameters that are declared to contain names.

    If a parameter ``x`` names a class with declared parameters, the names in ``x_params`` are resolved too.

    Args:
      params: parameters of a model or component; not changed. Lists are resolved item by item; other values that are
        neither strings nor callables are kept.
      specs: the parameters' declarations.
      path: path of the parameters in the config, such as ``decoder_params``, for messages.

    Returns:
      The resolved parameters, and the problems found, one sentence each.
    """
    resolved, problems = dict(params), []
    for name, value in params.items():
        kind = specs[name].names if name in specs else ""
        if kind:
            resolved[name], problems_of_name = _resolved(value, kind, f"{path}/{name}" if path else name)
            problems += problems_of_name
        below = f"{name}_params"
        if kind and inspect.isclass(resolved[name]) and isinstance(params.get(below), Mapping) \
                and hasattr(resolved[name], "declared_params"):
            resolved[below], problems_of_name = resolve_names(params[below], declared_by(resolved[name]).all,
                                                              f"{path}/{below}" if path else below)
            problems += problems_of_name
    return resolved, problems


def _resolved(value: Any, kind: str, path: str) -> tuple[Any, list[str]]:
    if isinstance(value, (list, tuple)):
        pairs = [_resolved_one(item, kind, f"{path}/{number}") for number, item in enumerate(value)]
        return [item for item, _ in pairs], [problem for _, problems in pairs for problem in problems]
    return _resolved_one(value, kind, path) if isinstance(value, str) or callable(value) else (value, [])


def _resolved_one(value: Any, kind: str, path: str) -> tuple[Any, list[str]]:
    try:
        return resolve_name(value, kind, path), []
    except ConfigError as error:
        return value, error.problems


def _found(text: str, kind: Kind, path: str) -> Any:
    name = next((new + text.removeprefix(old) for old, new in _SPELLINGS if text.startswith(old)), text)
    for names in kind.entries():
        if name in names:
            return names[name]
    what = f"'{path}' is {text!r}"
    if "<lambda>" in text:
        raise ConfigError([f"{what}: a lambda cannot be found by name. Define a function with def and give its "
                           "name instead."])
    in_file = _IN_FILE.fullmatch(text)
    if in_file and _IDENTIFIERS.fullmatch(in_file[2]):
        return attribute(names_of_file(in_file[1], what), in_file[1], in_file[2].split("."), what)
    if not in_file and (plugin := PLUGIN.fullmatch(text)):
        return plugin_object(plugin[1], plugin[2], what)
    if in_file or not _IDENTIFIERS.fullmatch(text):
        raise ConfigError([f"{what}, which is not a valid {kind.noun} name: give an exported name, "
                           "package.module.Name, path/to/file.py:Name, or package:Name of a plugin."
                           f"{kind.nearest(text)}"])
    if "." not in text:
        hint = plugins_named(text) or kind.nearest(text) or _some(kind)
        raise ConfigError([f"{what}, but there is no such {kind.noun}.{hint}"])
    if untrusted_config() is None and text.startswith("tf."):
        import tensorflow as tf

        return attribute(tf, "tf", text.split(".")[1:], f"{what}, which cannot be imported")
    return imported(text, what)


def _some(kind: Kind) -> str:
    """Returns a sentence that lists the exported names, or "" if there are none or more than 20."""
    names = sorted({name for names in kind.entries() for name in names if "." not in name})
    return f" The known names are {', '.join(names)}." if 0 < len(names) <= 20 else ""


def _normal(package: str) -> str:
    """Returns the name of a package in the form in which equal names are the same text."""
    return re.sub(r"[-_.]+", "-", package).lower()


def plugins() -> Iterator[tuple[str, str, EntryPoint]]:
    """Yields (package, its version, entry point) for the installed plugins; imports none of them."""
    for entry in sorted(entry_points(group=GROUP), key=lambda one: (one.dist.name if one.dist else "", one.name)):
        if entry.dist is not None:
            yield _normal(entry.dist.name), entry.dist.version, entry


def plugin_object(package: str, name: str, what: str) -> Any:
    """Imports a plugin's class or function, and returns it.

    Args:
      package: name of the installed package.
      name: name of the entry point.
      what: the config entry that gives the name, as the start of a sentence, for messages.

    Raises:
      ConfigError: the package is not installed, has no such name, cannot be imported, or must not be imported.
    """
    require_trust(what, f"code of the package {package}")
    names = {entry.name: entry for of, _, entry in plugins() if of == _normal(package)}
    if not names:
        known = [of for of, _, _ in plugins()]
        raise ConfigError([f"{what}, but no package {package} with plugins is installed: install it if you trust its "
                           f"authors, or give another name.{did_you_mean(_normal(package), known)}"])
    if name not in names:
        raise ConfigError([f"{what}, but the package {package} has no such plugin.{did_you_mean(name, names)} It has "
                           f"{', '.join(names)}."])
    return imported(names[name].value.partition("[")[0].strip().replace(":", "."), what)


def plugins_named(name: str) -> str:
    """Returns a sentence about the plugins with this name, which a config gave without their package; "" if none."""
    full = [f"'{of}:{entry.name}'" for of, _, entry in plugins() if entry.name == name]
    return f" A plugin has this name: write {' or '.join(full)}." if full else ""
