"""Reports how much memory a process can still allocate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

GIB = 2 ** 30


def available_bytes(root: str = "/") -> int | None:
    """Returns how many bytes of memory this process can still allocate, or None if this is unknown.

    The number is the minimum over the machine and this process's control groups. Memory used for cached files counts as
    available, and so does the machine's unused swap space.

    Args:
      root: root of the file system from which the numbers are read.
    """
    left = [*_of_machine(Path(root)), *_of_groups(Path(root))]
    return max(0, min(left)) if left else None


def _of_machine(root: Path) -> Iterator[int]:
    numbers = _numbers(root / "proc/meminfo")
    if "MemAvailable" in numbers:
        yield 1024 * (numbers["MemAvailable"] + numbers.get("SwapFree", 0))


def _of_groups(root: Path) -> Iterator[int]:
    """Yields the bytes available in this process's control group and in each of its ancestors."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":  # version 2 of control groups
            top, limit, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):  # version 1
            top, limit, used = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in (top / group, *(top / parent for parent in group.parents)):
            most, now = _text(folder / limit).strip(), _text(folder / used).strip()
            if most.isdecimal() and now.isdecimal():
                files = _numbers(folder / "memory.stat")
                yield int(most) - int(now) + files.get("total_inactive_file", files.get("inactive_file", 0))


def _numbers(path: Path) -> dict[str, int]:
    pairs = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {words[0]: int(words[1]) for words in pairs if len(words) >= 2 and words[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
