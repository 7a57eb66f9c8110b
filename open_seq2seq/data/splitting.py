"""Groups the examples that must stay together when a data set is split into parts."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Sequence


def groups_in_common(keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Returns groups of the indices of examples, so that examples of different groups have no key in common.

    Args:
      keys: the keys of each example, such as its sentences.
    """
    parent = list(range(len(keys)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[Hashable, int] = {}
    for index, own in enumerate(keys):
        for key in own:
            parent[root(index)] = root(first.setdefault(key, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(keys)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())


def bare(text: str) -> str:
    """Returns a text without case, punctuation and white space; a text of punctuation alone is returned unchanged."""
    return "".join(char for char in text.casefold() if char.isalnum() or unicodedata.category(char)[0] == "M") or text
