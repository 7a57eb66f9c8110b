"""Contexts that hold for the thread that entered them."""

from __future__ import annotations

import threading
from typing import Any


class Stack(threading.local):
    """A list that each thread has for itself.

    The replicas of a process are traced by a thread each, and take turns wherever they meet: what
    one of them has entered must not hold for another.

    Attributes:
      entries: the last one is the innermost.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
