"""A cache of processor speeds that says what a test wants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from open_seq2seq.parts.precision import KINDS
from open_seq2seq.runners.processor_speed import machine_identity, write_speeds

ALL_GAIN = dict.fromkeys(KINDS, 2.0)
NONE_GAINS = dict.fromkeys(KINDS, 0.5)


def write_known_speeds(cache: Path, gains: Mapping[str, float]) -> None:
    """Makes ``XDG_CACHE_HOME`` say how many times as fast bfloat16 is, whatever the number of threads."""
    speeds = {kind: {"float32": 100.0, "bfloat16": 100.0 * gain} for kind, gain in gains.items()}
    with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(cache)}):
        for threads in range(1, (os.cpu_count() or 1) + 1):
            assert write_speeds({**machine_identity(), "threads": threads}, speeds)
