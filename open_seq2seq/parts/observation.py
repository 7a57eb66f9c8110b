"""Seeing what modules compute while a model is traced.

Within ``observing`` every call of a ``Module`` hands its outputs over, by the module's path
and the word ``output``: ``encoder/layer_0/feed_forward/output``. What is worth seeing and is
no module's output is handed over by ``observe``. Outside of the context both do nothing, and
a traced function contains nothing of it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

_OBSERVATIONS: list[Observation] = []


class Observation:
    """What was seen.

    Args:
      modules: by path; calls of others are not seen.

    Attributes:
      tensors: path → floating-point tensors, in the order of calls; each tensor once. Tensors inside
        of loops and branches cannot be taken out of them and are left out.
    """

    def __init__(self, modules: Mapping[str, tf.Module]) -> None:
        self.tensors: dict[str, list[tf.Tensor]] = {}
        self._modules = modules  # kept alive: their ids stay theirs
        self._paths = {id(module): path for path, module in modules.items()}
        self._active: list[Any] = []
        self._kept: list[tf.Tensor] = []
        self._graph = None if tf.executing_eagerly() else tf.constant(0.0).graph

    @contextlib.contextmanager
    def inside(self, module: Any) -> Iterator[None]:
        """Within this context what is observed belongs to this module."""
        self._active.append(module)
        try:
            yield
        finally:
            self._active.pop()

    def add(self, values: Any, label: str, owner: Any = None) -> None:
        """Keeps the tensors in a nested structure, under ``path/label`` of the owner or the active module."""
        owner = owner if owner is not None else self._active[-1] if self._active else None
        path = self._paths.get(id(owner))
        if path is None:
            return
        for value in tf.nest.flatten(values):
            if self._is_new(value):
                self._kept.append(value)
                self.tensors.setdefault(f"{path}/{label}" if path else label, []).append(value)

    def _is_new(self, value: Any) -> bool:
        if not tf.is_tensor(value) or not value.dtype.is_floating:
            return False
        # What a module returns as it came from another one is that other one's.
        return getattr(value, "graph", None) is self._graph and not any(value is kept for kept in self._kept)


@contextlib.contextmanager
def observing(modules: Mapping[str, tf.Module]) -> Iterator[Observation]:
    """Within this context modules are observed, in the function that is being traced.

    Args:
      modules: by path; ``component.named_modules`` gives them.
    """
    observation = Observation(modules)
    _OBSERVATIONS.append(observation)
    try:
        yield observation
    finally:
        _OBSERVATIONS.pop()


def observe(values: Any, label: str, owner: Any = None) -> None:
    """Hands something over that is no module's output.

    Args:
      values: a tensor or a nested structure with tensors.
      label: what it is called below the module's path.
      owner: the module; by default the one whose call is under way.
    """
    if _OBSERVATIONS:
        _OBSERVATIONS[-1].add(values, label, owner)


def observed_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a module's ``__call__`` hand its outputs over."""

    @functools.wraps(call)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _OBSERVATIONS:
            return call(self, *args, **kwargs)
        observation = _OBSERVATIONS[-1]
        with observation.inside(self):
            outputs = call(self, *args, **kwargs)
        observation.add(outputs, "output", self)
        return outputs

    return wrapper
