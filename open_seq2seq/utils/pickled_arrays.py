"""Reads pickles of arrays, and nothing else, because a pickle may call any function."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

# Name and last part of the module of what such pickles refer to; NumPy 1 and 2 have it in different packages.
_ALLOWED = {("_reconstruct", "multiarray"), ("scalar", "multiarray"), ("ndarray", "numpy"), ("dtype", "numpy"),
            ("_frombuffer", "numeric"), ("OrderedDict", "collections"), ("encode", "_codecs")}


def load_arrays(content: bytes, encoding: str = "ASCII") -> Any:
    """Returns the arrays, containers, strings and numbers of a pickle.

    Args:
      content: the pickle.
      encoding: how strings of Python 2 are decoded; see ``pickle.loads``.

    Raises:
      Exception: of many kinds, if the pickle is damaged; UnpicklingError if it refers to anything but arrays.
    """
    return _ArrayUnpickler(io.BytesIO(content), encoding=encoding).load()


def _empty_array(*_: Any) -> np.ndarray:
    """Replaces NumPy's constructor, which would allocate any shape that a pickle names; the values are set later."""
    return np.empty(0)


class _ArrayUnpickler(pickle._Unpickler):
    """Refuses functions and classes that arrays do not need.

    The base class is the pure-Python unpickler, because a damaged byte can make the C version allocate memory for
    2 ** 32 objects.
    """

    def find_class(self, module: str, name: str) -> Any:
        root, last = module.split(".")[0], module.rsplit(".", 1)[-1]
        if (name, last) not in _ALLOWED or root not in ("numpy", "collections", "_codecs"):
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not data")
        return {"_reconstruct": _empty_array, "ndarray": _empty_array}.get(name) or super().find_class(module, name)
