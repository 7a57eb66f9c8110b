"""Groups variables by layer, for summaries and reports."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"_\d+$")
_DEPTH = 2  # length of the path to a module in a component of the model, such as encoder/embedding


def layer_group(name: str) -> str:
    """Returns the layer group of a variable or of a module's output.

    The group is the path up to the first numbered module (``encoder/layer_0`` for
    ``encoder/layer_0/self_attention/query``) or, without a numbered module, the component of the model and the module
    in it (``encoder/embedding`` for ``encoder/embedding/table``). The variable's own name is not part of the group
    (``decoder`` for ``decoder/kernel``), unless it is the whole path.

    Args:
      name: path from the model to the variable or output, as in ``parts.component.named_variables``.
    """
    modules = name.split("/")[:-1]
    if not modules:
        return name
    for depth, module in enumerate(modules, 1):
        if _NUMBERED.search(module):
            return "/".join(modules[:depth])
    return "/".join(modules[:_DEPTH])


def group_names(names: Iterable[str]) -> dict[str, list[str]]:
    """Returns a dict from layer group to the names in it, both in order of first occurrence."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(layer_group(name), []).append(name)
    return groups
