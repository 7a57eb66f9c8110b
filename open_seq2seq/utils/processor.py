"""What the CPU can do."""

from __future__ import annotations

import functools

_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


@functools.cache
def has_bfloat16() -> bool:
    """Returns whether the CPU has bfloat16 instructions; True where the system does not tell."""
    flags = cpu_flags()
    return not flags or bool(flags & _BFLOAT16_FLAGS)


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """Returns the CPU's feature flags; none where the system does not tell."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features"):
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()
