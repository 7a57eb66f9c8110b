"""Contexts that hold for the thread that entered them."""

from __future__ import annotations

import threading
from typing import Any


class Stack(threading.local):
    """A list of each thread's own.

    Each replica of a process is traced by a thread of its own, and the threads take turns: a context that one of them
    has entered must not hold for another.

    Attributes:
      entries: the contexts, the innermost last.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
