"""Names that installed packages add to configs, by entry points of the group ``open_seq2seq.plugins``.

A config gives such a name together with that of its package, as in ``open-seq2seq-birds:BirdEncoder``. So it cannot be
taken for a name of this package or of another plugin, and a message about a missing plugin can say what to install.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from open_seq2seq.config.user_code import imported, require_trust
from open_seq2seq.utils.errors import ConfigError, did_you_mean

GROUP = "open_seq2seq.plugins"
"""The group of entry points: name in configs = ``package.module:Name``."""
PLUGIN = re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?):([^\W\d]\w*)", re.ASCII)
"""A name of a plugin: (name of the package that is installed, name of the entry point)."""


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
