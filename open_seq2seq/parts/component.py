"""The base of everything a config can name, and of the layers inside.

A component is a ``tf.Module`` whose variables get their names from where they sit:
the attribute path from the model down, ``encoder/layer_0/self_attention/query``.
The names do not depend on creation order or on name scopes, so a checkpoint, a
second model that borrows variables, and a reader of the code all see the same tree.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.names import resolve_names
from open_seq2seq.config.params import Param, check_params
from open_seq2seq.parts.initializers import make_named
from open_seq2seq.parts.observation import observed_call
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.stacks import Stack

_NOT_TREE = frozenset({"_model", "_params", "_regularized"})


class BorrowedVariable:
    """Stands in for a variable until ``borrow_variables`` puts the real one here."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)


class _Creation:
    """How ``Module.weight`` makes variables at the moment."""

    borrow = False
    seed = 0
    count = 0


@contextlib.contextmanager
def creating_variables(seed: int = 0, borrow: bool = False) -> Iterator[None]:
    """Within this context, variables are initialised from ``seed``, or only stood in for.

    Args:
      seed: initial values follow from it and the order of creation.
      borrow: make ``BorrowedVariable`` placeholders, to be filled by ``borrow_variables``.
    """
    before = (_Creation.borrow, _Creation.seed, _Creation.count)
    _Creation.borrow, _Creation.seed, _Creation.count = borrow, seed, 0
    # Keras' initialisers take their default seeds from Python's generator.
    python_state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        _Creation.borrow, _Creation.seed, _Creation.count = before
        random.setstate(python_state)


def _initial_value(initializer: Any, shape: Sequence[int]) -> tf.Tensor:
    _Creation.count += 1
    if initializer is None:
        initializer = "glorot_uniform"
    if isinstance(initializer, str):
        initializer = tf.keras.initializers.get(initializer)
    if hasattr(initializer, "get_config") and "seed" in initializer.get_config():
        settings = initializer.get_config()
        settings["seed"] = int(np.random.SeedSequence([_Creation.seed, _Creation.count]).generate_state(1)[0] >> 1)
        initializer = type(initializer).from_config(settings)
    return tf.cast(initializer(tuple(shape)), tf.float32)


