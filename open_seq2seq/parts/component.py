"""Base classes of all components that a config can select, and of their layers.

A component is a ``tf.Module`` whose variables are named by their attribute path from the model down:
``encoder/layer_0/self_attention/query``. Names do not depend on the order of creation or on name scopes.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.names import resolve_names
from open_seq2seq.config.params import FREE, CheckedParams, Param, check_params, declared_by, shown
from open_seq2seq.parts.carried_state import CarriedState
from open_seq2seq.parts.forward_pass import Stack
from open_seq2seq.parts.initializers import checked_regularizer, make_named
from open_seq2seq.parts.observation import observed_call
from open_seq2seq.utils.errors import ConfigError

__all__ = ["Component", "Module", "SharedVariable", "carried_states", "creating_variables", "has_unbuilt_layers",
           "named_modules", "named_variables", "regularized_variables", "share_variables"]

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


class _Creation(threading.local):
    """This thread's settings with which ``Module.weight`` creates variables; ``creating_variables`` sets them.

    Attributes:
      shared: whether placeholders are created instead of variables.
      seed: seed of the initial values.
      count: number of variables created so far, from which the seed of the next variable is computed.
    """

    shared = False
    seed = 0
    count = 0


_CREATION = _Creation()


@contextlib.contextmanager
def creating_variables(seed: int = 0, shared: bool = False) -> Iterator[None]:
    """Context manager within which variables are initialised with ``seed``, or placeholders are created instead.

    Args:
      seed: seed of the initial values, which also depend on the order in which variables are created.
      shared: whether to create placeholders, which ``share_variables`` replaces with another model's variables.
    """
    before = (_CREATION.shared, _CREATION.seed, _CREATION.count)
    _CREATION.shared, _CREATION.seed, _CREATION.count = shared, seed, 0
    # Keras initialisers take their default seeds from Python's generator.
    python_state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        _CREATION.shared, _CREATION.seed, _CREATION.count = before
        random.setstate(python_state)


def _initial_value(initializer: Any, shape: Sequence[int]) -> tf.Tensor:
    _CREATION.count += 1
    if initializer is None:
        initializer = "glorot_uniform"
    if isinstance(initializer, str):
        initializer = tf.keras.initializers.get(initializer)
    if hasattr(initializer, "get_config") and "seed" in initializer.get_config():
        settings = initializer.get_config()
        # Each variable gets its own seed. The shift keeps the seed below 2³¹, so that it fits into an int32.
        settings["seed"] = int(np.random.SeedSequence([_CREATION.seed, _CREATION.count]).generate_state(1)[0] >> 1)
        initializer = type(initializer).from_config(settings)
    try:
        return tf.ensure_shape(tf.cast(initializer(tuple(shape)), tf.float32), shape)
    except (TypeError, ValueError, NotImplementedError, tf.errors.InvalidArgumentError) as error:
        raise ConfigError([f"The initialiser {shown(initializer)} failed for a variable of shape {list(shape)}: "
                           f"{shown(str(error))}. Correct 'initializer' or 'initializer_params'."]) from error


class Module(tf.Module):
    """Base of layers, with variables, submodules and a ``__call__`` whose outputs ``parts.observation`` can record."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" in vars(cls):
            cls.__call__ = observed_call(vars(cls)["__call__"])  # type: ignore[attr-defined]

    def weight(self, shape: Sequence[int], initializer: Any = None, trainable: bool = True,
               regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None) -> tf.Variable:
        """Creates an FP32 variable; assign it to an attribute, which gives the variable its name.

        Within ``creating_variables(shared=True)``, returns a placeholder instead.

        Args:
          shape: the static shape.
          initializer: a Keras initialiser, its name, or a function of the shape; Glorot uniform by default.
          trainable: whether the optimizer updates the variable.
          regularizer: function from the variable to a scalar that is added to the loss.

        Raises:
          ConfigError: the initialiser fails or returns a tensor of another shape.
        """
        if _CREATION.shared:
            return SharedVariable(shape)  # type: ignore[return-value]
        variable = tf.Variable(_initial_value(initializer, shape), trainable=trainable)
        if regularizer is not None:
            if not hasattr(self, "_regularized"):
                self._regularized: tuple = ()
            self._regularized = (*self._regularized, (variable, regularizer))
        return variable

    def carried_state(self, shape: Sequence[int], dtype: tf.DType = tf.float32) -> CarriedState:
        """Creates a state that is carried over from batch to batch; assign it to an attribute, which names it.

        Args:
          shape: shape of one row's state, such as ``[units]``.
          dtype: float32, an integer dtype or bool.

        Raises:
          ValueError: the dtype is a floating-point one other than float32.
        """
        return CarriedState(shape, dtype)


