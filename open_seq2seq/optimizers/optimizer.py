"""Base class of optimizers: declared parameters, named slots, and an update rule that subclasses implement."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import check_params
from open_seq2seq.optimizers.clipping import Gradient, Gradients, sum_duplicates, unique_rows_for_xla
from open_seq2seq.parts.component import Module
from open_seq2seq.utils.errors import ConfigError

Variables = dict[str, tf.Variable]


class Slot(NamedTuple):
    """A tensor that an optimizer keeps for each variable.

    Attributes:
      shape: shape of the tensor, usually that of the variable.
      initial: initial value of all elements; None means the initial value of the variable.
    """

    shape: tuple[int, ...]
    initial: float | None = 0.0


class Optimizer(Module):
    """Base class of optimizers; each update receives the learning rate and the number of previous updates.

    A subclass declares its parameters (``get_optional_params``) and slots (``_slots_of``), and implements the update of
    one variable (``_update_dense``). ``_begin`` computes values that all variables share.

    ``IndexedSlices`` (gradients of embedding lookups) have the same effect as a dense gradient with zeros in the other
    rows, unless a class documents otherwise. A class that can skip the rows without a gradient sets
    ``updates_rows`` and implements ``_update_rows``.

    Args:
      params: the parameters, ``optimizer_params`` in configs.

    Attributes:
      updates_rows: whether the class implements ``_update_rows``; otherwise ``IndexedSlices`` are converted to dense
        gradients.
      takes_layer_rates: whether ``apply`` may be called several times per update, with a learning rate for each group
        of variables.
      product_dtype: dtype of the matrix products of an update, if the class makes any; FP32 unless it is set.
      average: the average of the weights that the class itself keeps, a ``WeightAverage``; None without one.

    Raises:
      ConfigError: parameters are unknown or invalid; the error lists all of them.
    """

    updates_rows = False
    takes_layer_rates = True
    product_dtype: tf.DType = tf.float32
    average: Any = None

    def __init__(self, **params: Any) -> None:
        super().__init__()
        declared = self.get_optional_params()
        if "learning_rate" in params and "learning_rate" not in declared:
            raise ConfigError(["'optimizer_params/learning_rate' is not a parameter of the optimizer: "
                               "set the learning rate in 'lr_policy_params'."])
        checked, problems = check_params(params, {}, declared, "optimizer_params")
        if problems:
            raise ConfigError(problems)
        self._params = MappingProxyType(checked)
        self._slots: dict[str, Variables] | None = None

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        """Returns the specs of the parameters by name."""
        return {}

    @property
    def params(self) -> Any:
        """The checked parameters, with defaults filled in."""
        return self._params

    def build(self, variables: Variables) -> None:
        """Creates the slots; must be called exactly once, outside of any ``tf.function``.

        Args:
          variables: the variables that will be updated, by name.

        Raises:
          RuntimeError: the slots have already been created.
        """
        if self._slots is not None:
            raise RuntimeError("The optimizer has already been built.")
        slots: dict[str, Variables] = {}
        for name, variable in variables.items():
            for kind, slot in self._slots_of(tuple(variable.shape)).items():
                initial = variable.read_value() if slot.initial is None else tf.fill(
                    slot.shape, tf.constant(slot.initial, tf.float32))
                slots.setdefault(kind, {})[name] = tf.Variable(initial, trainable=False)
        self._slots = slots

    def state(self) -> Variables:
        """Returns the variables saved in checkpoints, with stable names such as ``m/encoder/layer_0/kernel``."""
        return {f"{kind}/{name}": variable for kind, slots in (self._slots or {}).items()
                for name, variable in slots.items()}

    def num_state_values(self, name: str, shape: tuple[int, ...]) -> int:
        """Returns the number of values in the slots of a variable of this name and shape."""
        return sum(math.prod(slot.shape) for slot in self._slots_of(shape).values())

    def apply(self, gradients: Gradients, variables: Variables, learning_rate: tf.Tensor,
              update_index: tf.Tensor) -> None:
        """Updates the variables that have a gradient.

        Args:
          gradients: FP32 gradients by variable name, dense or ``IndexedSlices`` (indices may repeat).
          variables: the variables by name, at least those with a gradient.
          learning_rate: FP32 scalar.
          update_index: int64 scalar, number of previous updates.

        Raises:
          RuntimeError: ``build`` has not been called.
        """
        if self._slots is None:
            raise RuntimeError("The optimizer has no slots yet: call build first.")
        step = self._begin(tf.convert_to_tensor(learning_rate, tf.float32), tf.cast(update_index, tf.int64))
        for name, gradient in gradients.items():
            slots = {kind: of[name] for kind, of in self._slots.items() if name in of}
            gradient = self.prepare(gradient)
            if isinstance(gradient, tf.IndexedSlices):
                self._update_rows(variables[name], gradient, slots, step)
            else:
                self._update_dense(variables[name], gradient, slots, step)

    def prepare(self, gradient: Gradient, for_xla: bool = False) -> Gradient:
        """Returns a gradient in the form that the update rule expects: dense, or without duplicate rows."""
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.updates_rows:
            return tf.convert_to_tensor(gradient)
        return unique_rows_for_xla(gradient) if for_xla else sum_duplicates(gradient)

    def _slots_of(self, shape: tuple[int, ...]) -> dict[str, Slot]:
        """Returns the slots for a variable of this shape, by kind."""
        return {}

    def _begin(self, learning_rate: tf.Tensor, update_index: tf.Tensor) -> Any:
        """Computes the values that all variables share in this update.

        The result is passed to ``_update_dense`` and ``_update_rows`` as ``step``. By default it is the learning rate,
        an FP32 scalar.
        """
        return learning_rate

    def _update_dense(self, variable: tf.Variable, gradient: tf.Tensor, slots: Variables, step: Any) -> None:
        """Updates a variable and its slots.

        Args:
          variable: the variable.
          gradient: FP32, of the variable's shape.
          slots: the variable's slots by kind, as in ``_slots_of``.
          step: the result of ``_begin``.
        """
        raise NotImplementedError("An optimizer must implement _update_dense(variable, gradient, slots, step).")

    def _update_rows(self, variable: tf.Variable, gradient: tf.IndexedSlices, slots: Variables, step: Any) -> None:
        """Updates the rows of a variable that have a gradient, like ``_update_dense``; indices do not repeat."""
        raise NotImplementedError("An optimizer with updates_rows must implement _update_rows.")
