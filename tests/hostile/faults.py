"""File faults: each function returns a function that damages files of a place.

File names are relative to the workspace's folder. Faults can be combined: ``both(delete("a"), append("b", b"x"))``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.file_times import keeping_mtime
from tests.hostile.case import Fault, Place


def both(*faults: Fault) -> Fault:
    """Applies all given faults in order."""
    def fault(place: Place) -> None:
        for each in faults:
            each(place)

    return fault


def flip(name: str, bit: int = -1) -> Fault:
    """Flips one bit; a negative number counts from the end, and 4 * size is the middle of the file."""
    def change(content: bytes) -> bytes:
        changed = bytearray(content)
        number = bit % (8 * len(content))
        changed[number // 8] ^= 1 << number % 8
        return bytes(changed)

    return rewrite(name, change)


def flip_in_the_middle(name: str) -> Fault:
    """Flips a bit half-way through the file."""
    return lambda place: flip(name, 4 * (place / name).stat().st_size)(place)


def truncate(name: str, keep: float | int = 0.5) -> Fault:
    """Truncates a file to ``keep`` bytes if it is an int, else to this fraction of its size."""
    return rewrite(name, lambda content: content[:keep if isinstance(keep, int) else int(len(content) * keep)])


def empty(name: str) -> Fault:
    """Truncates a file to 0 bytes."""
    return truncate(name, 0)


def write(name: str, content: bytes | str) -> Fault:
    """Writes a file and its parent folders, replacing any existing file or folder."""
    def fault(place: Place) -> None:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            _remove(path)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return fault


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Fault:
    """Replaces a file's content by the result of ``change``; atime and mtime are kept, as after a disk error."""
    def fault(place: Place) -> None:
        path = place / name
        with keeping_mtime(path):
            path.write_bytes(change(path.read_bytes()))

    return fault


def edit(name: str, old: str, new: str) -> Fault:
    """Replaces the first occurrence of a text; the file's mtime changes, as with an editor."""
    def fault(place: Place) -> None:
        text = (place / name).read_text(encoding="utf-8")
        assert old in text, f"{name} does not have {old!r}"
        (place / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return fault


def append(name: str, content: bytes | str) -> Fault:
    """Appends to a file."""
    def fault(place: Place) -> None:
        with open(place / name, "ab") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    return fault


def delete(name: str) -> Fault:
    """Removes a file, a link, or a whole folder."""
    return lambda place: _remove(place / name)


def rename(name: str, new: str) -> Fault:
    """Renames a file or folder."""
    return lambda place: os.rename(place / name, place / new)


def copy(name: str, new: str) -> Fault:
    """Copies a file or folder, including its atime and mtime."""
    def fault(place: Place) -> None:
        if (place / name).is_dir():
            shutil.copytree(place / name, place / new, symlinks=True)
        else:
            shutil.copy2(place / name, place / new)

    return fault


def swap(name: str, other: str) -> Fault:
    """Exchanges two files or folders."""
    return both(rename(name, f"{name}.swapping"), rename(other, name), rename(f"{name}.swapping", other))


def replace_by_link(name: str, target: str | None = None) -> Fault:
    """Replaces a file or folder by a symbolic link.

    Args:
      name: the file or folder.
      target: target of the link; by default the file or folder itself, which is moved to ``outside-<name>`` in the
        workspace.
    """
    def fault(place: Place) -> None:
        path = place / name
        if target is None:
            outside = place / f"outside-{path.name}"
            os.rename(path, outside)
            path.symlink_to(outside)
        else:
            _remove(path)
            path.symlink_to(target)

    return fault


def replace_by_fifo(name: str) -> Fault:
    """Replaces a file by a named pipe that nobody reads or writes."""
    def fault(place: Place) -> None:
        _remove(place / name)
        os.mkfifo(place / name)

    return fault


def replace_by_folder(name: str, *files: str) -> Fault:
    """Replaces a file by a folder that contains files of the user's."""
    def fault(place: Place) -> None:
        _remove(place / name)
        (place / name).mkdir(parents=True)
        for file in files:
            (place / name / file).write_text("the user's own\n", encoding="utf-8")

    return fault


def replace_by_file(name: str, content: bytes | str = "the user's own\n") -> Fault:
    """Replaces a folder by a file."""
    return both(delete(name), write(name, content))


def hard_link(name: str, new: str) -> Fault:
    """Makes a hard link to a file, which would reveal writing in place."""
    def fault(place: Place) -> None:
        (place / new).parent.mkdir(parents=True, exist_ok=True)
        os.link(place / name, place / new)

    return fault


def make_read_only(name: str) -> Fault:
    """Removes write permission, which has no effect on root."""
    return lambda place: os.chmod(place / name, 0o555 if (place / name).is_dir() else 0o444)


def touch(name: str, seconds: float = 100) -> Fault:
    """Moves a file's mtime into the future, or into the past if ``seconds`` is negative."""
    def fault(place: Place) -> None:
        moved = (place / name).stat().st_mtime_ns + int(seconds * 1e9)
        os.utime(place / name, ns=(moved, moved))

    return fault


def after(words: str, fault: Fault) -> Fault:
    """Applies the fault as soon as the command has printed the words; for ``Case.meanwhile``."""
    def wait(place: Place) -> None:
        place.wait_for(words)
        fault(place)

    return wait


def send_signal(number: int) -> Fault:
    """Sends a signal to the command; for use with ``after``."""
    def fault(place: Place) -> None:
        assert place.process is not None
        os.kill(place.process, number)

    return fault


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
