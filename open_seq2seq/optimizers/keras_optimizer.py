"""Adapter that runs Keras optimizers with the toolkit's learning rates and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.clipping import Gradients
from open_seq2seq.optimizers.optimizer import Optimizer, Variables
from open_seq2seq.parts.initializers import make_with_arguments
from open_seq2seq.utils.errors import ConfigError

# Keras' classes that do not work here, with the reason; the toolkit has optimizers of the same names.
_REFUSED = {
    "Ftrl": "divides by the learning rate even if it is 0, as at the start of a warm-up",
    "Muon": "chooses its updates by names that only variables of Keras have",
    "ScheduleFreeAdamW": "would replace the weights of load_model by random ones, and does not evaluate its average",
}


def is_keras_optimizer(value: Any) -> bool:
    """Returns whether a value is a subclass of Keras' ``Optimizer``, without importing Keras."""
    return isinstance(value, type) and any(c.__name__ == "Optimizer" and c.__module__.startswith(
        ("keras.", "tensorflow.keras")) for c in value.__mro__[1:])


def _on_each_device(optimizer_class: Any) -> Any:
    """Returns a subclass of a Keras optimizer with which each replica updates its own copy of every variable.

    Keras' base class would update the copies on all devices.
    """

    class OnEachDevice(tf.keras.optimizers.Optimizer):
        def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
            for gradient, variable in zip(grads, trainable_variables, strict=True):
                value = variable.value if isinstance(variable, tf.keras.Variable) else variable
                self.update_step(gradient, value, learning_rate)

        def _apply_weight_decay(self, variables: Any) -> None:
            if self.weight_decay is None:
                return
            for variable in variables:
                value = variable.value if isinstance(variable, tf.keras.Variable) else variable
                if self._use_weight_decay(value):
                    value.assign_sub(value * self.weight_decay * self.learning_rate)

    # The methods above replace those of Keras' base class only: Nadam has its own, which updates a product first.
    return type(optimizer_class.__name__, (optimizer_class, OnEachDevice), {})


class KerasOptimizer(Optimizer):
    """Adapts a Keras optimizer to the toolkit.

    The learning rate comes from ``lr_policy``. Gradients reach Keras unscaled and, with ``max_grad_norm``, already
    clipped, so Keras' own clipping arguments apply to the clipped gradients; its weight decay changes the weights
    directly, not through the gradients. Gradients of embedding lookups are converted to dense tensors.

    Args:
      optimizer_class: a ``keras.optimizers.Optimizer`` subclass.
      params: arguments of the class, without ``learning_rate``.

    Raises:
      ConfigError: the class does not accept the arguments, or does not work with the toolkit.
    """

    takes_layer_rates = False  # Keras updates all variables at once

    def __init__(self, optimizer_class: type, **params: Any) -> None:
        super().__init__()
        for name, reason in _REFUSED.items():
            if issubclass(optimizer_class, getattr(tf.keras.optimizers, name, ())):
                raise ConfigError([f"'optimizer' is Keras' {name}, which {reason}: choose the toolkit's '{name}'."])
        for name, instead in (("learning_rate", "the learning rate in 'lr_policy_params'"),
                              ("gradient_accumulation_steps", "'iter_size'"), ("loss_scale_factor", "'loss_scaling'")):
            if name in params:
                raise ConfigError([f"'optimizer_params/{name}' is not a parameter of the optimizer: set {instead}."])
        self._keras = make_with_arguments(_on_each_device(optimizer_class), params, "optimizer_params",
                                          learning_rate=0.0)
        self._params = MappingProxyType(dict(params))
        self._state: Variables = {}

    def build(self, variables: Variables) -> None:
        super().build({})  # Keras has the slots
        self._keras.build(list(variables.values()))
        self._state = dict(self._named_state(list(variables)))

    def state(self) -> Variables:
        return dict(self._state)

    def num_state_values(self, name: str, shape: tuple[int, ...]) -> int:
        return 2 * math.prod(shape)  # as Adam; few classes have more, and their slots are unknown before ``build``

    def apply(self, gradients: Gradients, variables: Variables, learning_rate: tf.Tensor,
              update_index: tf.Tensor) -> None:
        if self._slots is None:
            raise RuntimeError("The optimizer has no slots yet: call build first.")
        self._keras.learning_rate.assign(learning_rate)
        self._keras.iterations.assign(tf.cast(update_index, self._keras.iterations.dtype))
        self._keras.apply_gradients([(self.prepare(g), variables[name]) for name, g in gradients.items()])

    def _named_state(self, names: list[str]) -> Iterator[tuple[str, tf.Variable]]:
        """Yields pairs of a name such as ``momentums/encoder/kernel`` and a variable of the optimizer's state.

        Keras' own names are not unique. Keras keeps slots in lists with one entry per trained variable, in order;
        other variables are numbered. The learning rate and the iteration are left out, because ``apply`` sets them.
        """
        known = {id(v) for v in (self._keras.iterations, self._keras.learning_rate)}
        own = {id(v) for v in self._keras.variables}
        for attribute, entries in sorted(vars(self._keras).items()):
            if isinstance(entries, list) and len(entries) == len(names):
                for name, entry in zip(names, entries, strict=True):
                    if id(entry) in own and id(entry) not in known:
                        known.add(id(entry))
                        yield f"{attribute.strip('_')}/{name}", getattr(entry, "value", entry)
        for index, entry in enumerate(self._keras.variables):
            if id(entry) not in known:
                yield f"other/{index}", getattr(entry, "value", entry)
