"""Traverses a model's tree: finds modules, variables and carried states by path."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.carried_state import CarriedState
from open_seq2seq.utils.errors import ConfigError

# Attributes of modules that do not belong to the tree.
_NOT_TREE = frozenset({"_model", "_params", "_regularized"})


class SharedVariable:
    """A placeholder that ``share_variables`` replaces with a variable of another model."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)


def _is_keras_layer(value: Any) -> bool:
    # Comparing names avoids importing Keras.
    return any(c.__name__ == "Layer" and c.__module__.startswith("keras.") for c in type(value).__mro__)


def _children(value: Any) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Yields (name, child, function that replaces the child) for the children of a module or a container."""
    if isinstance(value, tf.Module):
        for key, child in list(vars(value).items()):
            if key in _NOT_TREE or key.startswith("_self_"):  # TensorFlow's own attributes begin with _self_
                continue
            yield key.lstrip("_"), child, functools.partial(setattr, value, key)
    elif isinstance(value, Mapping):
        for key in value:
            yield str(key), value[key], functools.partial(operator.setitem, value, key)  # type: ignore[call-overload]
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield str(index), child, functools.partial(operator.setitem, value, index)  # type: ignore[call-overload]


def _walk(value: Any, path: str, seen: set[int], aliases: bool = False,
          ) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Yields (path, leaf, function that replaces the leaf) for variables, placeholders and Keras layers in ``value``.

    A leaf that several attributes or containers hold is yielded once or, with ``aliases``, once for each of them.
    """
    if id(value) in seen:
        return
    seen.add(id(value))
    for name, child, replace in _children(value):
        child_path = _child_path(value, path, name)
        if isinstance(child, (tf.Variable, SharedVariable)) or _is_keras_layer(child):
            if aliases or id(child) not in seen:
                seen.add(id(child))
                yield child_path, child, replace
        elif isinstance(child, (tf.Module, Mapping, list, tuple)) and not isinstance(child, CarriedState):
            yield from _walk(child, child_path, seen, aliases)


def _child_path(value: Any, path: str, name: str) -> str:
    if isinstance(value, (list, tuple)):  # the elements of the list `layers` are layer_0, layer_1, …
        return f"{path[:-1] if path.endswith('s') else path}_{name}"
    return f"{path}/{name}" if path else name


def named_modules(root: tf.Module) -> dict[str, tf.Module]:
    """Returns ``root`` (with an empty path) and all modules below it by path.

    A module that has several paths is listed only under the first.
    """
    modules: dict[str, tf.Module] = {}
    seen: set[int] = set()

    def visit(value: Any, path: str) -> None:
        if id(value) in seen or _is_keras_layer(value):
            return
        seen.add(id(value))
        if isinstance(value, tf.Module) and not isinstance(value, tf.Variable):
            modules[path] = value
        for name, child, _ in _children(value):
            if isinstance(child, (tf.Module, Mapping, list, tuple)):
                visit(child, _child_path(value, path, name))

    visit(root, "")
    return modules


def carried_states(root: tf.Module) -> dict[str, CarriedState]:
    """Returns the carried states below ``root`` by path; a state that has several paths is listed under the first."""
    return {path: module for path, module in named_modules(root).items() if isinstance(module, CarriedState)}


def _keras_variables(path: str, layer: Any) -> Iterator[tuple[str, tf.Variable]]:
    used: dict[str, int] = {}
    for weight in layer.variables:
        count = used.get(weight.name, 0)
        used[weight.name] = count + 1
        yield f"{path}/{weight.name}" + (f"_{count}" if count else ""), weight.value


def named_variables(root: tf.Module) -> dict[str, tf.Variable]:
    """Returns all weights and statistics below ``root`` by path, including those of Keras layers.

    Carried states are not included. A variable that several components share is listed under its first path.

    Raises:
      ConfigError: a placeholder has not been replaced.
    """
    variables: dict[str, tf.Variable] = {}
    for path, leaf, _ in _walk(root, "", set()):
        if isinstance(leaf, SharedVariable):
            raise ConfigError([f"The variable '{path}' is a placeholder: call share_variables first to replace it."])
        variables.update([(path, leaf)] if isinstance(leaf, tf.Variable) else _keras_variables(path, leaf))
    return variables


def has_unbuilt_layers(root: tf.Module) -> bool:
    """Returns whether a Keras layer below ``root`` has no variables yet, because it creates them in its first call."""
    return any(_is_keras_layer(leaf) and not leaf.built for _, leaf, _ in _walk(root, "", set()))


def regularized_variables(root: tf.Module) -> list[tuple[tf.Variable, Callable[[tf.Tensor], tf.Tensor]]]:
    """Returns the (variable, regulariser) pairs of all modules below ``root``."""
    pairs: list = []
    stack, seen = [root], set()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        pairs.extend(getattr(value, "_regularized", ()) if isinstance(value, tf.Module) else ())
        stack.extend(c for _, c, _ in _children(value) if isinstance(c, (tf.Module, Mapping, list, tuple)))
    return pairs


def described_variables(root: tf.Module) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of all placeholders below ``root`` by path."""
    return {path: leaf.shape for path, leaf, _ in _walk(root, "", set()) if isinstance(leaf, SharedVariable)}


def share_variables(model: tf.Module, owner: tf.Module) -> None:
    """Replaces placeholders and Keras layers of ``model`` with the variables and layers of ``owner`` at the same paths.

    Carried states are not shared.

    Raises:
      ConfigError: ``owner`` has no variable of the same shape, or no layer, at one of the paths.
    """
    owned = {path: leaf for path, leaf, _ in _walk(owner, "", set(), aliases=True)}
    problems = []
    for path, leaf, replace in list(_walk(model, "", set(), aliases=True)):
        other = owned.get(path)
        if other is None or (isinstance(leaf, SharedVariable) and tuple(other.shape) != leaf.shape):
            problems.append(f"The evaluation model needs the variable '{path}', but the training model has no "
                            "variable of this name and shape: use the same encoder, decoder and vocabularies in both.")
        else:
            replace(other)
    if problems:
        raise ConfigError(problems)
