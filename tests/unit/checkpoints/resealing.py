"""Checkpoints that were changed on purpose, with checksums that fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints.state import STATE, STATE_CHECKSUM, sha256, state_checksum


def reseal(checkpoint: Path, change: Callable[[dict[str, Any]], object] | None = None) -> None:
    """Makes the checksums of a checkpoint those of its files, then changes its state, and seals that.

    Args:
      checkpoint: its folder; what is no file below it, or a link, keeps the checksum that it has.
      change: of the state, in place.
    """
    state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    for name in state["sha256"]:
        path = checkpoint / name
        if path.is_file():
            state["sha256"][name] = sha256(path)
    if change is not None:
        change(state)
    state[STATE_CHECKSUM] = state_checksum(state)
    (checkpoint / STATE).write_text(json.dumps(state), encoding="utf-8")