class Component(Module):
    """Base of classes that a config can select; declares and checks parameters and fills in defaults.

    Args:
      params: the component's parameters.
      model: the model that the component belongs to, or None.
      name: the component's name in the model, such as ``encoder``.
      mode: ``train``, ``eval``, ``infer`` or, for data layers, ``interactive_infer``.

    Raises:
      ConfigError: parameters are unknown, missing or invalid; one error can list several.
    """

    _is_arithmetic = True  # whether ``dtype`` is the dtype of the component's arithmetic and must be floating-point

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str | None = None,
                 mode: str = "train") -> None:
        super().__init__(name=name)
        declared = declared_by(type(self))
        checked, problems = check_params(params, declared.required, declared.optional, self.params_path)
        if not problems:
            checked, problems = resolve_names(checked, declared.all, self.params_path)
            problems += self._value_problems(checked)
        if problems:
            raise ConfigError(problems)
        self._params = CheckedParams(checked, self.params_path)
        self._model = model
        self._mode = mode
        self._training_scopes = Stack()

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        """Returns the specs of the required parameters by name."""
        return {}

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        """Returns the specs of the optional parameters by name."""
        return {
            "dtype": Param((tf.DType, str), tf.float32, "Dtype of the arithmetic; by default the model's, but float32 "
                           "for losses.",
                           derived=True),
            "initializer": Param((type, callable, str, type(None)), None,
                                 "Initialiser of the component's kernels and, in some components, of embeddings. By "
                                 "default, encoders and decoders use the model's, or choose one if it has none.",
                                 names="initializer", on_change=FREE),
            "initializer_params": Param(dict, {}, "Arguments of the initialiser.", on_change=FREE),
            "regularizer": Param((type, callable, str, type(None)), None,
                                 "Regulariser of the component's kernels and, in some components, of embeddings or of "
                                 "batch norm's scale. By default, encoders and decoders use the model's.",
                                 names="regularizer"),
            "regularizer_params": Param(dict, {}, "Arguments of the regulariser."),
        }

    @classmethod
    def declared_params(cls) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the specs of all parameters by name: (required, optional)."""
        return cls.get_required_params(), cls.get_optional_params()

    def _value_problems(self, params: Mapping[str, Any]) -> list[str]:
        """Returns one message for each value that has the right type but is invalid."""
        dtype = params.get("dtype")
        try:
            fits = dtype is None or tf.as_dtype(dtype).is_floating or not self._is_arithmetic
        except TypeError:
            fits = False
        return [] if fits else [
            f"'{self.params_path}/dtype' must be a floating-point dtype, such as float32, got {shown(dtype)}."]

    @property
    def params_path(self) -> str:
        """The path of this component's parameters in the config, for messages."""
        return f"{self.name}_params"

    @property
    def params(self) -> Mapping[str, Any]:
        """The checked parameters, with defaults filled in and names resolved to objects."""
        return self._params

    @property
    def model(self) -> Any:
        """The model that this component belongs to, or None."""
        return self._model

    @property
    def mode(self) -> str:
        """The mode, such as ``train``."""
        return self._mode

    @property
    def training(self) -> bool:
        """Whether this is the forward pass of a training step, in which dropout is applied."""
        return bool(self._training_scopes.entries) and self._training_scopes.entries[-1]

    @property
    def compute_dtype(self) -> tf.DType:
        """The dtype of matrix products: float32, bfloat16 or float16; variables are FP32."""
        return self.dtype_of("product")

    def dtype_of(self, kind: str) -> tf.DType:
        """Returns the dtype for one kind of operations: the component's ``dtype`` or float32.

        With the dtype ``mixed``, a model may compute some kinds of operations in half precision and others in float32.
        A component whose ``dtype`` differs from the model's uses its own ``dtype`` for all kinds.

        Args:
          kind: one of ``precision.KINDS``.
        """
        dtype, precision = tf.as_dtype(self._params["dtype"]), getattr(self._model, "precision", None)
        return dtype if precision is None or dtype != precision.compute else precision.type_of(kind)

    @property
    def keras_dtype_policy(self) -> str:
        """The ``dtype`` argument for a Keras layer inside this component."""
        return "float32" if self.compute_dtype == tf.float32 else f"mixed_{self.compute_dtype.name}"

    @contextlib.contextmanager
    def in_training(self, training: bool) -> Iterator[None]:
        """Context manager within which ``self.training`` is ``training``."""
        self._training_scopes.entries.append(training)
        try:
            yield
        finally:
            self._training_scopes.entries.pop()

    def params_of_inner(self, cls: Any, own: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """Returns the parameters of a component inside this one.

        Args:
          cls: the class of the inner component, which declares its parameters.
          own: its own parameters. An initialiser or regulariser among them replaces this component's arguments, too.
          names: parameters, besides dtype, initialiser and regulariser, that it takes from this component.
        """
        kinds = [kind for kind in ("initializer", "regularizer") if own.get(kind) is None]
        names = ("dtype", *kinds, *(f"{kind}_params" for kind in kinds), *names)
        return {**{name: self._params[name] for name in names if name in declared_by(cls).all}, **own}

    def make_initializer(self, default: Any = None) -> Any:
        """Returns the configured initialiser, or ``default`` if none is configured.

        Raises:
          ConfigError: the name or the arguments are invalid.
        """
        chosen = self._params["initializer"]
        if chosen is None:
            return default
        return make_named(chosen, self._params["initializer_params"], "initializer", f"{self.params_path}/initializer")

    def make_regularizer(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """Returns the configured regulariser as a function of a variable, or None.

        Raises:
          ConfigError: the name or the arguments are invalid, or the regulariser does not return a scalar.
        """
        chosen = self._params["regularizer"]
        if chosen is None:
            return None
        path = f"{self.params_path}/regularizer"
        return checked_regularizer(make_named(chosen, self._params["regularizer_params"], "regularizer", path), path)
