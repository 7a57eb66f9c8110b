"""Initialisers and regularisers by name. Keras' deserialisation is not used, because it imports arbitrary modules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import register, resolve_name, with_package
from open_seq2seq.config.params import check_arguments
from open_seq2seq.utils.errors import ConfigError

# Standard deviation of a standard normal distribution that is truncated at -2 and 2.
_TRUNCATED_DEVIATION = 0.87962566103423978
# Additional names of Keras initialisers and regularisers.
_ALIASES = {"uniform": "RandomUniform", "normal": "RandomNormal", "one": "Ones", "zero": "Zeros", "l1l2": "L1L2"}


def _keras_classes(room: str, base: str) -> dict[str, Any]:
    """Returns the public subclasses of ``base`` in ``tf.keras.<room>``, under all of their names."""
    module = getattr(tf.keras, room)
    wanted = getattr(module, base)
    classes = {name: value for name, value in vars(module).items()
               if inspect.isclass(value) and issubclass(value, wanted) and value is not wanted}
    in_snake_case = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() if name != "L1L2" else "l1_l2": value
                     for name, value in classes.items()}
    bare = {**classes, **in_snake_case,
            **{alias: classes[name] for alias, name in _ALIASES.items() if name in classes}}
    return with_package(bare, f"tf.keras.{room}")


def _tensorflow_initializers() -> dict[str, Any]:
    """Returns the public initialiser classes outside of Keras, such as ``tf.random_uniform_initializer``."""
    v1 = tf.compat.v1
    bases = (tf.constant_initializer.__base__, v1.constant_initializer.__base__)
    return {f"{place}.{name}": value for place, module in (
                ("tf", tf), ("tf.compat.v1", v1), ("tf.compat.v1.initializers", v1.initializers))
            for name, value in vars(module).items() if inspect.isclass(value) and issubclass(value, bases)}


class ContribVarianceScaling(tf.keras.initializers.VarianceScaling):
    """Initialiser ``variance_scaling_initializer`` of TensorFlow 1 (``contrib.layers``).

    Normal values are truncated at two standard deviations, of which there are ``sqrt(1.3 · factor / n)``, so that the
    variance of the result is ``factor / n``; Keras' ``VarianceScaling`` uses 1.2925 instead of 1.3.

    Args:
      factor: variance of the values, times ``n``.
      mode: ``n`` is the number of inputs (``FAN_IN``) or outputs (``FAN_OUT``) of a unit, or their mean (``FAN_AVG``).
      uniform: whether the distribution is uniform instead of normal.
      seed: seed of the random numbers.
    """

    def __init__(self, factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False,
                 seed: int | None = None) -> None:
        self.factor, self.uniform = factor, uniform
        scale = factor if uniform else factor * 1.3 * _TRUNCATED_DEVIATION ** 2
        super().__init__(scale, mode.lower(), "uniform" if uniform else "truncated_normal", seed)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {"factor": self.factor, "mode": self.mode.upper(), "uniform": self.uniform,
                "seed": super().get_config()["seed"]}


class ContribXavier(ContribVarianceScaling):
    """Initialiser ``xavier_initializer`` of TensorFlow 1 (``contrib.layers``; Glorot and Bengio 2010).

    Args:
      uniform: whether the distribution is uniform instead of normal.
      seed: seed of the random numbers.
    """

    def __init__(self, uniform: bool = True, seed: int | None = None) -> None:
        super().__init__(1.0, "FAN_AVG", uniform, seed)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {"uniform": self.uniform, "seed": super().get_config()["seed"]}


def make_named(chosen: Any, settings: Mapping[str, Any], kind: str, path: str) -> Any:
    """Returns the initialiser or regulariser that a config specifies.

    Args:
      chosen: a class, an initialiser, a regulariser, a function that returns a regulariser, or the name of one of
        these.
      settings: arguments of the class or of the function that returns a regulariser. For an initialiser that is not a
        class, they are ignored. A regulariser that is not a class is called with the settings only if there are any.
      kind: ``initializer`` or ``regularizer``.
      path: path of ``chosen`` in the config; the path of ``settings`` is ``<path>_params``.

    Raises:
      ConfigError: the name is unknown, or the arguments are invalid.
    """
    resolved = resolve_name(chosen, kind, path)
    # An initialiser function is used as it is. A function with settings makes a regulariser, like l2_regularizer of
    # TensorFlow 1.
    if not isinstance(resolved, type) and (kind == "initializer" or not settings):
        return resolved
    return make_with_arguments(resolved, settings, f"{path}_params")


def make_with_arguments(make: Callable[..., Any], arguments: Mapping[str, Any], path: str, **others: Any) -> Any:
    """Calls a class or function, usually one of Keras, with arguments from a config, and returns the result.

    Args:
      make: the class or function.
      arguments: the arguments from the config.
      path: path of the arguments in the config, for messages.
      others: further arguments, not from the config.

    Raises:
      ConfigError: the arguments are invalid.
    """
    if nested := [name for name, value in arguments.items() if isinstance(value, Mapping)]:
        # Keras would import and call any object that such a dict names.
        raise ConfigError([f"'{path}/{nested[0]}' must be a number, text or a list, not a dict; got "
                           f"{dict(arguments[nested[0]])!r}."])
    if problems := check_arguments(arguments, path):
        raise ConfigError(problems)
    try:
        return make(**others, **arguments)
    except (TypeError, ValueError) as error:
        name = getattr(make, "__name__", repr(make))
        raise ConfigError([f"'{path}' are not valid arguments of {name}: {str(error).splitlines()[0]}"]) from error


def checked_regularizer(regularizer: Any, path: str) -> Any:
    """Returns a regulariser after checking that it maps a variable to a scalar.

    Raises:
      ConfigError: the regulariser fails or does not return a scalar.
    """
    what = f"'{path}' is {getattr(regularizer, '__name__', regularizer)!r}, which does not map a variable to a scalar"
    try:
        with tf.Graph().as_default():
            penalty = tf.cast(regularizer(tf.Variable(tf.zeros([2, 2]))), tf.float32)
    except Exception as error:  # a user's function may raise anything
        raise ConfigError([f"{what} ({type(error).__name__}: {error}): give another regulariser."]) from error
    if penalty.shape.rank not in (0, None):
        raise ConfigError([f"{what} (the result has the shape {penalty.shape}): give another regulariser."])
    return regularizer


register("initializer", lambda: _keras_classes("initializers", "Initializer"),
         wanted="an initialiser: a class, a function of a shape, or the name of one")
register("initializer", _tensorflow_initializers)
register("initializer", lambda: {"variance_scaling_initializer": ContribVarianceScaling,
                                 "xavier_initializer": ContribXavier, "xavier_initializer_conv2d": ContribXavier})
register("regularizer", lambda: _keras_classes("regularizers", "Regularizer"),
         wanted="a regulariser: a class, a function, or the name of one")
