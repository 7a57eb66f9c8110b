"""Which layer a variable belongs to, for summaries and reports that speak of layers."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"_\d+$")
_DEPTH = 2  # part of the model / module: encoder/embedding


def layer_group(name: str) -> str:
    """Returns the layer that a variable or a module's output belongs to.

    It is the path up to the first numbered module (``encoder/layer_0/self_attention/query``
    belongs to ``encoder/layer_0``), or, where no module is numbered, the part of the model
    and the module in it (``encoder/embedding/table``: ``encoder/embedding``). The last word
    is the variable's own and never part of the group (``decoder/kernel``: ``decoder``),
    except that a name of one word is its own group.

    Args:
      name: path from the model down, as in ``parts.component.named_variables``.
    """
    modules = name.split("/")[:-1]
    if not modules:
        return name
    for depth, module in enumerate(modules, 1):
        if _NUMBERED.search(module):
            return "/".join(modules[:depth])
    return "/".join(modules[:_DEPTH])


def group_names(names: Iterable[str]) -> dict[str, list[str]]:
    """Returns group → its names, both in the order in which they first come."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(layer_group(name), []).append(name)
    return groups
