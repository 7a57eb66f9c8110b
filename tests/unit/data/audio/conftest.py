"""Clips for the comparison of feature back-ends: made up ones, and twenty real ones where they are at hand."""

from __future__ import annotations

import numpy as np
import pytest

RATE = 16000


def speech_like(seconds: float, seed: int) -> np.ndarray:
    """Harmonics under a slow envelope, over weak noise, as 16-bit audio has them."""
    random = np.random.default_rng(seed)
    time = np.arange(int(seconds * RATE)) / RATE
    pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 2 * time)) / RATE
    voice = sum(np.sin(k * pitch) / k for k in range(1, 30))
    audio = voice * (0.55 + 0.45 * np.sin(2 * np.pi * 3 * time + seed)) + 0.003 * random.standard_normal(len(time))
    return (np.round(audio / np.abs(audio).max() * 20000) / 32768).astype(np.float32)


@pytest.fixture(scope="session")
def clips() -> list[np.ndarray]:
    """Audio ``[samples]`` of several lengths, one shorter than a window."""
    return [speech_like(seconds, seed) for seed, seconds in enumerate([0.35, 1.0, 0.777, 0.02, 0.0111])]
