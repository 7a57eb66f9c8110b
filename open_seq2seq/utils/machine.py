"""The machine: its CPU and cores, the use of oneDNN, and the memory that a process can still allocate."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterator
from pathlib import Path

_UNKNOWN = "unknown processor"
# Flags of CPUs that compute with bfloat16: two of x86, one of ARM.
_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})

# TensorFlow uses oneDNN by default if the CPU has one of these flags (IsMklEnabled in tensorflow/core/util/port.cc).
_ONEDNN_FLAGS = frozenset({"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"})
# Flags that affect speed. Processors of the same name may differ in them, because virtual machines may hide some.
_SPEED_FLAGS = _BFLOAT16_FLAGS | _ONEDNN_FLAGS | {"avx2", "avx512f", "avx512_fp16"}
# Environment variables that restrict the instructions that oneDNN uses, or lower its precision.
_ONEDNN_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")

GIB = 2 ** 30
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")


@functools.cache
def has_bfloat16() -> bool:
    """Returns whether the CPU has bfloat16 instructions; True if the system does not report them."""
    flags = cpu_flags()
    return not flags or bool(flags & _BFLOAT16_FLAGS)


def has_onednn() -> bool:
    """Returns whether TensorFlow computes with oneDNN on this CPU; True if the system does not report its flags.

    The environment variable ``TF_ENABLE_ONEDNN_OPTS`` takes precedence over the flags.
    """
    wanted = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "").lower()
    if wanted in ("0", "false", "1", "true"):
        return wanted in ("1", "true")
    flags = cpu_flags()
    return not flags or bool(flags & _ONEDNN_FLAGS)


def onednn_setting() -> str:
    """Returns a text such as ``on ONEDNN_MAX_CPU_ISA=AVX2``.

    The text says whether TensorFlow computes with oneDNN, and which of oneDNN's environment variables are set.
    """
    limits = [f"{name}={os.environ[name]}" for name in _ONEDNN_LIMITS if os.environ.get(name)]
    return " ".join(["on" if has_onednn() else "off", *limits])


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """Returns the CPU's feature flags; empty if the system does not report them."""
    return frozenset((_first_value(("flags", "Features"), path) or "").split())


def cpu_name(path: str = "/proc/cpuinfo") -> str:
    """Returns the CPU's model name, or its architecture if the name is not reported."""
    return _first_value(("model name",), path) or platform.processor() or platform.machine() or _UNKNOWN


def cores_allowed(pid: int = 0) -> int:
    """Returns the number of cores that a process, by default this one, may use."""
    return len(os.sched_getaffinity(pid)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_of_launcher() -> int:
    """Returns the number of cores that this process's parent may use or, if that is a shell, the shell's parent."""
    parent = os.getppid()
    name, above = (_first_value((key,), f"/proc/{parent}/status") for key in ("Name", "PPid"))
    return cores_allowed(int(above) if above and name in _SHELLS else parent)


def device_name() -> str:
    """Returns the name of the first GPU that TensorFlow sees or, without one, of the CPU."""
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU")[:1]:
        return str(tf.config.experimental.get_device_details(gpu).get("device_name", "a GPU"))
    return cpu_name()


def speed_flags() -> list[str]:
    """Returns the CPU's flags that affect the speed of half-precision products, sorted."""
    return sorted(cpu_flags() & _SPEED_FLAGS)


def _first_value(keys: tuple[str, ...], path: str) -> str | None:
    """Returns the value of the first line with one of these keys, or None if there is no such line."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in keys:
                    return value.strip()
    except OSError:
        pass
    return None


def available_bytes(root: str = "/") -> int | None:
    """Returns how many bytes of memory this process can still allocate, or None if this is unknown.

    The number is the minimum over the machine and this process's control groups. Memory used for cached files counts as
    available, and so does the machine's unused swap space.

    Args:
      root: root of the file system from which the numbers are read.
    """
    left, of_machine = [*_of_groups(Path(root))], _numbers(Path(root, "proc/meminfo"))
    if "MemAvailable" in of_machine:
        left.append(1024 * (of_machine["MemAvailable"] + of_machine.get("SwapFree", 0)))
    return max(0, min(left)) if left else None


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
