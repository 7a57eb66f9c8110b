"""Stacks of contexts that apply only to the thread that entered them."""

from __future__ import annotations

import threading
from typing import Any


class Stack(threading.local):
    """A separate list for each thread.

    Each replica of a process is traced by its own thread, and the threads take turns. A context that one thread has
    entered must not apply to the others.

    Attributes:
      entries: the contexts, the innermost last.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
