"""A toolkit that trains sequence-to-sequence models from a config file."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from open_seq2seq.version import __version__

if TYPE_CHECKING:
    from open_seq2seq.run.run import Run, load
    from open_seq2seq.server.command import serve

__all__ = ["Run", "__version__", "load", "serve"]


def __getattr__(name: str) -> Any:  # importing the package alone imports nothing else, and changes nothing
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "open_seq2seq.server.command" if name == "serve" else "open_seq2seq.run.run"
    return getattr(importlib.import_module(home), name)
