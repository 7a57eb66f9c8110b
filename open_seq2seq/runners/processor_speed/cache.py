"""A cache of measured speeds in the user's home folder: small JSON files, which are checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from open_seq2seq.parts.precision import KINDS
from open_seq2seq.utils import disk

TYPES = ("float32", "bfloat16")
# GFLOP/s by kind of operation (from ``KINDS``) and dtype (from ``TYPES``).
Speeds = dict[str, dict[str, float]]
# The properties of a machine and its settings, by name; see ``probe.machine_identity``.
Identity = Mapping[str, str | int]
_MOST_BYTES = 1 << 16  # larger files are not read, because the cache has not written them
_LEAST, _MOST = 1e-6, 1e9  # plausible GFLOP/s


def cache_folder() -> Path | None:
    """Returns the cache's folder, in ``XDG_CACHE_HOME`` or ``~/.cache``; None if there is no home folder."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(folder):  # the XDG specification ignores relative paths
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        folder = os.path.join(home, ".cache")
    return Path(folder, "open_seq2seq")


def speeds_file(identity: Identity) -> Path | None:
    """Returns the path of the cache file for a machine and its settings; None if there is no cache folder.

    Each combination of machine and settings has its own file, so no lock is needed.
    """
    folder = cache_folder()
    name = hashlib.sha256(json.dumps(sorted(identity.items())).encode()).hexdigest()[:16]
    return None if folder is None else folder / f"speeds-{name}.json"


def read_speeds(identity: Identity) -> Speeds | None:
    """Returns the cached speeds, or None if there are none or the file is invalid.

    Args:
      identity: identity of the machine and its settings. Speeds from a file with another identity are not returned.
    """
    path = speeds_file(identity)
    if path is None:
        return None
    try:
        content = json.loads(_read_file(path))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("machine") != dict(identity):
        return None
    return _checked(content.get("gflops"))


def write_speeds(identity: Identity, speeds: Speeds) -> bool:
    """Writes speeds to the cache atomically; returns whether this succeeded.

    Args:
      identity: identity of the machine and its settings.
      speeds: the machine's speeds.
    """
    path = speeds_file(identity)
    if path is None:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk.writing(path, disk.always) as file:
            file.write(json.dumps({"machine": dict(identity), "gflops": speeds}, indent=1).encode())
    except OSError:
        return False
    return True


def _read_file(path: Path) -> bytes:
    """Returns the content of a file, if it is a small regular file owned by this user.

    Raises:
      OSError: the file is missing, cannot be read, is too large, belongs to another user, or is not a regular file
        (reading a pipe or a device might never end).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_size > _MOST_BYTES:
            raise OSError(f"{path} is not a small regular file owned by this user")
        return file.read(_MOST_BYTES)


def _checked(speeds: Any) -> Speeds | None:
    """Returns the speeds of a file if they have a plausible number for each kind and dtype, otherwise None."""
    checked: Speeds = {}
    for kind in KINDS:
        by_type = speeds.get(kind) if isinstance(speeds, dict) else None
        if not isinstance(by_type, dict) or not all(_is_speed(by_type.get(name)) for name in TYPES):
            return None
        checked[kind] = {name: float(by_type[name]) for name in TYPES}
    return checked


def _is_speed(value: Any) -> bool:
    return type(value) in (int, float) and _LEAST < value < _MOST
