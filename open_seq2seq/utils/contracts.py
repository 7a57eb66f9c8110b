"""Which of two methods that do the same is meant, where a contract has changed and the old one still holds."""

from __future__ import annotations


def comes_first(thing: object, method: str, old: str) -> bool:
    """Whether the first class of the method resolution order that defines either method defines ``method``.

    So a class that was written against the old contract is served by it, though its base knows both. Where one class
    defines both, ``method`` counts.

    Args:
      thing: an object whose class, or a base of it, defines both.
      method: name of the one that is preferred.
      old: name of the one that it replaces.
    """
    for cls in type(thing).__mro__:
        if method in vars(cls):
            return True
        if old in vars(cls):
            return False
    raise AttributeError(f"{type(thing).__name__} has neither {method} nor {old}.")
