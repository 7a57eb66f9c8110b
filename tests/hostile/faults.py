"""Faults of files, to be combined: each function returns what does the damage to a place.

Names are paths below the workspace's folder. ``both(delete("a"), append("b", b"x"))`` does one after the other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Fault, Place


def both(*faults: Fault) -> Fault:
    """All of these, in this order."""
    def fault(place: Place) -> None:
        for each in faults:
            each(place)

    return fault


def flip(name: str, bit: int = -1) -> Fault:
    """Flips one bit; a negative number counts from the end, and 8 * size // 2 is in the middle."""
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
    """Cuts a file short, to so many bytes or to such a part of them."""
    return rewrite(name, lambda content: content[:keep if isinstance(keep, int) else int(len(content) * keep)])


def empty(name: str) -> Fault:
    """Leaves a file without content."""
    return truncate(name, 0)


def write(name: str, content: bytes | str) -> Fault:
    """Writes a file, whatever stood there, and the folders above it."""
    def fault(place: Place) -> None:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            _remove(path)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return fault


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Fault:
    """Replaces the content of a file by what a function makes of it; its times stay, as with damage of a disk."""
    def fault(place: Place) -> None:
        path = place / name
        status = path.stat()
        path.write_bytes(change(path.read_bytes()))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    return fault


def edit(name: str, old: str, new: str) -> Fault:
    """Replaces the first occurrence of a text, as an editor does: the time of the file is then another one."""
    def fault(place: Place) -> None:
        text = (place / name).read_text(encoding="utf-8")
        assert old in text, f"{name} does not have {old!r}"
        (place / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return fault


def append(name: str, content: bytes | str) -> Fault:
    """Adds to the end of a file."""
    def fault(place: Place) -> None:
        with open(place / name, "ab") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    return fault


def delete(name: str) -> Fault:
    """Removes a file, a link, or a whole folder."""
    return lambda place: _remove(place / name)


def rename(name: str, new: str) -> Fault:
    """Gives a file or folder another name."""
    return lambda place: os.rename(place / name, place / new)


def copy(name: str, new: str) -> Fault:
    """Copies a file or folder, with its times."""
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
    """Puts a link where a file or folder stood.

    Args:
      name: where.
      target: where it leads, as it is written in the link; by default to what stood there, put beside the workspace's
        other files as ``outside-<its name>``.
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
    """Puts a named pipe, at whose end nobody is, where a file stood."""
    def fault(place: Place) -> None:
        _remove(place / name)
        os.mkfifo(place / name)

    return fault


def replace_by_folder(name: str, *files: str) -> Fault:
    """Puts a folder where a file stood, with files of the user's in it."""
    def fault(place: Place) -> None:
        _remove(place / name)
        (place / name).mkdir(parents=True)
        for file in files:
            (place / name / file).write_text("the user's own\n", encoding="utf-8")

    return fault


def replace_by_file(name: str, content: bytes | str = "the user's own\n") -> Fault:
    """Puts a file where a folder stood."""
    return both(delete(name), write(name, content))


def hard_link(name: str, new: str) -> Fault:
    """Gives a file a second name, through which writing in place would be seen."""
    def fault(place: Place) -> None:
        (place / new).parent.mkdir(parents=True, exist_ok=True)
        os.link(place / name, place / new)

    return fault


def make_read_only(name: str) -> Fault:
    """Takes the right to write away; root has it all the same."""
    return lambda place: os.chmod(place / name, 0o555 if (place / name).is_dir() else 0o444)


def touch(name: str, seconds: float = 100) -> Fault:
    """Moves the time of a file's last change into the future, or with less than 0 into the past."""
    def fault(place: Place) -> None:
        moved = (place / name).stat().st_mtime_ns + int(seconds * 1e9)
        os.utime(place / name, ns=(moved, moved))

    return fault


def after(words: str, fault: Fault) -> Fault:
    """For ``Case.meanwhile``: does the damage once the command has printed the words."""
    def wait(place: Place) -> None:
        place.wait_for(words)
        fault(place)

    return wait


def send_signal(number: int) -> Fault:
    """For ``after``: sends the command a signal."""
    def fault(place: Place) -> None:
        assert place.process is not None
        os.kill(place.process, number)

    return fault


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
