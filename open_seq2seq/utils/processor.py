"""What the CPU can do."""

from __future__ import annotations

import functools
import os

_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})

# Those for which TensorFlow turns oneDNN on by itself (IsMklEnabled in tensorflow/core/util/port.cc).
_ONEDNN_FLAGS = frozenset({"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"})


@functools.cache
def has_bfloat16() -> bool:
    """Returns whether the CPU has bfloat16 instructions; True where the system does not tell."""
    flags = cpu_flags()
    return not flags or bool(flags & _BFLOAT16_FLAGS)


def has_onednn() -> bool:
    """Returns whether TensorFlow computes with oneDNN on this CPU; True where the system does not tell."""
    wanted = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "").lower()
    if wanted in ("0", "false", "1", "true"):
        return wanted in ("1", "true")
    flags = cpu_flags()
    return not flags or bool(flags & _ONEDNN_FLAGS)


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """Returns the CPU's feature flags; none where the system does not tell."""
    return frozenset(_cpu_info(path, "flags", "Features").split())


def cpu_name(path: str = "/proc/cpuinfo") -> str:
    """Returns the CPU's model name; ``unknown`` where the system does not tell."""
    return _cpu_info(path, "model name") or "unknown"


def _cpu_info(path: str, *names: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in names:
                    return value.strip()
    except OSError:
        pass
    return ""
