"""Chooses between a method and the older method that it replaces, for classes that override either one."""

from __future__ import annotations


def comes_first(thing: object, method: str, old: str) -> bool:
    """Returns whether ``method`` takes precedence over ``old`` in the method resolution order.

    If a class overrides only the old method, the old method takes precedence, although a base class defines both. If a
    class defines both, ``method`` takes precedence.

    Args:
      thing: an object whose class, or one of its bases, defines the methods.
      method: name of the preferred method.
      old: name of the method that it replaces.

    Raises:
      AttributeError: the object has neither method.
    """
    for cls in type(thing).__mro__:
        if method in vars(cls):
            return True
        if old in vars(cls):
            return False
    raise AttributeError(f"{type(thing).__name__} has neither {method} nor {old}.")
