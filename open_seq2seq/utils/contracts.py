"""Choosing between a method and the one that it replaces, for classes written against either."""

from __future__ import annotations


def comes_first(thing: object, method: str, old: str) -> bool:
    """Returns whether the first class in the method resolution order that defines either method defines ``method``.

    A class that defines only the old method is used by it, although its base defines both. If one class defines both,
    ``method`` counts.

    Args:
      thing: an object whose class, or a base of it, defines both.
      method: name of the preferred method.
      old: name of the method that it replaces.
    """
    for cls in type(thing).__mro__:
        if method in vars(cls):
            return True
        if old in vars(cls):
            return False
    raise AttributeError(f"{type(thing).__name__} has neither {method} nor {old}.")