class Module(tf.Module):
    """A layer: variables, other modules, and a ``__call__``, whose outputs ``parts.observation`` can see."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" in vars(cls):
            cls.__call__ = observed_call(vars(cls)["__call__"])  # type: ignore[attr-defined]

    def weight(self, shape: Sequence[int], initializer: Any = None, trainable: bool = True,
               regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None) -> tf.Variable:
        """Makes an FP32 variable; assign it to an attribute, which names it.

        Args:
          shape: its static shape.
          initializer: a Keras initialiser, its name, or a function of the shape;
            Glorot uniform by default.
          trainable: whether the optimizer updates it.
          regularizer: function of the variable that gives a scalar, added to the loss.
        """
        if _Creation.borrow:
            return BorrowedVariable(shape)  # type: ignore[return-value]
        variable = tf.Variable(_initial_value(initializer, shape), trainable=trainable)
        if regularizer is not None:
            if not hasattr(self, "_regularized"):
                self._regularized: tuple = ()
            self._regularized = (*self._regularized, (variable, regularizer))
        return variable


class Component(Module):
    """A class that configs name: parameters are declared, checked and filled in.

    Args:
      params: this component's parameters.
      model: the model it belongs to, or None.
      name: its name in the model: ``encoder``, ``decoder``, ``loss``.
      mode: ``train``, ``eval`` or ``infer``.

    Raises:
      ConfigError: unknown, missing or ill-typed parameters, all of them together.
    """

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str | None = None,
                 mode: str = "train") -> None:
        super().__init__(name=name)
        required, optional = self.declared_params()
        checked, problems = check_params(params, required, optional, self.params_path)
        if not problems:
            checked, problems = resolve_names(checked, {**optional, **required}, self.params_path)
        if problems:
            raise ConfigError(problems)
        # A plain dict would be wrapped by tf.Module's attribute tracking.
        self._params = MappingProxyType(checked)
        self._model = model
        self._mode = mode
        self._training_scopes = Stack()

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        """Returns name to spec of the parameters that must be given."""
        return {}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        """Returns name to spec of the parameters that may be given."""
        return {
            "dtype": Param((tf.DType, str), tf.float32, "Arithmetic type; by default the model's, in losses float32.",
                           derived=True),
            "initializer": Param((type, callable, str, type(None)), None,
                                 "Initialiser of the component's variables; its own choice by default.",
                                 names="initializer"),
            "initializer_params": Param(dict, {}, "Arguments of the initialiser."),
            "regularizer": Param((type, callable, str, type(None)), None, "Regulariser of the component's kernels.",
                                 names="regularizer"),
            "regularizer_params": Param(dict, {}, "Arguments of the regulariser."),
        }

    @classmethod
    def declared_params(cls) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns what may be given in all: (required, optional), each name to spec."""
        return cls.get_required_params(), cls.get_optional_params()

    @property
    def params_path(self) -> str:
        """Where this component's parameters stand in the config, for messages."""
        return f"{self.name}_params"

    @property
    def params(self) -> Mapping[str, Any]:
        """The checked parameters, defaults filled in, and objects in the places of their names."""
        return self._params

    @property
    def model(self) -> Any:
        """The model that this component belongs to, or None."""
        return self._model

    @property
    def mode(self) -> str:
        """``train``, ``eval`` or ``infer``: what the model was built for."""
        return self._mode

    @property
    def training(self) -> bool:
        """True while the forward pass of a training step is traced (dropout on)."""
        return bool(self._training_scopes.entries) and self._training_scopes.entries[-1]

    @property
    def compute_dtype(self) -> tf.DType:
        """Type of matrix arithmetic: float32, bfloat16 or float16; variables are FP32."""
        return tf.as_dtype(self._params["dtype"])

    @property
    def keras_dtype_policy(self) -> str:
        """The ``dtype`` argument for a Keras layer inside this component."""
        return "float32" if self.compute_dtype == tf.float32 else f"mixed_{self.compute_dtype.name}"

    @contextlib.contextmanager
    def in_training(self, training: bool) -> Iterator[None]:
        """Sets ``self.training`` while a body runs."""
        self._training_scopes.entries.append(training)
        try:
            yield
        finally:
            self._training_scopes.entries.pop()

    def make_initializer(self, default: Any = None) -> Any:
        """Returns the configured initialiser, or ``default`` when none is configured."""
        chosen = self._params["initializer"]
        if chosen is None:
            return default
        return make_named(chosen, self._params["initializer_params"], "initializer", f"{self.params_path}/initializer")

    def make_regularizer(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """Returns the configured regulariser as a function of a variable, or None."""
        chosen = self._params["regularizer"]
        if chosen is None:
            return None
        return make_named(chosen, self._params["regularizer_params"], "regularizer", f"{self.params_path}/regularizer")


def _is_keras_layer(value: Any) -> bool:
    # Looking at the class tree by name keeps Keras unimported where it is not used.
    return any(c.__name__ == "Layer" and c.__module__.startswith("keras.") for c in type(value).__mro__)


def _children(value: Any) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Yields (name, child, function that puts another value in the child's place)."""
    if isinstance(value, tf.Module):
        for key, child in list(vars(value).items()):
            if key in _NOT_TREE or key.startswith("_self_"):
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
    """Yields (path, leaf, replace) for every variable, placeholder and Keras layer below ``value``.

    A leaf held in several places comes once, or with ``aliases`` once for each place.
    """
    if id(value) in seen:
        return
    seen.add(id(value))
    for name, child, replace in _children(value):
        child_path = _child_path(value, path, name)
        if isinstance(child, (tf.Variable, BorrowedVariable)) or _is_keras_layer(child):
            if aliases or id(child) not in seen:
                seen.add(id(child))
                yield child_path, child, replace
        elif isinstance(child, (tf.Module, Mapping, list, tuple)):
            yield from _walk(child, child_path, seen, aliases)


def _child_path(value: Any, path: str, name: str) -> str:
    if isinstance(value, (list, tuple)):  # the list `layers` holds layer_0, layer_1, …
        return f"{path[:-1] if path.endswith('s') else path}_{name}"
    return f"{path}/{name}" if path else name


def named_modules(root: tf.Module) -> dict[str, tf.Module]:
    """Returns ``root`` (by the empty path) and every module below it by path; a shared one by its first place."""
    found: dict[str, tf.Module] = {}
    seen: set[int] = set()

    def visit(value: Any, path: str) -> None:
        if id(value) in seen or _is_keras_layer(value):
            return
        seen.add(id(value))
        if isinstance(value, tf.Module) and not isinstance(value, tf.Variable):
            found[path] = value
        for name, child, _ in _children(value):
            if isinstance(child, (tf.Module, Mapping, list, tuple)):
                visit(child, _child_path(value, path, name))

    visit(root, "")
    return found


def _keras_variables(path: str, layer: Any) -> Iterator[tuple[str, tf.Variable]]:
    used: dict[str, int] = {}
    for weight in layer.variables:
        count = used.get(weight.name, 0)
        used[weight.name] = count + 1
        yield f"{path}/{weight.name}" + (f"_{count}" if count else ""), weight.value


def named_variables(root: tf.Module) -> dict[str, tf.Variable]:
    """Returns every variable below ``root`` by its path, Keras layers' included.

    A variable that several components share is named by the first place that holds it.
    """
    found: dict[str, tf.Variable] = {}
    for path, leaf, _ in _walk(root, "", set()):
        if isinstance(leaf, BorrowedVariable):
            raise ConfigError([f"The variable '{path}' has no value: the model that should lend it has none."])
        found.update([(path, leaf)] if isinstance(leaf, tf.Variable) else _keras_variables(path, leaf))
    return found


def has_unbuilt_layers(root: tf.Module) -> bool:
    """Whether a Keras layer below ``root`` has not made its variables yet; it does so at its first call."""
    return any(_is_keras_layer(leaf) and not leaf.built for _, leaf, _ in _walk(root, "", set()))


def regularized_variables(root: tf.Module) -> list[tuple[tf.Variable, Callable[[tf.Tensor], tf.Tensor]]]:
    """Returns the (variable, regulariser) pairs of every module below ``root``."""
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


def borrow_variables(borrower: tf.Module, lender: tf.Module) -> None:
    """Puts the lender's variables and Keras layers in the borrower's places of equal path.

    Raises:
      ConfigError: a variable that the lender has not, or has in another shape.
    """
    lent = {path: leaf for path, leaf, _ in _walk(lender, "", set(), aliases=True)}
    problems = []
    for path, leaf, replace in list(_walk(borrower, "", set(), aliases=True)):
        other = lent.get(path)
        if other is None or (isinstance(leaf, BorrowedVariable) and tuple(other.shape) != leaf.shape):
            problems.append(f"The evaluation model needs the variable '{path}', which the training model has not.")
        else:
            replace(other)
    if problems:
        raise ConfigError(problems)
