"""Marks code that is traced for compilation by XLA."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from open_seq2seq.utils.stacks import Stack

_INSIDE = Stack()


@contextlib.contextmanager
def tracing_for_xla() -> Iterator[None]:
    """Context manager within which layers are traced in a form that XLA can compile, with the same results.

    In this form no shape depends on values (padding is computed and then ignored), and only operations that XLA
    supports are used.
    """
    _INSIDE.entries.append(True)
    try:
        yield
    finally:
        _INSIDE.entries.pop()


def is_for_xla() -> bool:
    """Returns whether code is being traced inside ``tracing_for_xla``."""
    return bool(_INSIDE.entries)
