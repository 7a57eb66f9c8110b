"""Records the tensors that modules compute while a model is traced.

Within ``observing``, the outputs of every call of a ``Module`` are recorded under the module's path followed by
``output``, as in ``encoder/layer_0/feed_forward/output``. ``observe`` records other tensors. Outside of ``observing``,
nothing is recorded and nothing is added to the traced function.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

_OBSERVATIONS: list[Observation] = []


class Observation:
    """The recorded tensors.

    Args:
      modules: the modules to observe, by path.

    Attributes:
      tensors: maps each path to its floating-point tensors, in the order of calls, without duplicates. Tensors inside
        loops and branches are not included.
    """

    def __init__(self, modules: Mapping[str, tf.Module]) -> None:
        self.tensors: dict[str, list[tf.Tensor]] = {}
        self._modules = modules  # keeps the modules alive, so that their ids remain valid
        self._paths = {id(module): path for path, module in modules.items()}
        self._active: list[Any] = []
        self._recorded: list[tf.Tensor] = []
        self._graph = None if tf.executing_eagerly() else tf.constant(0.0).graph

    @contextlib.contextmanager
    def inside(self, module: Any) -> Iterator[None]:
        """Context manager within which tensors that are added without an owner belong to ``module``."""
        self._active.append(module)
        try:
            yield
        finally:
            self._active.pop()

    def add(self, values: Any, label: str, owner: Any = None) -> None:
        """Records the tensors of a nested structure.

        Args:
          values: a tensor or a nested structure of tensors.
          label: name that is appended to the owner's path.
          owner: the module that the tensors belong to; by default the one that is being called.
        """
        owner = owner if owner is not None else self._active[-1] if self._active else None
        path = self._paths.get(id(owner))
        if path is None:
            return
        for value in tf.nest.flatten(values):
            if self._is_new(value):
                self._recorded.append(value)
                self.tensors.setdefault(f"{path}/{label}" if path else label, []).append(value)

    def _is_new(self, value: Any) -> bool:
        if not tf.is_tensor(value) or not value.dtype.is_floating:
            return False
        # Tensors of loops and branches have other graphs. A tensor that a module returns unchanged is already recorded
        # for the module that computed it.
        return getattr(value, "graph", None) is self._graph and not any(value is old for old in self._recorded)


@contextlib.contextmanager
def observing(modules: Mapping[str, tf.Module]) -> Iterator[Observation]:
    """Context manager within which the outputs of modules are recorded in the function that is being traced.

    Args:
      modules: the modules by path, as returned by ``component.named_modules``.
    """
    observation = Observation(modules)
    _OBSERVATIONS.append(observation)
    try:
        yield observation
    finally:
        _OBSERVATIONS.pop()


def is_observing() -> bool:
    """Returns whether the outputs of modules are recorded."""
    return bool(_OBSERVATIONS)


def observe(values: Any, label: str, owner: Any = None) -> None:
    """Records tensors that are not a module's output; does nothing outside of ``observing``.

    Args:
      values: a tensor or a nested structure of tensors.
      label: name that is appended to the module's path.
      owner: the module that the tensors belong to; by default the one that is being called.
    """
    if _OBSERVATIONS:
        _OBSERVATIONS[-1].add(values, label, owner)


def observed_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a module's ``__call__`` so that its outputs are recorded."""

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
