"""The toy script, run in the test's process."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make_toy_data(*arguments: str) -> None:
    """Runs ``scripts/create_toy_data.py`` with small sizes in the current folder."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import create_toy_data
    finally:
        sys.path.pop(0)
    create_toy_data.main(["--train_size=60", "--dev_size=20", "--test_size=9", "--max_length=10", *arguments])
