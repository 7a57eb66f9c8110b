"""Whether the code that is being traced will be compiled by XLA."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from open_seq2seq.utils.stacks import Stack

_INSIDE = Stack()


@contextlib.contextmanager
def tracing_for_xla() -> Iterator[None]:
    """Within this context code is traced that XLA can compile, with the same results.

    No shape depends on a value (padding is computed, then ignored), and no operation is
    used that XLA lacks.
    """
    _INSIDE.entries.append(True)
    try:
        yield
    finally:
        _INSIDE.entries.pop()


def is_for_xla() -> bool:
    """Returns whether code is being traced inside ``tracing_for_xla``."""
    return bool(_INSIDE.entries)
